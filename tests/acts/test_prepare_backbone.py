"""Preparing the workspace says that the backbone is converted when it is, and nothing where it is ready already."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.acts import prepare as prepare_act
from core.backbone import convert
from core.backbone.base import State
from core.backbone.cache import BaselineCache
from core.backbone.load import CachedBackbone
from core.backbone.package import PackagedFile
from core.config import Config
from tests.backbone.conftest import converted_hash, hub_cache, own_config, packaged, site

__all__ = ["converted_hash", "hub_cache", "own_config", "packaged", "site"]


def test_a_conversion_is_announced_once(
    packaged: PackagedFile, own_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(spec: str, config: Config) -> CachedBackbone:
        return CachedBackbone(
            "small",
            lambda progress: convert.prepare(config.cache, packaged, progress),
            BaselineCache(None, config.cache / "baseline.sqlite"),
        )

    monkeypatch.setattr(prepare_act, "load", small)
    said: list[str] = []
    first = prepare_act._convert_backbone(own_config, said.append)
    assert said == ["Making the frozen backbone ready (about a minute, once) ..."]
    assert first == (packaged.name, None)
    assert prepare_act._convert_backbone(own_config, said.append) == first
    assert len(said) == 1


def test_every_step_of_preparing_has_its_words(own_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    class Telling:
        name = "told"

        def prepare(self, progress: Callable[[State], None]) -> Telling:
            for state in (State.CONVERTING, State.LOADING):
                progress(state)
            return self

    monkeypatch.setattr(prepare_act, "load", lambda spec, config: Telling())
    said: list[str] = []
    assert prepare_act._convert_backbone(own_config, said.append) == ("told", None)
    assert said[1] == "Reading the frozen backbone's weights ..."

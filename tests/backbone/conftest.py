from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from huggingface_hub import constants

from core import config as config_module
from core.backbone.load import CachedBackbone, load
from core.config import Config
from tests.backbone import tiny


@pytest.fixture(scope="session")
def hub_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    tiny.build(folder)
    return folder


@pytest.fixture
def own_config(tmp_path: Path, hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A configuration with an empty cache of its own and the tiny model in the Hugging Face cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(hub_cache))  # for processes started by a test
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub_cache))
    return dataclasses.replace(config_module.load(), cache=tmp_path / "cache")


@pytest.fixture
def backbone(own_config: Config) -> CachedBackbone:
    return load(tiny.SPEC, own_config, shipped=None)

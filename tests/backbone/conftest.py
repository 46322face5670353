from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from core import config as config_module
from core.backbone import convert
from core.backbone.load import CachedBackbone, load
from core.backbone.package import PackagedFile
from core.config import Config
from core.errors import ModelError
from tests.backbone import tiny, tiny_gguf


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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages that holds the tiny packaged model."""
    folder = tmp_path_factory.mktemp("site")
    tiny_gguf.build(folder)
    return folder


@pytest.fixture(scope="session")
def converted_hash(site: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the tiny packaged weights convert to: read off the refusal of a wrong pin."""
    sys.path.insert(0, str(site))
    try:
        with pytest.raises(ModelError) as refusal:
            convert.prepare(tmp_path_factory.mktemp("cache"), tiny_gguf.described(site, "0" * 64))
    finally:
        sys.path.remove(str(site))
    found = re.search(r"convert to ([0-9a-f]{64}), not to the pinned 0{64}", refusal.value.message)
    assert found is not None
    return found[1]


@pytest.fixture
def packaged(site: Path, converted_hash: str, monkeypatch: pytest.MonkeyPatch) -> PackagedFile:
    monkeypatch.syspath_prepend(str(site))
    return tiny_gguf.described(site, converted_hash)

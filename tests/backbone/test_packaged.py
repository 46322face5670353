"""The real weights. The conversion is shared by all tests (`DUEBOOK_CACHE`) and made on the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core import config as config_module
from core.backbone import package
from core.backbone.cache import BaselineCache
from core.backbone.load import CachedBackbone, load
from core.errors import MissingPackage
from tests.backbone.test_frozen import hash_of_file

pytestmark = pytest.mark.model

EVENTS = [
    "The landlord emailed the signed lease at 9.",
    "Maria said she might pay invoice 4471 next week. 🎉",
    "وصل عقد الإيجار الموقّع",
]


@pytest.fixture(scope="module")
def shared() -> CachedBackbone:
    try:
        package.find()
    except MissingPackage as e:
        pytest.skip(str(e))
    shared_config = config_module.load(environ={"DUEBOOK_CACHE": str(config_module.ROOT / ".cache")})
    backbone = load("packaged", shared_config, shipped=None)
    assert backbone.warm() == "ready", backbone.failure
    return backbone


@pytest.fixture
def own(shared: CachedBackbone, tmp_path: Path) -> CachedBackbone:
    """The loaded weights with an empty output cache."""
    own = CachedBackbone(shared.name, shared._prepare, BaselineCache(None, tmp_path / "own.sqlite"))
    own._prepared, own._frozen = shared._prepared, shared._frozen
    return own


def test_it_is_the_pinned_model(shared: CachedBackbone) -> None:
    identity = shared.identity
    assert identity.weights_sha256 == package.WEIGHTS_SHA256
    assert identity.source == f"gguf sha256:{package.GGUF_SHA256}"
    assert identity.parameters == 134_515_008
    assert identity.context_tokens == 8192
    assert shared._files().folder.joinpath("model.safetensors").stat().st_size > 500_000_000
    assert hash_of_file(shared._files().folder / "model.safetensors") == package.WEIGHTS_SHA256


def test_zero_trainable_parameters_and_an_unchanged_hash(own: CachedBackbone) -> None:
    assert own.trainable_parameters == 0
    before = own.hash_weights()
    own.generate(own.prompt(EVENTS[0]), fresh=True)
    assert own.hash_weights() == before == own.weights_sha256


@pytest.mark.parametrize("event", EVENTS)
def test_greedy_equals_the_librarys_generate_and_the_cache_equals_fresh(own: CachedBackbone, event: str) -> None:
    import torch

    model = own._loaded()
    prompt = own.prompt(event)
    ids = model.tokenizer.encode(prompt.decode(), add_special_tokens=False).ids
    whole: Any = model.model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False, max_new_tokens=8
    )
    expected = model.tokenizer.decode(whole[0, len(ids) :].tolist(), skip_special_tokens=True)
    assert own.generate(prompt) == expected != ""
    assert own.generate(prompt) == own.generate(prompt, fresh=True)


@pytest.mark.parametrize("event", [*EVENTS, "two  spaces 2026-12-04, $12,300.50", "{{ x }} <|im_start|> y"])
def test_prompt_and_tokens_are_those_of_the_library(own: CachedBackbone, event: str) -> None:
    from transformers import AutoTokenizer

    folder = own._files().folder
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    rendered = own.render(event)
    content = rendered.prompt.decode().split("<|im_start|>user\n")[1].split("<|im_end|>")[0]
    messages = [{"role": "user", "content": content}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert own._loaded().tokenizer.encode(rendered.prompt.decode(), add_special_tokens=False).ids == ids
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_start|>")) == 3

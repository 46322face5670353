from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from core.backbone import frozen, hub
from core.backbone.base import MAX_NEW_TOKENS
from core.backbone.frozen import FrozenBackbone, hash_module, pick_device
from core.config import Config
from core.errors import ConfigError, InputError, ModelError
from tests.backbone import tiny


@pytest.fixture
def model(own_config: Config) -> FrozenBackbone:
    return FrozenBackbone(hub.prepare(own_config.cache, tiny.SPEC), "cpu")


def hash_of_file(path: Path) -> str:
    """The weights hash from the bytes on disk, without torch: header of 8 + n bytes, then one stretch a tensor."""
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    digest = hashlib.sha256()
    for name in sorted(header.keys() - {"__metadata__"}):
        start, end = header[name]["data_offsets"]
        assert header[name]["dtype"] == "F32"
        digest.update(json.dumps([name, "torch.float32", header[name]["shape"]]).encode() + b"\n")
        digest.update(data[8 + n + start : 8 + n + end])
    return digest.hexdigest()


def first_weight(model: FrozenBackbone) -> torch.Tensor:
    weight: torch.Tensor = next(iter(model.model.parameters()))
    return weight


def test_nothing_can_be_trained(model: FrozenBackbone) -> None:
    assert model.trainable_parameters == 0
    assert not model.model.training
    assert not any(p.requires_grad for p in model.model.parameters())
    assert model.identity.parameters == sum(p.numel() for p in model.model.parameters()) > 0


def test_it_says_its_device_and_number_format(model: FrozenBackbone) -> None:
    assert model.device == "cpu"
    assert {p.dtype for p in model.model.parameters()} == {torch.float32}
    assert model.identity.dtype == "float32"


def test_the_hash_is_that_of_the_bytes_on_disk(model: FrozenBackbone, own_config: Config) -> None:
    on_disk = hash_of_file(hub.snapshot(tiny.SPEC) / "model.safetensors")
    assert model.hash_weights() == model.identity.weights_sha256 == on_disk


def test_generating_leaves_the_hash_as_it_was(model: FrozenBackbone) -> None:
    before = model.hash_weights()
    for text in ("a", "b" * 100):
        model.generate(text.encode())
    assert model.hash_weights() == before


@pytest.mark.parametrize("position", [0, -1])
def test_one_changed_bit_changes_the_hash(model: FrozenBackbone, position: int) -> None:
    before = model.hash_weights()
    bits = first_weight(model).data.view(torch.int32).view(-1)
    bits[position] ^= 1
    assert model.hash_weights() != before
    bits[position] ^= 1
    assert model.hash_weights() == before


def test_the_hash_sees_names_shapes_and_number_formats() -> None:
    def module(build: Callable[[], torch.Tensor], name: str = "w") -> torch.nn.Module:
        m = torch.nn.Module()
        m.register_buffer(name, build())
        return m

    variants = [
        module(lambda: torch.zeros(4)),
        module(lambda: torch.zeros(2, 2)),
        module(lambda: torch.zeros(4, dtype=torch.int32)),
        module(lambda: torch.zeros(4), "v"),
        module(lambda: torch.zeros(8, dtype=torch.bfloat16)),
    ]
    assert len({hash_module(m) for m in variants}) == len(variants)


def test_tied_weights_count_once_and_computed_buffers_not_at_all(model: FrozenBackbone) -> None:
    assert model.model.lm_head.weight is model.model.model.embed_tokens.weight
    before = model.hash_weights()
    model.model.model.rotary_emb.inv_freq += 1
    assert model.hash_weights() == before


@pytest.mark.parametrize("text", ["The lease arrived.", "🎉" * 20, "وصل", "a", "x" * 500, "nul \x00 inside"])
def test_greedy_equals_the_librarys_own_generate(model: FrozenBackbone, text: str) -> None:
    ids = model.tokenizer.encode(text, add_special_tokens=False).ids
    whole: Any = model.model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        do_sample=False,
        max_new_tokens=MAX_NEW_TOKENS,
    )
    expected = model.tokenizer.decode(whole[0, len(ids) :].tolist(), skip_special_tokens=True)
    assert model.generate(text.encode()) == expected
    assert len(expected) > 0


def test_it_stops_at_the_end_token(model: FrozenBackbone) -> None:
    free = model._continue([10, 20, 30])
    assert len(free) == MAX_NEW_TOKENS
    model._ends = frozenset([free[3]])
    assert model._continue([10, 20, 30]) == free[: free.index(free[3])]


def test_a_prompt_beyond_the_context_is_refused(model: FrozenBackbone) -> None:
    room = 8192 - MAX_NEW_TOKENS
    with pytest.raises(InputError) as refusal:
        model.generate(b"x" * (room + 1))
    assert refusal.value.message == f"The prompt has 8,185 tokens; {tiny.SPEC} takes 1 to 8,184."
    with pytest.raises(InputError, match="^The prompt has 0 tokens; "):
        model.generate(b"")


def test_a_prompt_that_is_not_text_is_refused(model: FrozenBackbone) -> None:
    with pytest.raises(InputError) as refusal:
        model.generate(b"ab\xff")
    assert refusal.value.message == "The prompt is not UTF-8 text: invalid start byte at byte 2."


def test_what_happens_to_the_file_after_loading_does_not_matter(tmp_path: Path) -> None:
    folder = tiny.build(tmp_path)
    loaded = frozen.read_model(folder, torch.device("cpu"))
    before = hash_module(loaded)
    (folder / "model.safetensors").write_bytes(b"")
    assert hash_module(loaded) == before


def test_devices_are_words_of_a_list_and_must_be_there() -> None:
    assert pick_device("cpu").type == "cpu"
    with pytest.raises(ConfigError) as refusal:
        pick_device("tpu")
    assert refusal.value.message == "'tpu' is not a device: set DUEBOOK_DEVICE to one of auto, cpu, cuda, mps."
    for name, there in (("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())):
        if not there:
            with pytest.raises(ConfigError) as refusal:
                pick_device(name)
            assert str(refusal.value) == (f"DUEBOOK_DEVICE is {name}, which this machine has not got. Use auto or cpu.")


def test_a_weight_that_is_missing_is_not_made_up(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny.build(tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError) as refusal:
        frozen.read_model(folder, torch.device("cpu"))
    assert refusal.value.message == (
        "The weights do not fill the model: model.layers.1.mlp.up_proj.weight and 0 more are missing."
    )

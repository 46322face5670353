from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants

from core.backbone import hub
from core.backbone.load import CachedBackbone, load
from core.config import Config
from core.errors import DuebookError, InputError, ModelError
from tests.backbone import tiny

REV = tiny.REVISION


@pytest.fixture
def own_hub(tmp_path: Path, hub_cache: Path, own_config: Config, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the Hugging Face cache that a test may damage; returns the tiny model's folder in it."""
    copied = tmp_path / "hub"
    shutil.copytree(hub_cache, copied)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(copied))
    return next(copied.glob("models--*/snapshots/*"))


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "gpt2",
        "org/name",
        "org/name@main",
        f"org/name@{REV[:-1]}",
        f"org/name@{REV}0",
        f"org/name@{REV.upper()}",
        f"org/name@{REV}\n",
        f"name@{REV}",
        f"a/b/c@{REV}",
        f"../name@{REV}",
        f"org/..@{REV}",
        f"org/a..b@{REV}",
        f"org/-name@{REV}",
        f"/etc/passwd@{REV}",
        f"https://hub/name@{REV}",
        f"org/na me@{REV}",
        f"org/näme@{REV}",
        "x" * 1_000_000,
    ],
)
def test_a_name_without_a_pinned_revision_is_refused(own_config: Config, spec: str) -> None:
    with pytest.raises(InputError) as refusal:
        load(spec, own_config)
    assert str(refusal.value) == (
        f"{spec[:200]!r} is not a backbone: write packaged, or org/name@ and the 40 hex digits of a revision. "
        "(DUEBOOK_BACKBONE)"
    )


def test_the_real_names_are_of_the_form() -> None:
    spec = "Qwen/Qwen2.5-1.5B-Instruct@989aa7980e4cf806f80c7fef2b1adb7bc71aa306"
    assert hub.parse(spec) == ("Qwen/Qwen2.5-1.5B-Instruct", "989aa7980e4cf806f80c7fef2b1adb7bc71aa306")


def test_what_is_not_in_the_cache_is_refused_offline(own_config: Config, hub_cache: Path) -> None:
    spec = f"org/absent@{REV}"
    with pytest.raises(ModelError) as refusal:
        _ = load(spec, own_config).identity
    assert str(refusal.value) == (
        f"The Hugging Face cache has not got anything of it for {spec}, and HF_HUB_OFFLINE is set. ({hub_cache}) "
        "Unset HF_HUB_OFFLINE and ask once, or copy it into the cache."
    )


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_part_that_is_missing_is_named(own_config: Config, own_hub: Path, name: str) -> None:
    (own_hub / name).unlink()
    if name == "model.safetensors":
        (own_hub / "pytest_model.bin").write_bytes(b"pickled")  # never read
    with pytest.raises(ModelError, match=f"^The Hugging Face cache has not got {name} for {tiny.SPEC}, and "):
        _ = load(tiny.SPEC, own_config).identity


def test_a_missing_shard_is_named(own_config: Config, own_hub: Path) -> None:
    (own_hub / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (own_hub / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"^The Hugging Face cache has not got model-00001-of-00002\.safetensors"):
        _ = load(tiny.SPEC, own_config).identity


def remove_template(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")


def cut_weights(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def remote_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "made_up", "auto_map": {"AutoConfig": "c.C", "AutoModelForCausalLM": "c.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "c.py").write_text("raise RuntimeError('remote code was run')\n")


def no_context(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = "many"
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (remove_template, "The model has no chat template."),
        (cut_weights, "The model cannot be loaded: "),
        (remote_code, "The model cannot be loaded: "),
        (no_context, "The model cannot be loaded: "),
        (lambda f: (f / "config.json").write_text("{"), "The model cannot be loaded: "),
        (lambda f: (f / "config.json").write_text("[]"), "The model cannot be loaded: "),
        (lambda f: (f / "tokenizer.json").write_text("{"), "The tokenizer cannot be read: "),
        (lambda f: (f / "tokenizer.json").write_text("[]"), "The tokenizer cannot be read: "),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "The tokenizer cannot be read: "),
        (lambda f: (f / "chat_template.jinja").write_bytes(b"\xff"), "The chat template is not UTF-8 text."),
    ],
)
def test_a_damaged_model_is_one_sentence(
    own_config: Config, own_hub: Path, damage: Callable[[Path], object], sentence: str
) -> None:
    damage(own_hub)
    backbone = load(tiny.SPEC, own_config, shipped=None)
    with pytest.raises(ModelError) as refusal:
        backbone.generate(b"x")
    assert refusal.value.message.startswith(sentence)
    assert "\n" not in str(refusal.value)
    assert backbone.failure == str(refusal.value)


def prepared(own_config: Config) -> CachedBackbone:
    backbone = load(tiny.SPEC, own_config, shipped=None)
    assert backbone.weights_sha256
    return load(tiny.SPEC, own_config, shipped=None)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
def test_a_file_changed_since_is_named(own_config: Config, own_hub: Path, name: str) -> None:
    backbone = prepared(own_config)
    (own_hub / name).write_bytes((own_hub / name).read_bytes() + b" ")
    with pytest.raises(DuebookError) as refusal:
        backbone.prompt("x")
    assert str(refusal.value) == (
        f"The prepared backbone is damaged: {name} does not match identity.json. ({own_hub / name}) "
        f"Delete the folder {own_hub} and run again."
    )


def test_one_changed_bit_of_the_weights_on_disk_is_found_when_they_are_read(own_config: Config, own_hub: Path) -> None:
    backbone = prepared(own_config)
    data = bytearray((own_hub / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (own_hub / "model.safetensors").write_bytes(data)
    assert backbone.prompt("x")  # needs no weight
    with pytest.raises(ModelError, match=r"^The weights hash to [0-9a-f]{64}, not to [0-9a-f]{64} of their identity\."):
        backbone.generate(b"x", fresh=True)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: p.write_text("{"), "identity.json is damaged and cannot be read."),
        (lambda p: p.write_text("{}"), "identity.json does not match its own hash."),
        (lambda p: p.write_text(p.read_text().replace('"float32"', '"bfloat16"')), "identity.json does not match"),
        (lambda p: p.unlink(), "The model has no identity.json."),
    ],
)
def test_a_damaged_identity_says_which_folder_to_delete(
    own_config: Config, write: Callable[[Path], object], message: str
) -> None:
    backbone = prepared(own_config)
    folder = hub.folder_of(own_config.cache, tiny.SPEC)
    write(folder / "identity.json")
    with pytest.raises(ModelError) as refusal:
        _ = backbone.identity
    assert refusal.value.message.startswith(message)
    assert refusal.value.next_step == f"Delete the folder {folder} and run again."
    shutil.rmtree(folder)
    assert prepared(own_config).hash_weights()

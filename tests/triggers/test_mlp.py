"""The fixed-point MLP against torch, its exactness, and everything its lock refuses."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as parse
from safetensors.numpy import save

from core.config import ROOT
from core.errors import MissingPackage, ModelError
from core.hashing import sha256_hex
from core.triggers import lock as lock_module
from core.triggers import registry
from core.triggers.learned import mlp
from core.triggers.lock import MLP_FOLDER, code_hash, load_lock, lock_hash


def random_tensors(seed: int, scale: float = 0.5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        k: (np.rint(rng.normal(0, scale, s) / mlp.WEIGHT_STEP) * mlp.WEIGHT_STEP).astype(np.float32)
        for k, s in mlp.SHAPES.items()
    }


def trigger_of(tensors: dict[str, np.ndarray]) -> mlp.MlpTrigger:
    return mlp.MlpTrigger(0.5, "", mlp.fixed_point(tensors), ())


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_torch_to_a_thousandth(seed: int) -> None:
    torch = pytest.importorskip("torch")
    tensors = random_tensors(seed)
    x = np.random.default_rng(seed).random((500, 16))
    h = torch.from_numpy(x)
    for n in range(3):
        weight, bias = (torch.from_numpy(tensors[f"{n}.{p}"]).double() for p in ("weight", "bias"))
        h = torch.nn.functional.linear(h, weight, bias)
        h = torch.nn.functional.gelu(h) if n < 2 else torch.sigmoid(h)
    assert np.abs(trigger_of(tensors).score_features(x) - h[:, 0].numpy()).max() < 0.001


def test_the_locked_weights_score_the_pairs_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    tensors = parse((MLP_FOLDER / "weights.safetensors").read_bytes())
    x = np.random.default_rng(1).random((2000, 16))
    h = torch.from_numpy(x)
    for n in range(3):
        h = torch.nn.functional.linear(h, *(torch.from_numpy(tensors[f"{n}.{p}"]).double() for p in ("weight", "bias")))
        h = torch.nn.functional.gelu(h) if n < 2 else torch.sigmoid(h)
    assert np.abs(mlp.load().score_features(x) - h[:, 0].numpy()).max() < 0.001


def test_every_order_of_summation_gives_the_same_score() -> None:
    tensors = random_tensors(9)
    order, hidden = np.random.default_rng(0).permutation(16), np.random.default_rng(1).permutation(64)
    turned = {**tensors, "0.weight": tensors["0.weight"][hidden][:, order], "0.bias": tensors["0.bias"][hidden],
              "1.weight": tensors["1.weight"][:, hidden]}  # fmt: skip
    x = np.random.default_rng(2).random((1000, 16))
    assert np.array_equal(trigger_of(tensors).score_features(x), trigger_of(turned).score_features(x[:, order]))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names the kernels of x86-64")
def test_an_older_processor_gives_the_same_scores() -> None:
    code = (
        "import sys; from core.evaluation.pairs import *; from core.triggers.learned import mlp;"
        "rows = read_pairs(pairs_file('validation'))[:60];"
        "s = mlp.load().score_grid([r['condition'] for r in rows], [r['event'] for r in rows]);"
        "sys.stdout.write(s.tobytes().hex())"
    )
    old = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4"}
    got = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, env={**os.environ, **env}
        ).stdout
        for env in ({}, old)
    ]
    assert got[0] == got[1] != b""


def test_gelu_at_its_ends() -> None:
    steps = 1 / mlp.ACTIVATION_STEP
    got = mlp._gelu(np.array([-1e6, -8.0, -0.75179, 0.0, 8.0, 1e6]) * steps) * mlp.ACTIVATION_STEP
    assert got.tolist() == [0.0, 0.0, round(-0.16997 * steps) / steps, 0.0, 8.0, 1e6]


def test_extreme_scores_stay_in_range_without_a_warning() -> None:
    tensors = random_tensors(3, scale=2.0)
    scores = trigger_of(tensors).score_features(np.random.default_rng(4).random((500, 16)))
    assert scores.min() >= 0.0
    assert scores.max() <= 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("2.bias"), "The trigger's weights are not those of an MLP 16-64-32-1."),
        (lambda t: t.update({"0.bias": t["0.bias"][:5]}), "The trigger's weights are not those of an MLP 16-64-32-1."),
        (
            lambda t: t["0.weight"].__setitem__((0, 0), 1e-7),
            "The trigger's weights cannot be summed exactly. (layer 0)",
        ),
        (lambda t: t["1.weight"].__setitem__((0, 0), 1e9), "The trigger's weights cannot be summed exactly. (layer 1)"),
        (
            lambda t: t["0.weight"].__setitem__((0, 0), np.nan),
            "The trigger's weights cannot be summed exactly. (layer 0)",
        ),
    ],
)
def test_weights_that_cannot_be_summed_exactly_are_refused(change: Any, message: str) -> None:
    tensors = random_tensors(0)
    change(tensors)
    with pytest.raises(ModelError) as e:
        mlp.fixed_point(tensors)
    assert str(e.value) == f"{message} {lock_module.RETRAIN}"


# The lock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "trigger_mlp"
    shutil.copytree(MLP_FOLDER, target)
    return target


def relock(folder: Path, **changes: object) -> None:
    path = folder / "lock.json"
    lock = {**json.loads(path.read_bytes()), **changes}
    path.write_text(json.dumps({**lock, "lock_sha256": lock_hash(lock)}))


def test_the_shipped_trigger_matches_its_lock() -> None:
    lock, trigger = load_lock(), mlp.load()
    assert trigger.threshold == lock["threshold"]
    assert (
        trigger.weights_sha256
        == lock["weights_sha256"]
        == sha256_hex((MLP_FOLDER / "weights.safetensors").read_bytes())
    )
    assert len(trigger.feature_means) == 16
    assert 0.0 < lock["c1_threshold"] < 1.0


def test_one_changed_byte_of_the_weights_is_refused_with_both_hashes(folder: Path) -> None:
    path = folder / "weights.safetensors"
    raw = bytearray(path.read_bytes())
    locked = sha256_hex(bytes(raw))
    raw[-1] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(ModelError) as e:
        mlp.load(folder)
    assert str(e.value) == (
        f"The trigger's weights and its lock differ: locked {locked}, found {sha256_hex(bytes(raw))}. "
        f"({folder}) {lock_module.RETRAIN}"
    )


def test_changed_scoring_code_is_refused_with_both_hashes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = code_hash()
    monkeypatch.setattr(lock_module, "code_hash", lambda: "f" * 64)
    with pytest.raises(ModelError) as e:
        mlp.load(folder)
    assert f"The trigger's scoring code and its lock differ: locked {locked}, found {'f' * 64}." in str(e.value)


@pytest.mark.parametrize("key", ["threshold", "c1_threshold", "method", "data_hash", "feature_means"])
def test_a_lock_changed_after_locking_is_refused(folder: Path, key: str) -> None:
    path = folder / "lock.json"
    lock = json.loads(path.read_bytes())
    lock[key] = 0.9 if "threshold" in key else "other"
    path.write_text(json.dumps(lock))
    with pytest.raises(ModelError) as e:
        mlp.load(folder)
    assert str(e.value) == (
        f"The trigger's lock was changed after locking: it says {lock['lock_sha256']}, its content hashes to "
        f"{lock_hash(lock)}. ({path}) {lock_module.RETRAIN}"
    )


def test_missing_pieces_are_named(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    with pytest.raises(ModelError) as e:
        mlp.load(folder)
    assert str(e.value).startswith(f"The trigger's weights cannot be read. ({folder / 'weights.safetensors'})")
    (folder / "lock.json").write_text("{}")
    with pytest.raises(ModelError, match="lock lacks method, code_hash, data_hash, weights_sha256"):
        mlp.load(folder)
    damaged = (b"", b"\xff\x00", b"{", b"[" * 100_000, b'{"threshold": NaN}', b'{"threshold": 1' + b"0" * 400 + b"}")
    for raw in damaged:
        (folder / "lock.json").write_bytes(raw)
        with pytest.raises(ModelError) as e:
            mlp.load(folder)
        assert e.value.message == "The trigger's lock is damaged and cannot be read."
    for raw in (b"[]", b"7", b'"lock"', b"null"):
        (folder / "lock.json").write_bytes(raw)
        with pytest.raises(ModelError, match="The trigger's lock lacks method"):
            mlp.load(folder)
    (folder / "lock.json").unlink()
    with pytest.raises(ModelError, match=r"The trigger has no lock\.json\."):
        mlp.load(folder)


@pytest.mark.parametrize(
    "raw", [b"", b"\x00" * 40, b"PK\x03\x04 not safetensors", save({"a": np.zeros(1, np.float32)})]
)
def test_damaged_weights_are_refused_even_when_locked(folder: Path, raw: bytes) -> None:
    (folder / "weights.safetensors").write_bytes(raw)
    relock(folder, weights_sha256=sha256_hex(raw))
    with pytest.raises(ModelError, match="The trigger's weights are"):
        mlp.load(folder)


def test_without_safetensors_the_command_to_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingPackage) as e:
        mlp.load()
    assert str(e.value) == "safetensors is not installed. Run `pip install -r requirements.txt`."
    row = registry.installed()[-1]
    assert (row.name, row.available, row.threshold, row.why_not) == ("mlp", False, None, str(e.value))

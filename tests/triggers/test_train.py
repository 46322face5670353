"""train.py: the same bytes again, locked before the test split is read, and no other data under an old lock."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.config import DATA, ROOT
from core.triggers.lock import MLP_FOLDER, load_lock

pytest.importorskip("torch")

FILES = ("train.jsonl", "validation.jsonl", "test.jsonl")


def train(data: Path, out: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "models/trigger_mlp/train.py", "--data", str(data), "--out", str(out), *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_training_again_gives_the_shipped_bytes(tmp_path: Path) -> None:
    done = train(DATA / "controlled", tmp_path)
    assert done.returncode == 0, done.stderr
    ours, shipped = load_lock(tmp_path), load_lock()
    for key in ("code_hash", "data_hash", "c1_threshold", "feature_means", "method"):
        assert ours[key] == shipped[key]
    if platform.machine() != "x86_64":
        pytest.skip("the weights' last bits are promised for x86-64 only")
    for name in ("weights.safetensors", "lock.json", "results.json"):
        assert (tmp_path / name).read_bytes() == (MLP_FOLDER / name).read_bytes(), name


def test_the_lock_is_written_before_the_test_split_is_read_and_guards_its_data(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for name in FILES:
        shutil.copy(DATA / "controlled" / name, data)
    (data / "test.jsonl").write_text("this is no pair\n")
    done = train(data, out)
    assert done.returncode == 1
    assert done.stderr.startswith("Line 1 is not a labelled pair")
    assert "Traceback" not in done.stderr
    lock = load_lock(out)
    assert lock["weights_sha256"] == load_lock()["weights_sha256"]
    assert lock["threshold"] == load_lock()["threshold"]
    assert not (out / "results.json").exists()

    # The same folder, other data: refused, nothing written.
    before = (out / "lock.json").read_bytes()
    refused = train(DATA / "controlled", out)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"{out / 'lock.json'} was made from other data ({lock['data_hash']}, now {load_lock()['data_hash']}): "
        "give --force to replace it.\n"
    )
    assert (out / "lock.json").read_bytes() == before


def test_the_results_belong_to_the_lock_and_cover_every_pair() -> None:
    results = json.loads((MLP_FOLDER / "results.json").read_bytes())
    assert results["lock_sha256"] == load_lock()["lock_sha256"]
    assert [results[name]["n"] for name in ("train", "validation", "test")] == [720, 216, 360]
    for name in ("train", "validation", "test"):
        right, n = zip(*(map(int, v.split("/")) for v in results[name]["right_by_kind"].values()), strict=True)
        assert (sum(right), sum(n)) == (results[name]["right"], results[name]["n"])

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from core.config import ROOT
from core.evaluation import manifest
from core.hashing import sha256_file


def project(root: Path) -> Path:
    for name, text in {
        "core/a.py": "a", "core/evaluation/m.py": "m", "core/__pycache__/a.pyc": "x", "core/.hidden": "x",
        "models/trigger_mlp/lock.json": "{}", "models/trigger_mlp/README.md": "words",
        "data/controlled/train.jsonl": "t", "data/controlled/README.md": "words",
        "data/controlled/baseline_cache.jsonl": "c",
        "data/contracts/controlled.csv": "k",
    }.items():  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_hashes_cover_code_data_models_and_contract_and_nothing_derived(tmp_path: Path) -> None:
    taken = manifest.take("controlled", project(tmp_path))
    assert list(taken.code) == [
        "core/a.py",
        "core/evaluation/m.py",
        "models/trigger_mlp/README.md",
        "models/trigger_mlp/lock.json",
    ]
    assert list(taken.data) == ["data/controlled/train.jsonl"]
    assert taken.contract == {"data/contracts/controlled.csv": hashlib.sha256(b"k").hexdigest()}
    lines = "".join(f"{p} {hashlib.sha256((tmp_path / p).read_bytes()).hexdigest()}\n" for p in sorted(taken.code))
    assert taken.code_hash == hashlib.sha256(lines.encode()).hexdigest()


def test_each_hash_moves_with_its_own_files_alone(tmp_path: Path) -> None:
    before = manifest.take("controlled", project(tmp_path))

    def moved(name: str) -> set[str]:
        path = tmp_path / name
        kept = path.read_bytes()
        path.write_bytes(b"changed")
        after = manifest.take("controlled", tmp_path)
        path.write_bytes(kept)
        names = ("code_hash", "evaluator_hash", "model_hash", "data_hash")
        return {n for n in names if getattr(before, n) != getattr(after, n)}

    assert moved("core/a.py") == {"code_hash"}
    assert moved("core/evaluation/m.py") == {"code_hash", "evaluator_hash"}
    assert moved("models/trigger_mlp/lock.json") == {"code_hash", "model_hash"}
    assert moved("models/trigger_mlp/README.md") == {"code_hash"}
    assert moved("data/controlled/train.jsonl") == {"data_hash"}
    assert moved("data/controlled/README.md") == set()
    assert moved("data/controlled/baseline_cache.jsonl") == set()


def test_changes_are_named_with_their_kind() -> None:
    assert manifest.changed({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == [
        "b (edited)",
        "c (removed)",
        "d (added)",
    ]


def test_the_commit_says_when_files_differ_from_it(tmp_path: Path) -> None:
    root = project(tmp_path)
    assert manifest.commit(root) is None

    def git(*args: str) -> str:
        named = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", "-C", str(root), *named, *args], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "all")
    head = git("rev-parse", "HEAD")
    assert manifest.commit(root) == head
    (root / "data/controlled/baseline_cache.jsonl").write_text("derived")
    (root / "notes.txt").write_text("elsewhere")
    assert manifest.commit(root) == head
    (root / "core/a.py").write_text("edited")
    assert manifest.commit(root) == f"{head}-dirty"


def test_installed_packages_are_named_with_python() -> None:
    found = manifest.packages()
    assert {"python", "numpy", "pyarrow", "pydantic"} <= found.keys()


def test_the_real_project_is_hashed_whole() -> None:
    taken = manifest.take("controlled")
    assert taken.code["core/evaluation/manifest.py"] == sha256_file(ROOT / "core/evaluation/manifest.py")
    assert "data/controlled/templates.json" in taken.data

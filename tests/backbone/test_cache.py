from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from core.backbone import base, cache
from core.backbone.base import Identity
from core.backbone.cache import BaselineCache, cache_key, torch_version
from core.config import ROOT
from core.errors import MissingPackage, ModelError

A, B, C = (letter * 64 for letter in "abc")
IDENTITY = Identity(
    name="n",
    source="s",
    weights_sha256=A,
    tokenizer_sha256=B,
    template_sha256=C,
    dtype="float32",
    parameters=1,
    context_tokens=10,
    files={},
    versions={},
)


def line(key: str, output: object) -> str:
    return json.dumps({"key": key, "output": output}) + "\n"


def test_the_key_depends_on_everything_that_can_change_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {cache_key(b"p", IDENTITY), cache_key(b"p ", IDENTITY)}
    for changed in (
        dataclasses.replace(IDENTITY, weights_sha256="other"),
        dataclasses.replace(IDENTITY, tokenizer_sha256="other"),
        dataclasses.replace(IDENTITY, template_sha256="other"),
        dataclasses.replace(IDENTITY, dtype="other"),
    ):
        keys.add(cache_key(b"p", changed))
    monkeypatch.setattr(cache, "GENERATION", base.GENERATION | {"max_new_tokens": 9})
    keys.add(cache_key(b"p", IDENTITY))
    monkeypatch.undo()
    monkeypatch.setattr(metadata, "version", lambda name: "2.12.0")
    keys.add(cache_key(b"p", IDENTITY))
    assert len(keys) == 8


def test_the_key_does_not_depend_on_names_files_or_the_torch_build(monkeypatch: pytest.MonkeyPatch) -> None:
    key = cache_key(b"p", IDENTITY)
    assert key == cache_key(b"p", dataclasses.replace(IDENTITY, name="m", files={"x": A}, versions={"torch": "9"}))
    for build in ("+cpu", "+cu130", ""):
        monkeypatch.setattr(metadata, "version", lambda name, build=build: "2.13.0" + build)
        assert torch_version() == "2.13.0"


def test_the_torch_version_is_the_public_one() -> None:
    import torch

    assert torch_version() == torch.__version__.split("+")[0]


def test_no_torch_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(MissingPackage) as refusal:
        torch_version()
    assert str(refusal.value) == "torch is not installed. Run: pip install torch==2.13.0"


def test_a_stored_output_comes_back_in_another_instance(tmp_path: Path) -> None:
    for output in ["pay it", "", "é 🎉\u2028\x00 وصل"]:
        key = cache_key(output.encode(), IDENTITY)
        BaselineCache(None, tmp_path / "c.sqlite").put(key, output)
        assert BaselineCache(None, tmp_path / "c.sqlite").get(key) == output


def test_reading_makes_no_file(tmp_path: Path) -> None:
    assert BaselineCache(None, tmp_path / "deep" / "c.sqlite").get(A) is None
    assert list(tmp_path.iterdir()) == []


def test_the_first_output_stays_and_the_shipped_one_goes_first(tmp_path: Path) -> None:
    local = tmp_path / "c.sqlite"
    BaselineCache(None, local).put(A, "first")
    BaselineCache(None, local).put(A, "second")
    assert BaselineCache(None, local).get(A) == "first"
    (tmp_path / "s.jsonl").write_text(line(A, "shipped"))
    assert BaselineCache(tmp_path / "s.jsonl", local).get(A) == "shipped"


def test_a_missing_shipped_file_is_an_empty_one(tmp_path: Path) -> None:
    assert BaselineCache(tmp_path / "none.jsonl", tmp_path / "c.sqlite").get(A) is None


@pytest.mark.parametrize(
    ("text", "number", "problem"),
    [
        (line(A, "x") + "{oops\n", 2, "is not JSON"),
        (line(A, "x") + "\n", 2, "is not JSON"),
        ("[1]\n", 1, "is not an object of key and output"),
        (line(A, None), 1, "is not an object of key and output"),
        ('{"key": "' + A + '", "output": "x", "more": 1}\n', 1, "is not an object of key and output"),
        (line("A" * 64, "x"), 1, "has a key that is not 64 hex digits"),
        ('{"key": 7, "output": "x"}\n', 1, "has a key that is not 64 hex digits"),
        (line(B, "x") + line(A, "x"), 2, "is out of order or there twice"),
        (line(A, "x") + line(A, "x"), 2, "is out of order or there twice"),
        ("\xff\n", 1, "is not JSON"),
        ("[" * 100_000 + "\n", 1, "is not JSON"),
    ],
)
def test_a_damaged_shipped_line_is_named(tmp_path: Path, text: str, number: int, problem: str) -> None:
    shipped = tmp_path / "s.jsonl"
    shipped.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError) as refusal:
        BaselineCache(shipped, tmp_path / "c.sqlite").get(A)
    assert str(refusal.value) == (
        f"Line {number} of the shipped baseline cache {problem}. ({shipped}:{number}) "
        "Restore the file as it was shipped."
    )


def test_a_damaged_local_file_is_one_sentence(tmp_path: Path) -> None:
    local = tmp_path / "c.sqlite"
    local.write_bytes(b"not a database" * 100)
    for write in (False, True):
        own = BaselineCache(None, local)
        with pytest.raises(ModelError) as refusal:
            own.put(A, "x") if write else own.get(A)
        assert str(refusal.value) == (
            f"The local baseline cache is damaged: file is not a database. ({local}) "
            "It can be made again: delete the file and run again."
        )


def test_an_emptied_local_file_is_begun_anew(tmp_path: Path) -> None:
    local = tmp_path / "c.sqlite"
    local.write_bytes(b"")
    own = BaselineCache(None, local)
    assert own.get(A) is None
    own.put(A, "x")
    assert BaselineCache(None, local).get(A) == "x"


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"^The cache cannot be written: (File exists|Not a directory)\."):
        BaselineCache(None, tmp_path / "file" / "c.sqlite").put(A, "x")


def test_export_is_sorted_reads_back_and_refuses_an_unknown_key(tmp_path: Path) -> None:
    kept = BaselineCache(None, tmp_path / "c.sqlite")
    for key in (C, A, B):
        kept.put(key, f"out {key[0]} é")
    path = tmp_path / "out" / "s.jsonl"
    assert kept.export(path, [C, A, C]) == 2
    assert path.read_text() == f'{{"key": "{A}", "output": "out a é"}}\n{{"key": "{C}", "output": "out c é"}}\n'
    shipped = BaselineCache(path, tmp_path / "other.sqlite")
    assert (shipped.get(A), shipped.get(B)) == ("out a é", None)
    with pytest.raises(ModelError, match=r"^No stored output for key d{64}: it cannot be shipped\."):
        shipped.export(path, ["d" * 64])
    assert [p.name for p in path.parent.iterdir()] == ["s.jsonl"]


def _write_many(local: str, name: str) -> None:
    own = BaselineCache(None, Path(local))
    for i in range(40):
        own.put(f"{i:064x}", name)
        own.put(f"{name}{i:063x}", name)


def test_many_processes_write_at_once_from_nothing(tmp_path: Path) -> None:
    local = tmp_path / "c.sqlite"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(str(local), name)) for name in "abcd"]
    for w in writers:
        w.start()
    for w in writers:
        w.join(60)
    assert [w.exitcode for w in writers] == [0, 0, 0, 0]
    own = BaselineCache(None, local)
    assert all(own.get(f"{name}{i:063x}") == name for name in "abcd" for i in range(40))
    assert all(own.get(f"{i:064x}") in set("abcd") for i in range(40))


def test_an_acknowledged_output_survives_kill_9(tmp_path: Path) -> None:
    local = tmp_path / "c.sqlite"
    code = (
        "import sys\nfrom pathlib import Path\nfrom core.backbone.cache import BaselineCache\n"
        "c = BaselineCache(None, Path(sys.argv[1]))\n"
        "for i in range(10**6):\n    c.put(f'{i:064x}', str(i))\n    print(i, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(local)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(25):
        writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = 25 + len(writer.stdout.readlines())
    writer.stdout.close()
    writer.wait()
    own = BaselineCache(None, local)
    assert all(own.get(f"{i:064x}") == str(i) for i in range(acknowledged - 1))
    with sqlite3.connect(local) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_connection_is_not_carried_over_a_fork(tmp_path: Path) -> None:
    own = BaselineCache(None, tmp_path / "c.sqlite")
    own.put(A, "parent")
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom core.backbone.cache import BaselineCache\n"
        "c = BaselineCache(None, Path(sys.argv[1]))\nc.get('a' * 64)\nbefore = c._connection\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    ok = c.get('a' * 64) == 'parent' and c._connection is not before\n"
        "    os._exit(0 if ok else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(own.local)], cwd=ROOT, check=False).returncode == 0


def test_a_locked_file_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tmp_path / "c.sqlite"
    BaselineCache(None, local).put(A, "x")
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **(k | {"timeout": 0})))
    holder = real(local, isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(ModelError) as refusal:
            BaselineCache(None, local).put(B, "x")
    finally:
        holder.close()
    assert str(refusal.value) == f"The local baseline cache cannot be used now: database is locked. ({local})"

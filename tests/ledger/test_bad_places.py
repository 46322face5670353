"""A store in a place that refuses: only to be read, full, or held by another process. A sentence, and nothing lost."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.acts.prepare import prepare
from core.config import ROOT, load
from core.errors import StoreError
from core.ledger import annotation_store
from core.ledger.ledger import verify
from core.ledger.store import open_store
from tests.ledger.ledgers import ENTRIES, annotation, filled

COMMAND = [sys.executable, "-m", "core"]
DROP_FROM_BOUND, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2  # prctl(2), capabilities(7)


def _without_override() -> None:
    """Give up what lets root write where nobody may."""
    if os.getuid() == 0:
        for capability in (DAC_OVERRIDE, DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(DROP_FROM_BOUND, capability, 0, 0, 0) == 0


def call(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=_without_override
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def only_readable(home: Path) -> Iterator[None]:
    places = [home, *home.rglob("*")]
    for place in places:
        place.chmod(place.stat().st_mode & ~0o222)
    try:
        yield
    finally:
        for place in places:
            place.chmod(place.stat().st_mode | 0o200)


def test_a_home_that_may_not_be_written_is_a_sentence_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("DUEBOOK_HOME", str(home))
    prepare(load())
    listed = call("sql", "--json", "SELECT trace_id FROM trace LIMIT 1")[1]
    trace_id = json.loads(listed)["rows"][0][0]
    before = {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}
    with only_readable(home):
        code, out, err = call("annotate", "trace", trace_id, "--label", "x")
        assert (code, out) == (2, "")
        assert err == (
            f"The store can only be read where its folder and its files can be written. ({home}/store.sqlite)"
            " Give yourself the right to write there, or copy the workspace.\n"
        )
        assert call("sql", "SELECT 1") == (0, "1\n1\n1 row\n", "")
        (home / "store.sqlite").chmod(0)
        assert call("sql", "SELECT 1") == (
            2,
            "",
            f"The workspace's store cannot be read: unable to open database file. ({home}/store.sqlite)"
            " Give yourself the right to read it and to write in its folder, or copy the workspace.\n",
        )
        (home / "store.sqlite").chmod(0o400)
        for command, refused in (
            (["prepare"], "prepare.lock"),
            (["prepare", "--force"], "prepare.lock"),
            (["evaluate", "controlled", "--limit", "1"], "work/evaluate.lock"),
            (["up"], "console.lock"),
        ):
            assert call(*command) == (
                2,
                "",
                f"The workspace cannot be written: Permission denied. ({home}/{refused}) Give yourself the right to"
                " write there, free some space, or give another folder with --home.\n",
            )
    assert {p: p.read_bytes() for p in home.rglob("*") if p.is_file()} == before
    assert call("ledger", "verify")[0] == 0


def test_a_home_in_a_folder_that_may_not_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    with only_readable(tmp_path / "closed"):
        code, out, err = call("--home", str(tmp_path / "closed" / "home"), "evaluate", "controlled")
    assert (code, out) == (2, "")
    assert err == (
        f"The workspace cannot be made: Permission denied. ({tmp_path}/closed/home) Give another folder with --home.\n"
    )


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: the write that does not fit fails in the same way."""
    acknowledged = 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(tmp_path / "store.sqlite", create=True) as store:

        def add_one() -> None:
            with store.write() as tx:
                annotation_store.add(tx, annotation(acknowledged, text="x" * 5_000))

        def fill_the_disk() -> None:
            nonlocal acknowledged
            for _ in range(1_000):
                add_one()
                acknowledged += 1

        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        try:
            for _ in range(2):  # full, it stays full
                with pytest.raises(StoreError) as refused:
                    fill_the_disk()
                assert refused.value.message.startswith("The disk is full or failing (")
                assert refused.value.message.endswith("): this was not stored, what was stored before is still there.")
            report = verify(store)
            assert (report.ok, report.count) == (True, 1 + acknowledged)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert acknowledged >= 1
        add_one()
        report = verify(store)
        assert (report.ok, report.count) == (True, 2 + acknowledged)


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_store_held_by_another_process_can_be_read_and_is_written_when_that_one_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.ledger.store.BUSY_SECONDS", 1)
    path = filled(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with open_store(path) as store:
        with pytest.raises(StoreError) as refused, store.write() as tx:
            annotation_store.add(tx, annotation(77))
        assert str(refused.value) == (
            f"Another process has been writing to the store for 1 seconds. ({path}) Try again, or end that process."
        )
        assert verify(store).count == ENTRIES
        holder.kill()
        holder.communicate()
        with store.write() as tx:
            annotation_store.add(tx, annotation(77))
        report = verify(store)
        assert (report.ok, report.count) == (True, ENTRIES + 1)

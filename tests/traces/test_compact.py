"""The tail becomes segments: nothing lost, nothing doubled, wherever the process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.acts.compact import compact_tail
from core.config import ROOT, Config
from core.errors import StoreError
from core.ledger.ledger import verify
from core.ledger.store import open_workspace
from core.ledger.trace_tail import segments, tail_size
from core.records.trace import Trace
from core.traces.compact import SEGMENT_ROWS, write_segments
from core.views.read.traces import one_trace
from core.views.views import Views
from tests.views.made import made_traces, store_of

ROWS = made_traces(11, 9)


def shown(config: Config) -> list[Trace]:
    """Return what the views show."""
    views = Views(config)
    try:
        with views.snapshot() as snapshot:
            ids = [r["trace_id"] for r in snapshot.ask("trace", "SELECT trace_id FROM trace ORDER BY ALL").rows()]
            assert len(ids) == len(set(ids))
            return [one_trace(snapshot, i) for i in ids]
    finally:
        views.close()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return store_of(tmp_path / "home", (), ROWS)


def test_a_tail_below_the_limit_stays_as_it_is(config: Config) -> None:
    with open_workspace(config) as store:
        assert compact_tail(config, store) == ()
        assert SEGMENT_ROWS == 20_000
    assert not config.traces.exists()


def test_a_full_tail_becomes_one_segment_a_class_and_run_and_shows_the_same_traces(config: Config) -> None:
    before = shown(config)
    with open_workspace(config) as store:
        files = compact_tail(config, store, at=9)
        with store.read() as conn:
            assert tail_size(conn) == 0
            assert len(segments(conn)) == len(files) == len({(t.evidence_class, t.run_id) for t in ROWS})
        assert verify(store).ok
    assert before == shown(config) == ROWS


def test_files_written_without_being_listed_are_orphans_that_nobody_reads(config: Config) -> None:
    write_segments(config.traces, ROWS)
    assert shown(config) == ROWS
    with open_workspace(config) as store:
        compact_tail(config, store, at=1)
    assert shown(config) == ROWS


def test_rows_that_came_meanwhile_are_refused_and_nothing_is_lost(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.acts.compact.write_segments", lambda folder, traces: write_segments(folder, traces[:-1]))
    with open_workspace(config) as store:
        compact_tail(config, store, at=1)
        with store.read() as conn:
            assert tail_size(conn) == 1
        monkeypatch.undo()
        monkeypatch.setattr("core.acts.compact.write_segments", lambda folder, traces: write_segments(folder, ROWS))
        with pytest.raises(StoreError, match="the tail holds"):
            compact_tail(config, store, at=1)
    assert shown(config) == ROWS


KILLED = """
import os, signal, sys
from core.config import load
from core.ledger.store import open_workspace
import core.acts.compact as act, core.traces.writer as writer
point = sys.argv[2]
die = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
if point == "before the rename": writer.Path.replace = die
if point == "after a file": writer.sha256_file = die
if point == "before listing": act.list_segment = die
if point == "amid the transaction":
    first, seen = act.list_segment, []
    def once(*a, **k):
        if seen: die()
        seen.append(first(*a, **k))
    act.list_segment = once
if point == "before commit":
    from core.ledger.store import Tx
    Tx.seal = die
config = load(sys.argv[1])
with open_workspace(config) as store:
    act.compact_tail(config, store, at=1)
    if point == "after commit": die()
"""


@pytest.mark.parametrize(
    "point",
    ["before the rename", "after a file", "before listing", "amid the transaction", "before commit", "after commit"],
)
def test_a_kill_at_any_point_loses_and_doubles_nothing(config: Config, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(config.home), point], cwd=ROOT, env=dict(os.environ), check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert shown(config) == ROWS
    with open_workspace(config) as store:
        compact_tail(config, store, at=1)
        with store.read() as conn:
            assert tail_size(conn) == 0
    assert shown(config) == ROWS

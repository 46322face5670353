"""Real processes on a real file: what was acknowledged is stored, what was not is wholly absent."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from core.config import ROOT
from core.errors import StoreError
from core.ledger import annotation_store, record_store, run_store, trace_tail
from core.ledger.ledger import verify
from core.ledger.store import Store, head_seq, open_store
from core.records.record import RecordState
from core.records.run import RunStatus
from tests.ledger.ledgers import annotation, manifest, record

STEPS = ["opened", "records", "cancelled", "run", "finished", "annotation", "traces", "segment"]
ENTRIES_AFTER = dict(zip(STEPS, [1, 3, 4, 5, 7, 8, 10, 11], strict=True))


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


def test_two_writers_and_one_who_takes_snapshots_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with open_store(path, create=True) as store:
        writers = [
            subprocess.Popen(
                python("tests.ledger.writer", str(path), name, "60"), stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            for name in ("ada", "bob")
        ]
        snapshots = 0
        while any(w.poll() is None for w in writers):
            copy = tmp_path / f"copy-{snapshots}.sqlite"
            store.backup_to(copy)
            with open_store(copy) as copied:
                report = verify(copied)
                assert report.ok, report
                with copied.read() as conn:
                    assert head_seq(conn) == 1 + len(annotation_store.list_annotations(conn))
            with store.read() as conn:  # a snapshot of the living store
                assert head_seq(conn) == 1 + len(annotation_store.list_annotations(conn))
            snapshots += 1
        outs = [w.communicate()[0].split() for w in writers]
        assert [w.returncode for w in writers] == [0, 0]
        assert [len(out) for out in outs] == [60, 60]
        report = verify(store)
        assert report.ok
        assert report.count == 121
        with store.read() as conn:
            kept = {a.id for a in annotation_store.list_annotations(conn)}
    assert kept == set(outs[0]) | set(outs[1])
    assert snapshots >= 2


def test_one_of_two_writers_is_killed_and_the_other_never_notices(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    open_store(path, create=True).close()
    for n in range(4):  # killed at another moment each time
        names = (f"ada{n}", f"bob{n}")
        ada, bob = (
            subprocess.Popen(
                python("tests.ledger.writer", str(path), name, count), stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            for name, count in zip(names, ("9999", "40"), strict=True)
        )
        assert ada.stdout is not None
        said = [ada.stdout.readline().strip() for _ in range(5 + n)]
        ada.kill()
        said += ada.communicate()[0].split()
        finished = bob.communicate()[0].split()
        assert (ada.returncode, bob.returncode) == (-signal.SIGKILL, 0)
        assert len(finished) == 40
        with open_store(path) as store:
            report = verify(store)
            assert report.ok, report
            with store.read() as conn:
                kept = [a.id for a in annotation_store.list_annotations(conn)]
                assert head_seq(conn) == 1 + len(kept)
        by = {name: [i for i in kept if i.startswith(f"{name}-")] for name in names}
        assert by[names[1]] == finished
        # The one under way may be stored and not yet said.
        assert by[names[0]][: len(said)] == said
        assert len(by[names[0]]) - len(said) in (0, 1)


def test_killed_at_any_write_point_it_keeps_what_it_acknowledged_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        python("tests.ledger.killed", str(tmp_path)), capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    points = int(done.stdout)
    assert points > 100
    ended_at = set()
    for n in range(1, points + 1):
        folder = tmp_path / str(n)
        acknowledged = (folder / "acknowledged").read_text().split()
        assert acknowledged == STEPS[: len(acknowledged)]
        ended_at.add(len(acknowledged))
        if not acknowledged and not whole(folder / "store.sqlite"):
            open_store(folder / "store.sqlite", create=True).close()
        with open_store(folder / "store.sqlite") as store:
            report = verify(store)
            assert report.ok, (n, report)
            # The step under way is stored whole (killed after its commit, before it could say so) or not at all.
            allowed = [ENTRIES_AFTER[s] for s in STEPS[: len(acknowledged) + 1]][-2:]
            assert report.count in allowed, (n, acknowledged, report.count)
            assert_tables(store, step=list(ENTRIES_AFTER.values()).index(report.count))
    assert ended_at == set(range(len(STEPS)))


def whole(path: Path) -> bool:
    """Return whether there is a store; a creation that was killed leaves none, and says so."""
    try:
        open_store(path).close()
    except StoreError as e:
        return "no store here" not in e.message and "creation was interrupted" not in e.message
    return True


def assert_tables(store: Store, step: int) -> None:
    """Whatever the entries say was done, the tables hold, read through the stores."""
    with store.read() as conn:
        records = record_store.read_records(conn, "e1")
        if step < 1:
            assert records == []
        elif step < 2:
            assert records == [record("r1"), record("r2")]
        else:
            ended = record("r1", state=RecordState.CANCELLED, ended_step=1)
            assert records == [ended, record("r2")]
        found = run_store.get_run(conn, "run-1")
        if step < 3:
            assert found is None
        elif step < 4:
            assert found == manifest()
        else:
            assert found is not None
            assert (found.status, found.stored) == (RunStatus.COMPLETE, 10)
        assert annotation_store.list_annotations(conn) == ([annotation(1)] if step >= 5 else [])
        tail = [row.trace_id for row in trace_tail.tail(conn)]
        assert tail == [[], ["trace-000001", "trace-000002"], ["trace-000002"]][max(0, step - 5)]
        assert [s.path for s in trace_tail.segments(conn)] == (["traces/a.parquet"] if step >= 7 else [])
        texts = conn.exec_driver_sql("SELECT count(*) FROM text").scalar_one()
        assert texts == [0, 4, 4, 5, 5, 6, 6, 6][step]

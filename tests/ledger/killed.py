"""Does a day's writing in a store and is killed at one point of it, with no chance to clean up.

Run as `killed.py FOLDER`: for N = 1, 2, ... forks a child that works in `FOLDER/N` and sends itself SIGKILL when it
comes to its Nth write point; ends when a child came through unharmed. A write point is the moment before or after
each statement, before each commit, after each commit, and before and after the file turns to WAL. What a child was told
is stored, it acknowledges in `FOLDER/N/acknowledged`. Prints the number of points.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import event

from core.ledger import annotation_store, record_store, run_store, store, trace_tail
from core.records.record import RecordState
from core.records.run import RunStatus
from core.records.trace import EvidenceClass
from tests.ledger.ledgers import annotation, manifest, record, trace

original_engine, original_wal = store._engine, store._use_wal


def work(folder: Path, kill_at: int) -> None:
    """Write through every store, acknowledging each transaction once its block has ended."""
    passed = 0

    def point(*_: Any) -> None:
        nonlocal passed
        passed += 1
        if passed == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def engine(path: Path) -> Any:
        made = original_engine(path)
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(made, name, point)
        return made

    def use_wal(opened: store.Store) -> None:
        point()
        original_wal(opened)
        point()

    store._engine, store._use_wal = engine, use_wal  # type: ignore[assignment]
    folder.mkdir()
    acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def acknowledge(what: str) -> None:
        point()  # committed, not yet acknowledged
        os.write(acknowledged, f"{what}\n".encode())

    opened = store.open_store(folder / "store.sqlite", create=True)
    acknowledge("opened")
    with opened.write() as tx:
        record_store.write_records(tx, "e1", [record("r1"), record("r2")])
    acknowledge("records")
    with opened.write() as tx:
        record_store.set_state(tx, "e1", "r1", RecordState.CANCELLED, 1)
    acknowledge("cancelled")
    with opened.write() as tx:
        run_store.register_run(tx, manifest())
    acknowledge("run")
    with opened.write() as tx:
        run_store.progress_run(tx, "run-1", 10)
        run_store.finish_run(tx, "run-1", RunStatus.COMPLETE)
    acknowledge("finished")
    with opened.write() as tx:
        annotation_store.add(tx, annotation(1))
    acknowledge("annotation")
    with opened.write() as tx:
        trace_tail.append(tx, trace(1))
        trace_tail.append(tx, trace(2))
    acknowledge("traces")
    with opened.write() as tx:
        trace_tail.list_segment(
            tx,
            path="traces/a.parquet",
            rows=1,
            sha256="0" * 64,
            min_id="trace-000001",
            max_id="trace-000001",
            evidence_class=EvidenceClass.DEMO,
            tail_through="trace-000001",
        )
    acknowledge("segment")


def main(folder: Path) -> None:
    """Kill one child at each point."""
    for kill_at in range(1, 10_000):
        pid = os.fork()
        if pid == 0:
            work(folder / str(kill_at), kill_at)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            sys.stdout.write(f"{kill_at - 1}\n")
            return
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Small ledgers to work on, and a way past every guard: what an attacker with the file can do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.hashing import GENESIS_HASH
from core.ledger import annotation_store, record_store, run_store
from core.ledger.chain import FIELDS, Entry, entry_hash
from core.ledger.store import Store, open_store
from core.records.annotation import Annotation, TargetKind
from core.records.decision import NullReason
from core.records.record import Condition, Payload, Record, RecordState
from core.records.run import Manifest, RunStatus
from core.records.trace import ArmName, Boundary, ErrorKind, EvidenceClass, Origin, Step, StepName, StepStatus, Trace

WHEN = datetime(2026, 12, 4, 9, 0, 0, 123456, tzinfo=UTC)


def manifest(run_id: str = "run-1", **changes: Any) -> Manifest:
    """Return a running run of ten executions."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "kind": "controlled",
        "evidence_class": EvidenceClass.CONTROLLED,
        "origin": Origin.OURS,
        "status": RunStatus.RUNNING,
        "contract": "controlled",
        "contract_sha256": "c" * 64,
        "code_commit": None,
        "code_hash": "a" * 64,
        "evaluator_hash": "b" * 64,
        "data_hash": "d" * 64,
        "model_hash": "e" * 64,
        "backbone": "tiny",
        "backbone_sha256": "f" * 64,
        "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
        "seeds": (2026, 2027),
        "planned": 10,
        "stored": 0,
        "started_at": WHEN,
        "finished_at": None,
        "device": "cpu",
        "note": "a note",
    }
    return Manifest(**{**values, **changes})


def annotation(number: int = 0, **changes: Any) -> Annotation:
    """Return a remark on run-1."""
    values: dict[str, Any] = {
        "id": f"annotation-{number:04d}",
        "target_kind": TargetKind.RUN,
        "target_id": "run-1",
        "label": "looks right",
        "text": f"Reason {number}, für später 🌱",
        "author": "person:tester",
        "at": WHEN,
        "replaces": None,
    }
    return Annotation(**{**values, **changes})


def record(record_id: str = "r1", **changes: Any) -> Record:
    """Return an active record."""
    values: dict[str, Any] = {
        "record_id": record_id,
        "condition": Condition(text=f"the invoice {record_id} is paid"),
        "payload": Payload(text=f"send the receipt {record_id}"),
    }
    return Record(**{**values, **changes})


def trace(number: int = 0, evidence_class: EvidenceClass = EvidenceClass.DEMO, run_id: str = "live") -> Trace:
    """Return one execution in which nothing fired."""
    return Trace(
        trace_id=f"trace-{number:06d}",
        execution_key="k" * 64,
        run_id=run_id,
        evidence_class=evidence_class,
        origin=Origin.OURS,
        contract=None,
        created_at=WHEN,
        elapsed_us=12.5,
        episode_id="e1",
        match_id=None,
        seed=None,
        arm=ArmName.C3,
        boundary=Boundary.SAME_PROCESS,
        family=None,
        source=None,
        stratum=None,
        delay=0,
        expected_trigger=False,
        expected_record=None,
        expected_payload=None,
        records=(),
        events=("nothing happened",),
        condition_text=None,
        event_text="nothing happened",
        trigger="mlp",
        score=0.125,
        threshold=0.5,
        fired=False,
        fired_record=None,
        losers=(),
        null_reason=NullReason.BELOW_THRESHOLD,
        features=None,
        decisions=(),
        decisions_expected=0,
        distractor_fires=0,
        retrieved_id=None,
        payload_bound=None,
        intervention=None,
        predicted_action=None,
        model_action=None,
        output="ok",
        baseline_output="ok",
        prompt_sha256=None,
        regenerated=False,
        null_trial=True,
        audit_no_retrieved_id=True,
        audit_no_intervention=True,
        audit_no_later_use=True,
        audit_output_equal=True,
        correct=True,
        error_kind=ErrorKind.NONE,
        memory_write_ok=True,
        backbone="tiny",
        backbone_hash_before="0",
        backbone_hash_after="0",
        integrity_ok=True,
        device="cpu",
        writer_pid=None,
        responder_pid=None,
        store_reopened=False,
        steps=tuple(Step(step=s, status=StepStatus.NOT_RECORDED, detail="") for s in StepName),
        step_times=(),
    )


def fill(store: Store) -> None:
    """Write twelve entries, each table touched: 2-3 records, 4 ended, 5-7 a run to its end, 8-12 annotations."""
    with store.write() as tx:
        record_store.write_records(tx, "e1", [record("r1"), record("r2", expires_at=WHEN)])
    with store.write() as tx:
        record_store.set_state(tx, "e1", "r1", RecordState.CANCELLED, 3)
    with store.write() as tx:
        run_store.register_run(tx, manifest())
    with store.write() as tx:
        run_store.progress_run(tx, "run-1", 4)
    with store.write() as tx:
        run_store.finish_run(tx, "run-1", RunStatus.FAILED, note="the disk was full")
    for n in range(5):
        with store.write() as tx:
            annotation_store.add(tx, annotation(n))


ENTRIES = 12
"""How many entries `fill` leaves, the genesis included."""


def filled(folder: Path) -> Path:
    """Make a filled store and return its file, closed."""
    path = folder / "store.sqlite"
    with open_store(path, create=True, actor="person:tester") as store:
        fill(store)
    return path


@contextmanager
def tampering(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file with the guards dropped, and put them back: whoever has the file can do that."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA foreign_keys=OFF")
        yield connection
        for _, statement in guards:
            connection.execute(statement)
    finally:
        connection.close()


def stored(connection: sqlite3.Connection) -> list[Entry]:
    """Return the entries."""
    return [Entry(*row) for row in connection.execute(f"SELECT {', '.join(FIELDS)} FROM entry ORDER BY seq")]


def rehash(connection: sqlite3.Connection, first: int, *, last: int | None = None, relink: bool = True) -> None:
    """Recompute the hashes of entries `first` to `last` (None: all, and the head), links included."""
    ledger_id = connection.execute("SELECT ledger_id FROM ledger_head").fetchone()[0]
    entries = stored(connection)
    prev = entries[first - 2].hash if first > 1 else GENESIS_HASH
    for e in entries[first - 1 : last]:
        link = prev if relink else e.prev
        prev = entry_hash(ledger_id, e, prev=link)
        connection.execute("UPDATE entry SET prev = ?, hash = ? WHERE seq = ?", (link, prev, e.seq))
    if last is None:
        connection.execute("UPDATE ledger_head SET hash = ?, seq = ?", (prev, entries[-1].seq))

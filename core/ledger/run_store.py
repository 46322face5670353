"""The store of runs: one manifest a run, its progress, its end. Failed and amended runs stay.

Promise: a manifest read back equals the one written. Refused: registering a run twice, moving one that has ended.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from core.clock import now
from core.errors import StoreError
from core.ledger.kinds import EntryKind, RunAmended, RunChanged, RunRegistered
from core.ledger.rows import RunRow, TextRef
from core.ledger.schema import run, text
from core.ledger.store import Pending, Tx, fetch_row
from core.records.run import Manifest, RunStatus


def register_run(tx: Tx, manifest: Manifest) -> Pending:
    """Store a new run's manifest, whatever its status (a shipped run arrives complete).

    Raises
    ------
    StoreError : the run id is already there.
    """
    row = _row(tx, manifest)
    return tx.put(EntryKind.RUN_REGISTERED, RunRegistered(after=row), row, new=True)


def progress_run(tx: Tx, run_id: str, stored: int) -> Pending:
    """Say how many of a running run's executions are stored.

    Raises
    ------
    StoreError : no such run, it has ended, or more are stored than planned.
    """
    before = _running(tx, run_id)
    if not 0 <= stored <= before.planned:
        raise StoreError(f"Run {run_id} plans {before.planned} executions; {stored} cannot be stored.")
    return _change(tx, before, before.model_copy(update={"stored": stored}), EntryKind.RUN_PROGRESSED)


def finish_run(
    tx: Tx,
    run_id: str,
    status: RunStatus,
    *,
    stored: int | None = None,
    note: str | None = None,
    finished_at: datetime | None = None,
) -> Pending:
    """End a running run.

    Parameters
    ----------
    status : complete, partial or failed.
    stored : how many executions are stored; None: as progress said last.
    note : replaces the manifest's note (the reason of a failure); None: keeps it.
    finished_at : when; None: now.

    Raises
    ------
    StoreError : no such run, it has ended, or the status is not an end.
    """
    if status not in (RunStatus.COMPLETE, RunStatus.PARTIAL, RunStatus.FAILED):
        raise StoreError(f"A run does not finish as {status}.")
    before = _running(tx, run_id)
    after = before.model_copy(
        update={
            "status": status,
            "stored": before.stored if stored is None else stored,
            "finished_at": finished_at or now(),
            "note": before.note if note is None else _note(tx, note),
        }
    )
    return _change(tx, before, after, EntryKind.RUN_FINISHED)


def amend_run(tx: Tx, run_id: str, replaced_by: str, reason: str) -> Pending:
    """Mark an ended run as replaced by another, with the reason as its note; it stays readable.

    Raises
    ------
    StoreError : either run is missing, the old one still runs, or was amended before.
    """
    before = _existing(tx, run_id)
    _existing(tx, replaced_by)
    if before.status in (RunStatus.RUNNING, RunStatus.AMENDED):
        raise StoreError(f"Run {run_id} is {before.status} and cannot be amended.")
    after = before.model_copy(update={"status": RunStatus.AMENDED, "note": _note(tx, reason)})
    body = RunAmended(run_id=run_id, replaced_by=replaced_by, before=before, after=after)
    return tx.put(EntryKind.RUN_AMENDED, body, after, new=False)


def get_run(conn: Connection, run_id: str) -> Manifest | None:
    """Return one run's manifest, or None."""
    found = _manifests(conn, run_id=run_id)
    return found[0] if found else None


def runs(conn: Connection, kind: str | None = None) -> list[Manifest]:
    """Return the manifests, newest first."""
    return _manifests(conn, kind=kind)


def latest_complete(conn: Connection, kind: str) -> Manifest | None:
    """Return the newest complete run of a kind, or None: the one criteria are decided on."""
    return next((m for m in _manifests(conn, kind=kind) if m.status is RunStatus.COMPLETE), None)


def _row(tx: Tx, manifest: Manifest) -> RunRow:
    values = {name: getattr(manifest, name) for name in Manifest.model_fields if name != "note"}
    return RunRow(**values, note=_note(tx, manifest.note))


def _note(tx: Tx, note: str) -> TextRef | None:
    return tx.text(note) if note else None


def _existing(tx: Tx, run_id: str) -> RunRow:
    row = fetch_row(tx.conn, RunRow, run_id)
    if row is None:
        raise StoreError(f"There is no run {run_id}.")
    return row


def _running(tx: Tx, run_id: str) -> RunRow:
    row = _existing(tx, run_id)
    if row.status is not RunStatus.RUNNING:
        raise StoreError(f"Run {run_id} has ended: it is {row.status}.")
    return row


def _change(tx: Tx, before: RunRow, after: RunRow, kind: EntryKind) -> Pending:
    return tx.put(kind, RunChanged(before=before, after=after), after, new=False)


def _manifests(conn: Connection, run_id: str | None = None, kind: str | None = None) -> list[Manifest]:
    query = select(run, text.c.text.label("note")).outerjoin(text, run.c.note_id == text.c.id)
    if run_id is not None:
        query = query.where(run.c.run_id == run_id)
    if kind is not None:
        query = query.where(run.c.kind == kind)
    query = query.order_by(run.c.started_at.desc(), run.c.run_id.desc())
    return [
        Manifest.model_validate({**{name: found[name] for name in Manifest.model_fields}, "note": found["note"] or ""})
        for found in conn.execute(query).mappings()
    ]

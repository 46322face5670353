"""The store of records: condition and payload as separate texts, bound by (namespace, record id).

Promise: what is read back equals what was written, in the order of writing. A namespace is the workspace's own
(`WORKSPACE`) or one episode's. Refused: a record id written twice in one namespace; changing one that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import ColumnElement, Connection, select

from core.errors import StoreError
from core.ledger.kinds import EntryKind, RecordChanged, RecordWritten
from core.ledger.rows import RecordRow
from core.ledger.schema import record, text
from core.ledger.store import Pending, Tx, fetch_row
from core.records.record import Condition, Payload, Record, RecordState

WORKSPACE = "workspace"
"""The namespace of the workspace's own records."""


def write_records(tx: Tx, namespace: str, records: Iterable[Record]) -> list[Pending]:
    """Store records, each with its entry.

    Parameters
    ----------
    tx : the write transaction.
    namespace : `WORKSPACE`, or the episode (with whatever else makes it unique in this store: run, arm, boundary).
    records : as `bind` returned them; lifecycle state, steps and expiry included.

    Raises
    ------
    StoreError : one of the ids is already in the namespace.
    """
    new = list(records)
    conditions = tx.texts([r.condition.text for r in new])
    payloads = tx.texts([r.payload.text for r in new])
    rows = [
        RecordRow(
            namespace=namespace,
            record_id=r.record_id,
            condition=condition,
            payload=payload,
            state=r.state,
            expires_at=r.expires_at,
            supersedes=r.supersedes,
            intention_id=r.intention_id,
            written_step=r.written_step,
            ended_step=r.ended_step,
        )
        for r, condition, payload in zip(new, conditions, payloads, strict=True)
    ]
    return tx.put_new(EntryKind.RECORD_WRITTEN, [(RecordWritten(after=row), row) for row in rows])


def read_records(conn: Connection, namespace: str) -> list[Record]:
    """Return the namespace's records in the order of writing; empty when there are none."""
    return _records(conn, record.c.namespace == namespace)


def read_all_records(conn: Connection) -> dict[str, list[Record]]:
    """Return the records of every namespace, each in the order of writing; a namespace without any is left out."""
    found: dict[str, list[Record]] = {}
    for namespace, read in _rows(conn):
        found.setdefault(namespace, []).append(read)
    return found


def open_records(conn: Connection, namespace: str = WORKSPACE) -> list[Record]:
    """Return the records that are still active by state; expiry is judged against an event's instant by the caller."""
    return _records(conn, record.c.namespace == namespace, record.c.state == RecordState.ACTIVE.value)


def set_state(tx: Tx, namespace: str, record_id: str, state: RecordState, ended_step: int | None = None) -> Pending:
    """Change a record's lifecycle state.

    Raises
    ------
    StoreError : no such record.
    """
    return _change(tx, namespace, record_id, {"state": state, "ended_step": ended_step})


def link_intention(tx: Tx, namespace: str, record_id: str, intention_id: str | None) -> Pending:
    """Tie a record to the typed obligation it belongs to, or untie it.

    Raises
    ------
    StoreError : no such record.
    """
    return _change(tx, namespace, record_id, {"intention_id": intention_id})


def _change(tx: Tx, namespace: str, record_id: str, changes: dict[str, object]) -> Pending:
    before = fetch_row(tx.conn, RecordRow, namespace, record_id)
    if before is None:
        raise StoreError(f"There is no record {record_id} in {namespace}.")
    after = before.model_copy(update=changes)
    return tx.put(EntryKind.RECORD_CHANGED, RecordChanged(before=before, after=after), after, new=False)


def _records(conn: Connection, *where: ColumnElement[bool]) -> list[Record]:
    return [read for _, read in _rows(conn, *where)]


def _rows(conn: Connection, *where: ColumnElement[bool]) -> Iterator[tuple[str, Record]]:
    condition, payload = text.alias(), text.alias()
    query = (
        select(record, condition.c.text.label("condition"), payload.c.text.label("payload"))
        .join(condition, record.c.condition_id == condition.c.id)
        .join(payload, record.c.payload_id == payload.c.id)
        .where(*where)
        .order_by(record.c.id)
    )
    for row in conn.execute(query):
        yield (
            row.namespace,
            Record(
                record_id=row.record_id,
                condition=Condition(text=row.condition),
                payload=Payload(text=row.payload),
                state=RecordState(row.state),
                expires_at=row.expires_at,
                supersedes=row.supersedes,
                intention_id=row.intention_id,
                written_step=row.written_step,
                ended_step=row.ended_step,
            ),
        )

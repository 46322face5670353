"""The tail: single traces as rows, until enough make a Parquet segment; and the list of segments.

Promise: a trace stands in the tail or in a listed segment, never in both and never in neither: the tail rows are
dropped in the transaction that lists the segment. What the views read is the listed segments and the tail, nothing
else in the folder. Evaluation runs list the segments they wrote themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import Connection, delete, func, insert, select

from core.errors import StoreError
from core.hashing import sha256_hex
from core.ledger.kinds import EntryKind, SegmentListed, TraceSaved
from core.ledger.rows import SegmentRow
from core.ledger.schema import segment, trace_tail
from core.ledger.store import Pending, Tx, fetch_row
from core.records.base import refusal
from core.records.trace import EvidenceClass, Trace

SEGMENT_ROWS = 20_000
"""When the tail has this many rows, a segment is made of them."""


@dataclass(frozen=True)
class TailRow:
    """One trace of the tail."""

    trace_id: str
    evidence_class: EvidenceClass
    run_id: str
    trace: str
    """The trace's JSON, `Trace.model_validate_json` reads it."""
    last_seq: int


def append(tx: Tx, trace: Trace) -> Pending:
    """Add one trace to the tail.

    Raises
    ------
    StoreError : its id is already there.
    """
    body = trace.model_dump_json()
    of = {"trace_id": trace.trace_id, "evidence_class": trace.evidence_class, "run_id": trace.run_id}
    tx.conn.execute(insert(trace_tail).values(**of, trace=body, last_seq=0))
    saved = TraceSaved(**of, sha256=sha256_hex(body.encode()))
    pending = tx.append(EntryKind.TRACE_SAVED, saved, f"trace:{trace.trace_id}")
    tx.stamp(trace_tail, ("trace_id",), (trace.trace_id,), pending)
    return pending


def tail(conn: Connection) -> list[TailRow]:
    """Return the tail's rows by id."""
    return list(iter_tail(conn))


def iter_tail(conn: Connection, after: str = "", limit: int | None = None) -> Iterator[TailRow]:
    """Yield the tail's rows by id, those beyond `after`, at most `limit`."""
    query = select(trace_tail).where(trace_tail.c.trace_id > after).order_by(trace_tail.c.trace_id)
    for row in conn.execute(query.limit(limit) if limit is not None else query):
        yield TailRow(row.trace_id, EvidenceClass(row.evidence_class), row.run_id, row.trace, row.last_seq)


def tail_size(conn: Connection) -> int:
    """Return how many traces the tail holds."""
    return int(conn.execute(select(func.count()).select_from(trace_tail)).scalar_one())


def list_segment(
    tx: Tx,
    *,
    path: str,
    rows: int,
    sha256: str,
    min_id: str,
    max_id: str,
    evidence_class: EvidenceClass,
    run_id: str | None = None,
    tail_through: str | None = None,
) -> Pending:
    """List a finished Parquet file (already renamed into place), and drop the tail rows it took over.

    Parameters
    ----------
    path : relative to the home, POSIX.
    tail_through : drop the tail rows of this evidence class (and run, where one is given) with ids up to and
        including this one; None: the file did not come from the tail.

    Raises
    ------
    StoreError : the path leaves the home or is listed already; the tail holds another number of rows up to
        `tail_through` than the file.
    """
    try:
        row = SegmentRow(
            path=path,
            rows=rows,
            sha256=sha256,
            min_id=min_id,
            max_id=max_id,
            evidence_class=evidence_class,
            run_id=run_id,
            tail_through=tail_through,
        )
    except ValidationError as e:
        raise refusal(e, StoreError, where=path) from e
    dropped = 0
    if tail_through is not None:
        taken = [trace_tail.c.trace_id <= tail_through, trace_tail.c.evidence_class == evidence_class.value]
        if run_id is not None:
            taken.append(trace_tail.c.run_id == run_id)
        dropped = tx.conn.execute(delete(trace_tail).where(*taken)).rowcount
        if dropped != rows:
            raise StoreError(
                f"Segment {path} holds {rows} traces; the tail holds {dropped} of class {evidence_class}"
                f" up to {tail_through}."
            )
    if fetch_row(tx.conn, SegmentRow, path) is not None:
        raise StoreError(f"Segment {path} is listed already.")
    body = SegmentListed(before=None, after=row, dropped=dropped)
    return tx.put(EntryKind.SEGMENT_LISTED, body, row, new=True)


def segments(conn: Connection) -> list[SegmentRow]:
    """Return the listed segments in the order of listing."""
    query = select(segment).order_by(segment.c.last_seq, segment.c.path)
    return [
        SegmentRow.model_validate({f: r[f] for f in SegmentRow.model_fields}) for r in conn.execute(query).mappings()
    ]

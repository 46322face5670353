"""Turns a full tail into segments: files first, then one transaction that lists them and drops their rows.

Promise: a kill at any point loses and doubles nothing. Two processes at once: the second finds another number of rows
in the tail than in its file, is refused, and leaves files nobody lists.
"""

from __future__ import annotations

from core.config import Config
from core.ledger.store import Store
from core.ledger.trace_tail import list_segment, tail, tail_size
from core.ledger.tx import Tx
from core.records.trace import EvidenceClass, Trace
from core.traces.compact import SEGMENT_ROWS, write_segments
from core.traces.writer import SegmentFile


def compact_tail(config: Config, store: Store, at: int = SEGMENT_ROWS) -> tuple[SegmentFile, ...]:
    """Make segments of the tail if it holds at least `at` traces; return them.

    Raises
    ------
    StoreError : the disk refuses, or the tail was compacted by another process meanwhile.
    """
    with store.read() as conn:
        if tail_size(conn) < max(at, 1):
            return ()
        traces = [Trace.model_validate_json(row.trace) for row in tail(conn)]
    files = write_segments(config.traces, traces)
    with store.write() as tx:
        for file in files:
            list_file(tx, config, file, tail_through=file.max_id)
    return files


def list_file(tx: Tx, config: Config, file: SegmentFile, tail_through: str | None = None) -> None:
    """List a finished Parquet file in the store.

    Parameters
    ----------
    tail_through : drop the tail rows that it took over, up to this id; None: it did not come from the tail.
    """
    list_segment(
        tx,
        path=file.path.relative_to(config.home).as_posix(),
        rows=file.rows,
        sha256=file.sha256,
        min_id=file.min_id,
        max_id=file.max_id,
        evidence_class=EvidenceClass(file.evidence_class),
        run_id=file.run_id,
        tail_through=tail_through,
    )

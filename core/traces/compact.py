"""Turns tail traces into segment files; who owns the store then lists them and drops the rows, in one transaction.

Promise: only listed files are read, so a crash at any point loses and doubles nothing: before the transaction the
rows are still in the tail and the file is an orphan nobody reads; after it the file is listed and the rows are gone.
A second attempt on the same rows writes the same file again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from core.records.trace import Trace
from core.traces.writer import SegmentFile, write_part

SEGMENT_ROWS = 20_000
"""So many tail rows make a segment: one-row files are slow (3,000 of them: 618 ms a scan), rows in SQLite are not."""


def write_segments(folder: Path, traces: Iterable[Trace]) -> tuple[SegmentFile, ...]:
    """Write traces as one segment for each evidence class and run, and return the files to be listed.

    Parameters
    ----------
    folder : the dataset's folder (a workspace's `traces`).
    traces : the tail's traces, in any order.

    Raises
    ------
    StoreError : the disk refuses.
    """
    groups: dict[tuple[str, str], list[Trace]] = {}
    for trace in sorted(traces, key=lambda t: t.trace_id):
        groups.setdefault((trace.evidence_class, trace.run_id), []).append(trace)
    return tuple(
        write_part(folder, group, f"segment-{group[0].trace_id}-{group[-1].trace_id}") for group in groups.values()
    )

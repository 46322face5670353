"""Writes Parquet parts that are either whole or absent, and remembered on disk before their name appears.

Promise: a part holds one evidence class, one run, rows ordered by trace id; the file under its name is complete, on
disk. Refused: an empty part, a mixed part, one trace id twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.errors import InputError, StoreError
from core.files import write_whole
from core.hashing import sha256_file
from core.records.trace import EvidenceClass, Trace
from core.traces.dataset import ARROW_SCHEMA, to_table

ROW_GROUP = 20_480
"""Rows a row group: about 27 ms for a page out of 10 million rows."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


@dataclass(frozen=True)
class SegmentFile:
    """One Parquet file of the dataset."""

    path: Path
    """Where it lies."""
    rows: int
    """How many traces it holds."""
    sha256: str
    """Hash of its bytes."""
    min_id: str
    """Its first trace id."""
    max_id: str
    """Its last trace id."""
    evidence_class: str
    """The one evidence class of its rows."""
    run_id: str
    """The one run of its rows."""


def partition(folder: Path, evidence_class: str, run_id: str) -> Path:
    """Return where a run's parts lie below the dataset's folder.

    Raises
    ------
    InputError : a class that is none, a run id that cannot be a folder's name.
    """
    if evidence_class not in EvidenceClass.__members__.values() or not _NAME.fullmatch(run_id):
        raise InputError(f"A part of class {evidence_class!r} and run {run_id!r} has no place in the dataset.")
    return folder / evidence_class / run_id


def write_part(folder: Path, traces: Iterable[Trace], name: str) -> SegmentFile:
    """Write traces to `folder/<evidence class>/<run id>/<name>.parquet`, atomically.

    Parameters
    ----------
    folder : the dataset's folder (a workspace's `traces`).
    traces : at least one, all of one class and run.
    name : the part's name without extension; a part of that name is replaced as a whole.

    Raises
    ------
    InputError : no traces, several classes or runs, two traces of one id, a bad name.
    StoreError : the disk refuses.
    """
    return write_table(folder, to_table(traces), name)


def write_table(folder: Path, table: pa.Table, name: str) -> SegmentFile:
    """Write a table of the dataset's schema as `write_part` does."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a part.")
    if table.num_rows == 0:
        raise InputError(f"The part {name!r} would be empty.")
    table = table.select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA).sort_by("trace_id")
    classes, runs = ([str(v) for v in pc.unique(table[c]).to_pylist()] for c in ("evidence_class", "run_id"))
    if len(classes) != 1 or len(runs) != 1:
        raise InputError(
            f"The part {name!r} would mix {len(classes)} evidence classes and {len(runs)} runs; one of each is allowed."
        )
    if pc.count_distinct(table["trace_id"]).as_py() != table.num_rows:
        raise InputError(f"The part {name!r} holds the same trace id twice.")
    path = partition(folder, classes[0], runs[0]) / f"{name}.parquet"
    try:
        write_parquet(path, table)
        digest = sha256_file(path)
    except OSError as e:
        raise StoreError(f"A part of the traces could not be written: {e}.", where=str(path)) from e
    ids = table["trace_id"]
    return SegmentFile(path, table.num_rows, digest, str(ids[0]), str(ids[-1]), classes[0], runs[0])


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write one Parquet file: temporary name, bytes on disk, rename, folder on disk.

    Raises
    ------
    StoreError : the disk refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path, what="A part of the traces", kind=StoreError, next_step="Free some space.") as f:
        pq.write_table(table, f, compression="zstd", row_group_size=ROW_GROUP)

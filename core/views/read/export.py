"""Exactly the executions a filter selects, all columns, as CSV, JSON Lines or Parquet, in the order of their ids.

Promise: rows come piece by piece, so a million of them need no more memory than twenty thousand. In CSV undefined is
an empty cell and an empty text is `""`; cells and headers that a spreadsheet would run as a formula get a `'` in
front unless they are numbers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from core.clock import format_instant
from core.errors import ViewError, quoted
from core.records.filter import Filter
from core.traces.dataset import NESTED
from core.traces.writer import ROW_GROUP
from core.views.read.traces import column_map, columns
from core.views.views import Snapshot
from core.views.where import condition

FORMULA = r"^[=+\-@\t\r]"
NUMERIC = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


class ExportFormat(StrEnum):
    """What an export can be."""

    CSV = "csv"
    """For spreadsheets: UTF-8, comma, header."""
    JSONL = "jsonl"
    """One JSON object a line; nested fields are nested."""
    PARQUET = "parquet"
    """The types kept; nested fields as JSON text."""


def export(snapshot: Snapshot, chosen: Filter, kind: str, file: BinaryIO) -> int:
    """Write the filtered executions to an open binary file and return how many there were.

    Raises
    ------
    ViewError : a bad filter, an unknown format.
    """
    if kind not in ExportFormat.__members__.values():
        raise ViewError(f"There is no export format {quoted(kind)}; there are {', '.join(ExportFormat)}.")
    where, values = condition(chosen, column_map())
    names = ", ".join(c.name for c in columns())
    batches = snapshot.batches(f"SELECT {names} FROM trace WHERE {where} ORDER BY trace_id", values)
    write = {ExportFormat.CSV: _csv, ExportFormat.JSONL: _jsonl, ExportFormat.PARQUET: _parquet}[ExportFormat(kind)]
    return write(snapshot.schema(f"SELECT {names} FROM trace LIMIT 0"), batches, file)


def export_bytes(snapshot: Snapshot, chosen: Filter, kind: str) -> bytes:
    """Return the export as bytes, for a download button."""
    buffer = io.BytesIO()
    export(snapshot, chosen, kind, buffer)
    return buffer.getvalue()


def _csv(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: BinaryIO) -> int:
    names = [_cell(n) for n in schema.names]
    file.write((",".join(names) + "\n").encode())
    rows = 0
    options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        safe = [_spreadsheet_safe(_csv_text(batch.column(i))) for i in range(batch.num_columns)]
        pa_csv.write_csv(pa.Table.from_arrays(safe, names=names), file, options)
        rows += batch.num_rows
    return rows


def _cell(header: str) -> str:
    return f"'{header}" if header[:1] in "=+-@\t\r" else header


def _csv_text(column: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_timestamp(column.type):
        return pa.array([None if v is None else format_instant(v) for v in column.to_pylist()], pa.string())
    return column


def _spreadsheet_safe(column: pa.Array[Any]) -> pa.Array[Any]:
    if not pa.types.is_string(column.type):
        return column
    risky = pc.and_(pc.match_substring_regex(column, FORMULA), pc.invert(pc.match_substring_regex(column, NUMERIC)))
    if not pc.any(risky).as_py():
        return column
    marked = pc.binary_join_element_wise(pa.scalar("'"), column, pa.scalar(""))  # type: ignore[call-overload]
    safe: pa.Array[Any] = pc.if_else(risky, marked, column)
    return safe


def _jsonl(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: BinaryIO) -> int:
    rows = 0
    for batch in batches:
        for row in batch.to_pylist():
            line = {n: _plain(n, v) for n, v in row.items()}
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        rows += batch.num_rows
    return rows


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return format_instant(value)
    return json.loads(value) if name in NESTED and value is not None else value


def _parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: BinaryIO) -> int:
    rows = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch, row_group_size=ROW_GROUP)
            rows += batch.num_rows
    return rows

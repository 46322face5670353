"""One mapping between a trace, an Arrow row and a Parquet column, derived from the fields of `Trace`.

Promise: `from_row(row) == trace` for every row of `to_table([trace])`. Nested fields are canonical JSON text,
instants UTC microseconds, enums their words, undefined NULL. Refused: text that is not Unicode, integers beyond 64
bits.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Union, get_args, get_origin

import pyarrow as pa
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from core.clock import parse_instant
from core.errors import InputError
from core.hashing import canonical_json
from core.records.base import refusal
from core.records.trace import Trace

_ARROW: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def column_type(annotation: Any) -> tuple[pa.DataType | None, bool]:
    """Return the Arrow type of a field's annotation (None: nested, kept as JSON) and whether it may be undefined."""
    if get_origin(annotation) is Annotated:
        return column_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [a for a in get_args(annotation) if a is not type(None)]
        nullable = len(parts) < len(get_args(annotation))
        return (column_type(parts[0])[0] if len(parts) == 1 else None), nullable
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return pa.string(), False
    return (_ARROW.get(annotation) if isinstance(annotation, type) else None), False


def _schema() -> tuple[pa.Schema, frozenset[str]]:
    fields, nested = [], set()
    for name, info in Trace.model_fields.items():
        kind, nullable = column_type(info.annotation)
        if kind is None:
            nested.add(name)
        fields.append(pa.field(name, kind or pa.string(), nullable=nullable))
    return pa.schema(fields), frozenset(nested)


ARROW_SCHEMA, NESTED = _schema()
"""The dataset's schema, one column a field in the order of `Trace`; and the columns that hold JSON."""


# Where Python's spelling of a number is not RFC 8785's: exponents, whole floats, and integers it would refuse.
_OTHER_SPELLING = re.compile(r"\de[-+]?\d|\.0[,\]}]|\.0$|\d{16}")


def nested_text(value: Any) -> str:
    """Return a nested field's canonical JSON; `json` writes the same bytes four times as fast for most of them.

    Raises
    ------
    InputError : a text that is not Unicode.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return canonical_json(value).decode() if _OTHER_SPELLING.search(text) else text


def to_row(trace: Trace) -> dict[str, Any]:
    """Return a trace as one flat row of Python values.

    Raises
    ------
    InputError : a text that is not Unicode.
    """
    try:
        dumped = trace.model_dump(mode="json", include=set(NESTED))
    except PydanticSerializationError as e:
        raise InputError(f"Trace {trace.trace_id} cannot be stored: {e}.") from e
    row: dict[str, Any] = {}
    for name in ARROW_SCHEMA.names:
        if name in NESTED:
            value = dumped[name]
            row[name] = None if value is None else nested_text(value)
        else:
            value = getattr(trace, name)
            row[name] = value.value if isinstance(value, StrEnum) else value
    return row


def to_table(traces: Iterable[Trace]) -> pa.Table:
    """Return traces as an Arrow table of `ARROW_SCHEMA`, in their order.

    Raises
    ------
    InputError : a text that is not Unicode, an integer beyond 64 bits.
    """
    try:
        return pa.Table.from_pylist([to_row(t) for t in traces], schema=ARROW_SCHEMA)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as e:
        raise InputError(f"A trace cannot be stored: {e}.") from e


def rows_from_json(texts: Iterable[str]) -> pa.Table:
    """Return stored JSON texts of traces (the tail) as an Arrow table, without building the traces.

    Raises
    ------
    InputError : a text that is not a trace.
    """
    rows = []
    for text in texts:
        try:
            row = json.loads(text)
            row["created_at"] = parse_instant(row["created_at"])
            rows.append(row | {n: nested_text(row[n]) for n in NESTED if row[n] is not None})
        except (ValueError, TypeError, KeyError, InputError) as e:
            raise InputError(f"A trace of the tail cannot be read: {e!r}.") from e
    try:
        return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as e:
        raise InputError(f"A trace of the tail cannot be read: {e}.") from e


def from_row(row: Mapping[str, Any]) -> Trace:
    """Return the trace of one stored row; columns that `Trace` does not have are passed over.

    Raises
    ------
    InputError : the row is not a trace.
    """
    values: dict[str, Any] = {name: row.get(name) for name in ARROW_SCHEMA.names}
    try:
        values |= {name: json.loads(values[name] or "") for name in NESTED if values[name] is not None}
        return Trace.model_validate(values)
    except ValidationError as e:
        raise refusal(e, InputError, where=f"trace {row.get('trace_id')}") from e
    except (ValueError, TypeError) as e:
        raise InputError(f"A stored trace cannot be read: {e}.", where=f"trace {row.get('trace_id')}") from e

"""The columns of the trace view: kind, sentence and closed set of each, taken from the fields of `Trace`."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any

import pyarrow as pa

from core.records.trace import Trace
from core.traces.dataset import ARROW_SCHEMA, NESTED, column_type
from core.views.catalog import view_file
from core.views.where import Column, Kind

VIEW = "trace"

_KINDS = {pa.bool_(): Kind.FLAG, pa.int64(): Kind.WHOLE, pa.float64(): Kind.NUMBER, pa.string(): Kind.TEXT}
_DERIVED = {
    "outcome": ("right action", "right silence", "missed", "false action", "wrong record", "wrong payload"),
    "path": ("intervention", "null path"),
    "pair_id": (),
    "twin_id": (),
    "margin": (),
    "audit_passed": (),
    "restarted": (),
}
_DERIVED_KINDS = {"margin": Kind.NUMBER, "audit_passed": Kind.FLAG, "restarted": Kind.FLAG}


@cache
def columns() -> tuple[Column, ...]:
    """Return every column of the trace view, in order, with its kind, its sentence and its closed set of values."""
    described = view_file(VIEW).columns
    stored = tuple(
        Column(
            name,
            Kind.NESTED if name in NESTED else _KINDS.get(ARROW_SCHEMA.field(name).type, Kind.INSTANT),
            described[name],
            _closed_set(info.annotation),
        )
        for name, info in Trace.model_fields.items()
    )
    derived = tuple(
        Column(name, _DERIVED_KINDS.get(name, Kind.TEXT), described[name], values, derived=True)
        for name, values in _DERIVED.items()
    )
    return stored + derived


@cache
def column_map() -> dict[str, Column]:
    """Return the columns by name."""
    return {c.name: c for c in columns()}


def field_names() -> tuple[str, ...]:
    """Return the fields a filter may name; what `Filter.parse` asks for."""
    return tuple(column_map())


def list_columns() -> tuple[str, ...]:
    """Return the columns of a list: everything but the nested ones."""
    return tuple(c.name for c in columns() if c.kind is not Kind.NESTED)


def _closed_set(annotation: Any) -> tuple[str, ...]:
    if column_type(annotation)[0] != pa.string():
        return ()
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(part, type) and issubclass(part, StrEnum):
            return tuple(part)
    return ()

"""A filter as a SQL condition: names from the view's columns, values converted here and bound, never pasted.

Promise: the condition selects what its terms say: several `eq` of one field mean any of them, everything else must
hold; `ne` keeps undefined values, every other comparison drops them. Refused: a value its column cannot hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.clock import parse_instant
from core.errors import InputError, ViewError, quoted
from core.records.filter import Filter, FilterOp, FilterTerm

_SQL = {FilterOp.LT: "<", FilterOp.LE: "<=", FilterOp.GT: ">", FilterOp.GE: ">="}


class Kind(StrEnum):
    """How a column's values compare."""

    TEXT = "text"
    """By code point; equality as written."""
    WHOLE = "whole number"
    """64-bit integers."""
    NUMBER = "number"
    """Double precision, finite."""
    FLAG = "flag"
    """true or false."""
    INSTANT = "instant"
    """UTC microseconds."""
    NESTED = "nested"
    """JSON text: searched, never ordered."""


@dataclass(frozen=True)
class Column:
    """One column a reader can pick, sort and filter by."""

    name: str
    """Its name in the view."""
    kind: Kind
    """How its values compare."""
    description: str
    """A sentence."""
    values: tuple[str, ...] = field(default=())
    """All its possible values, where they are a closed set."""
    derived: bool = False
    """Whether the view computes it."""


def value_of(column: Column, text: str) -> Any:
    """Return a filter's text as a value of the column.

    Raises
    ------
    ViewError : the column cannot hold it.
    """
    a = "an" if column.kind is Kind.INSTANT else "a"
    problem = f"The filter on {column.name} compares {a} {column.kind} with {quoted(text)}"
    if column.kind is Kind.FLAG:
        if text not in ("true", "false"):
            raise ViewError(f"{problem}; write true or false.")
        return text == "true"
    if column.kind is Kind.INSTANT:
        try:
            return parse_instant(text)
        except InputError as e:
            raise ViewError(f"{problem}; write RFC 3339 with an offset, like 2026-12-04T09:00:00Z.") from e
    if column.kind in (Kind.WHOLE, Kind.NUMBER):
        whole = column.kind is Kind.WHOLE
        try:
            # Python's own readings of digits in other scripts, underscores and blanks are not what is meant here.
            if not text.isascii() or "_" in text or text != text.strip():
                raise ValueError(text)
            number = int(text) if whole else float(text)
        except (ValueError, OverflowError) as e:
            raise ViewError(f"{problem}; write a {column.kind}.") from e
        if (whole and not -(2**63) <= number < 2**63) or not math.isfinite(number):
            raise ViewError(f"{problem}; it is beyond what the column holds.")
        return number
    return text


def condition(chosen: Filter, columns: Mapping[str, Column]) -> tuple[str, list[Any]]:
    """Return the filter as a SQL condition with `?` for its values, and the values.

    Parameters
    ----------
    chosen : its fields are looked up in `columns`.

    Raises
    ------
    ViewError : an unknown field, a value its column cannot hold, an order on a flag.
    """
    parts: list[str] = []
    values: list[Any] = []
    any_of: dict[str, list[Any]] = {}
    for term in chosen.terms:
        column = columns.get(term.field)
        if column is None:
            raise ViewError(f"The filter {quoted(term.token)} names {quoted(term.field)}, which is not a column here.")
        if term.op is FilterOp.EQ:
            any_of.setdefault(term.field, []).append(value_of(column, term.value))
        else:
            part, bound = _comparison(column, term)
            parts.append(part)
            values += bound
    for name, options in any_of.items():
        parts.append(f"{name} IN ({', '.join('?' * len(options))})")
        values += options
    return " AND ".join(parts) or "TRUE", values


def _comparison(column: Column, term: FilterTerm) -> tuple[str, list[Any]]:
    name = column.name
    if term.op is FilterOp.IS:
        if term.value not in ("null", "set"):
            raise ViewError(f"The filter {quoted(term.token)} must end in null or set.")
        return f"{name} IS {'NOT ' if term.value == 'set' else ''}NULL", []
    if term.op is FilterOp.CONTAINS:
        if column.kind not in (Kind.TEXT, Kind.NESTED):
            raise ViewError(
                f"The filter {quoted(term.token)} searches {name}, which is of kind {column.kind}, no text."
            )
        return f"{name} ILIKE ? ESCAPE '\\'", [f"%{_escaped(term.value)}%"]
    if term.op is FilterOp.NE:
        return f"{name} IS DISTINCT FROM ?", [value_of(column, term.value)]
    if column.kind in (Kind.FLAG, Kind.NESTED):
        raise ViewError(f"The filter {quoted(term.token)} orders {name}, which has no order.")
    return f"{name} {_SQL[term.op]} ?", [value_of(column, term.value)]


def _escaped(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return text


def joined(conditions: Iterable[str]) -> str:
    """Return conditions as one; none is TRUE."""
    return " AND ".join(f"({c})" for c in conditions) or "TRUE"

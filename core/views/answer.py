"""What a question returns: an Arrow table, the view it came from, the SQL to copy, and the ledger entry it is as of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from core.clock import format_instant
from core.errors import ViewError


@dataclass(frozen=True)
class Answer:
    """Rows, and how they were asked for."""

    table: pa.Table
    """The rows."""
    view: str
    """The view's name."""
    sql: str
    """The query with its values, ready for `python -m core sql`."""
    as_of: int
    """The last ledger entry the rows know of; 0 on an empty store."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def one(self) -> dict[str, Any]:
        """Return the only row.

        Raises
        ------
        ViewError : there is none, or more than one.
        """
        if self.table.num_rows != 1:
            raise ViewError(f"One row of {self.view} was expected, {self.table.num_rows} were found.")
        return self.rows()[0]


def literal(value: Any) -> str:
    """Return a bound value as a SQL literal, for the text a reader copies; queries themselves bind.

    Raises
    ------
    ViewError : a value no query binds.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return f"{value!r}::DOUBLE" if isinstance(value, float) else str(value)
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{format_instant(value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise ViewError(f"A query cannot hold the value {value!r}.")


def with_values(sql: str, values: Sequence[Any]) -> str:
    """Return the query with its `?` replaced by literals; our own SQL has no other question marks."""
    parts = sql.split("?")
    if len(parts) != len(values) + 1:
        raise ViewError(f"The query has {len(parts) - 1} places for {len(values)} values.")
    return "".join(part + literal(v) for part, v in zip(parts, values, strict=False)) + parts[-1]

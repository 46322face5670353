"""The paper's own values: tables 1-5 and the numbers of its prose, each with its section and how it is known.

Promise: read strictly, class literature, origin published; a value that was not reported is None, never 0.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from core.config import DATA
from core.errors import InputError

PUBLISHED = DATA / "published"
HEADER = ["id", "analysis", "metric", "value", "k", "n", "section", "kind", "note"]
TABLES = (1, 2, 3, 4, 5)


class Known(StrEnum):
    """How a published value is known."""

    REPORTED = "reported"
    """The paper prints it."""
    INFERRED = "inferred"
    """Worked out from printed values and group sizes."""
    NOT_REPORTED = "not reported"
    """Spoken of without a value."""


@dataclass(frozen=True)
class PublishedValue:
    """One number of the paper."""

    id: str
    """`analysis.metric`."""
    analysis: str
    """The analysis it belongs to."""
    metric: str
    """What was measured."""
    value: float | None
    """As printed, or k / n; None: not reported."""
    k: int | None
    """Numerator, where it is a count."""
    n: int | None
    """Denominator, where it is a count."""
    section: str
    """Where it stands."""
    known: Known
    """How it is known."""
    note: str
    """What to know beside it."""


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper, cell by cell."""

    number: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8", newline="") as f:
            return list(csv.reader(f, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"The published values cannot be read: {e}.", where=str(path)) from e


def table(number: int, folder: Path = PUBLISHED) -> PublishedTable:
    """Return one of the paper's tables 1-5.

    Raises
    ------
    InputError : another number, or a damaged file.
    """
    if number not in TABLES:
        raise InputError(f"There is no published table {number}; there are 1 to 5.")
    path = folder / f"table{number}.csv"
    header, *rows = _lines(path) or [[]]
    if not header or not rows or any(len(r) != len(header) for r in rows):
        raise InputError("A published table has rows of several lengths.", where=str(path))
    return PublishedTable(number, tuple(header), tuple(tuple(r) for r in rows))


def values(folder: Path = PUBLISHED) -> dict[str, PublishedValue]:
    """Return every published value by its id.

    Raises
    ------
    InputError : a line that is no value, with its number.
    """
    path = folder / "values.csv"
    header, *rows = _lines(path) or [[]]
    if header != HEADER:
        raise InputError(f"The published values do not begin with {','.join(HEADER)}.", where=f"{path}:1")
    found: dict[str, PublishedValue] = {}
    for number, row in enumerate(rows, 2):
        try:
            value = _value(row)
        except ValueError as e:
            raise InputError(f"Line {number} of the published values is none: {e}.", where=f"{path}:{number}") from e
        if value.id in found:
            raise InputError(f"Line {number} of the published values repeats {value.id}.", where=f"{path}:{number}")
        found[value.id] = value
    return found


def _value(row: list[str]) -> PublishedValue:
    if len(row) != len(HEADER):
        raise ValueError(f"{len(row)} columns instead of {len(HEADER)}")
    cell = dict(zip(HEADER, row, strict=True))
    known = Known(cell["kind"])
    k, n = (int(cell[c]) if cell[c] else None for c in ("k", "n"))
    if (k is None) != (n is None):
        raise ValueError("k without n")
    printed = float(cell["value"]) if cell["value"] else None
    value = printed if printed is not None else (k / n if k is not None and n else None)
    if (value is None) != (known is Known.NOT_REPORTED):
        raise ValueError(f"{known} does not go with value {cell['value']!r} and k/n {cell['k']}/{cell['n']}")
    if cell["id"] != f"{cell['analysis']}.{cell['metric']}" or not cell["section"]:
        raise ValueError("id and section do not name its place")
    return PublishedValue(
        cell["id"], cell["analysis"], cell["metric"], value, k, n, cell["section"], known, cell["note"]
    )

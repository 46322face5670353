"""Questions about executions: list, totals, facets, one execution, its other arms, its neighbours, export.

Promise: one filter drives them all, so that list, totals, chart and export agree. Pages are found by key, never by
offset. Totals stand apart for each class, origin, contract and run: nothing here adds them up.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.clock import format_instant, parse_instant
from core.errors import InputError, ViewError, quoted
from core.records.base import NAME_BYTES, text_problem
from core.records.filter import Filter
from core.records.trace import Trace
from core.traces.dataset import ARROW_SCHEMA, from_row
from core.views.answer import Answer
from core.views.read.trace_columns import VIEW as VIEW
from core.views.read.trace_columns import column_map as column_map
from core.views.read.trace_columns import columns as columns
from core.views.read.trace_columns import field_names as field_names
from core.views.read.trace_columns import list_columns as list_columns
from core.views.views import Snapshot
from core.views.where import Kind, condition, joined

PAGE_ROWS = 50
FACET_VALUES = 200
PREFIX = 8
"""So many characters of an id are enough to look it up."""


@dataclass(frozen=True)
class Sort:
    """The order of a list; undefined values come last either way, ties go by trace id."""

    field: str = "trace_id"
    """The column."""
    descending: bool = True
    """Newest, largest, last first."""

    @classmethod
    def parse(cls, text: str) -> Sort:
        """Read `field:asc` or `field:desc`.

        Raises
        ------
        ViewError : an unknown or nested column, another direction.
        """
        name, _, direction = text.partition(":")
        if direction not in ("asc", "desc"):
            raise ViewError(f"The order {quoted(text)} is not field:asc or field:desc.")
        return cls(name, direction == "desc").checked()

    def checked(self) -> Sort:
        """Return it if its column can be sorted by.

        Raises
        ------
        ViewError : an unknown or nested column.
        """
        column = column_map().get(self.field)
        if column is None or column.kind is Kind.NESTED:
            raise ViewError(f"The order names {quoted(self.field)}, which cannot be sorted by.")
        return self

    @property
    def token(self) -> str:
        """Its spelling in the URL."""
        return f"{self.field}:{'desc' if self.descending else 'asc'}"

    def sql(self, *, backward: bool = False) -> str:
        """Return the ORDER BY terms."""
        direction = "DESC" if self.descending != backward else "ASC"
        if self.field == "trace_id":
            return f"trace_id {direction}"
        return f"{self.field} {direction} NULLS {'FIRST' if backward else 'LAST'}, trace_id {direction}"

    def beyond(self, value: Any, trace_id: str, *, backward: bool = False) -> tuple[str, list[Any]]:
        """Return the condition of the rows after (before, if backward) the row with this value and id."""
        sign = "<" if self.descending != backward else ">"
        f = self.field
        if f == "trace_id":
            return f"trace_id {sign} ?", [trace_id]
        if value is None:
            tie = f"{f} IS NULL AND trace_id {sign} ?"
            return (f"{f} IS NOT NULL OR ({tie})" if backward else tie), [trace_id]
        nulls = "" if backward else f" OR {f} IS NULL"
        return f"{f} {sign} ? OR ({f} = ? AND trace_id {sign} ?){nulls}", [value, value, trace_id]


@dataclass(frozen=True)
class Page:
    """One page of a list."""

    answer: Answer
    """The rows."""
    next: str | None
    """The token of the following page; None on the last."""
    previous: str | None
    """The token of the page before; None on the first."""


def _token(direction: str, sort: Sort, row: dict[str, Any]) -> str:
    value = row[sort.field]
    if isinstance(value, datetime):
        value = format_instant(value)
    content = json.dumps([direction, sort.token, value, row["trace_id"]], ensure_ascii=True)
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _read_token(token: str, sort: Sort) -> tuple[bool, Any, str]:
    refused = ViewError(f"The page token {quoted(token)} does not belong to this list.", next_step="Open page one.")
    try:
        direction, order, value, trace_id = json.loads(
            base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        )
        f"{value}{trace_id}".encode()  # a lone surrogate is no text
        kind = column_map()[sort.field].kind
        if kind is Kind.INSTANT and value is not None:
            value = parse_instant(value)
        if kind is Kind.NUMBER and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
    except (ValueError, TypeError, OverflowError, InputError, RecursionError) as e:
        raise refused from e
    types = {Kind.FLAG: bool, Kind.WHOLE: int, Kind.NUMBER: float, Kind.TEXT: str, Kind.INSTANT: datetime}
    fits = value is None or (isinstance(value, types[kind]) and (kind is Kind.FLAG) == isinstance(value, bool))
    in_range = not isinstance(value, int) or -(2**63) <= value < 2**63
    if direction not in ("n", "p") or order != sort.token or not isinstance(trace_id, str) or not (fits and in_range):
        raise refused
    return direction == "p", value, trace_id


def list_traces(
    snapshot: Snapshot,
    chosen: Filter,
    sort: Sort | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    names: Sequence[str] | None = None,
) -> Page:
    """Return one page of the executions that the filter selects.

    Parameters
    ----------
    after : a token of an earlier page's `next` or `previous`; None: the first page.
    limit : rows a page, 1 to 1,000.
    names : columns to return (default: all but the nested ones); trace_id and the sort column always come along.

    Raises
    ------
    ViewError : a bad filter, order, token, column or limit.
    """
    sort, after = (sort or Sort()).checked(), after or None
    if not 1 <= limit <= 1000:
        raise ViewError(f"A page holds 1 to 1,000 rows, not {limit:,}.")
    where, values = condition(chosen, column_map())
    backward, value, trace_id = _read_token(after, sort) if after else (False, None, "")
    if after:
        key, bound = sort.beyond(value, trace_id, backward=backward)
        where, values = joined([where, key]), values + bound
    wanted = _checked_names(names or list_columns(), "trace_id", sort.field)
    # Ids first, rows second: reading every column of every candidate is what would be slow.
    found = snapshot.ask(
        VIEW,
        f"SELECT trace_id FROM trace WHERE {where} ORDER BY {sort.sql(backward=backward)} LIMIT {limit + 1}",
        values,
    )
    ids = [str(r["trace_id"]) for r in found.rows()]
    more, ids = len(ids) > limit, ids[:limit]
    answer = _by_ids(snapshot, ids, wanted, sort)
    shown_sql = snapshot.shown(
        f"SELECT {', '.join(wanted)} FROM trace WHERE {where} ORDER BY {sort.sql(backward=backward)} LIMIT {limit}",
        values,
    )
    rows = answer.rows()
    first, last = (_token("p", sort, rows[0]), _token("n", sort, rows[-1])) if rows else (None, None)
    has_next, has_previous = (bool(rows), more) if backward else (more, after is not None)
    return Page(replace(answer, sql=shown_sql), last if has_next else None, first if has_previous else None)


def _checked_names(names: Iterable[str], *also: str) -> list[str]:
    wanted = list(dict.fromkeys([*names, *also]))
    if unknown := [n for n in wanted if n not in column_map()]:
        raise ViewError(f"There is no column {quoted(', '.join(unknown))} here.")
    return wanted


def _by_ids(snapshot: Snapshot, ids: list[str], names: Sequence[str], sort: Sort) -> Answer:
    if not ids:
        return snapshot.ask(VIEW, f"SELECT {', '.join(names)} FROM trace WHERE FALSE")
    places = ", ".join("?" * len(ids))
    # The bounds let DuckDB skip row groups by their statistics; the list alone does not.
    return snapshot.ask(
        VIEW,
        f"SELECT {', '.join(names)} FROM trace WHERE trace_id BETWEEN ? AND ? AND trace_id IN ({places})"
        f" ORDER BY {sort.sql()}",
        [min(ids), max(ids), *ids],
    )


def totals(snapshot: Snapshot, chosen: Filter) -> Answer:
    """Return counts of what the filter selects, one row for each class, origin, contract and run.

    Returns
    -------
    evidence_class, origin, contract, run_id, executions, episodes (n), expected, fired, acted, correct, missed,
    false_fired, null_trials, audits_passed.

    Raises
    ------
    ViewError : a bad filter.
    """
    where, values = condition(chosen, column_map())
    return snapshot.ask(
        VIEW,
        "SELECT evidence_class, origin, contract, run_id, count(*) AS executions,"
        " count(DISTINCT episode_id) AS episodes, count(*) FILTER (expected_trigger) AS expected,"
        " count(*) FILTER (fired) AS fired, count(predicted_action) AS acted, count(*) FILTER (correct) AS correct,"
        " count(*) FILTER (expected_trigger AND NOT fired) AS missed,"
        " count(*) FILTER (NOT expected_trigger AND fired) AS false_fired,"
        " count(*) FILTER (null_trial) AS null_trials, count(*) FILTER (null_trial AND audit_passed) AS audits_passed"
        f" FROM trace WHERE {where} GROUP BY ALL ORDER BY ALL",
        values,
    )


def count(snapshot: Snapshot, chosen: Filter) -> int:
    """Return how many executions the filter selects: a number of rows, no result."""
    where, values = condition(chosen, column_map())
    return int(snapshot.ask(VIEW, f"SELECT count(*) AS n FROM trace WHERE {where}", values).one()["n"])


def facets(snapshot: Snapshot, chosen: Filter, field: str, limit: int = FACET_VALUES) -> Answer:
    """Return a field's values among what the rest of the filter selects, most frequent first.

    The field's own terms are left out, so that a picker shows what else could be picked.

    Returns
    -------
    value (text; NULL: undefined), n executions.

    Raises
    ------
    ViewError : a bad filter, an unknown or nested field.
    """
    Sort(field).checked()
    where, values = condition(chosen.without(field), column_map())
    return snapshot.ask(
        VIEW,
        f"SELECT {field}::VARCHAR AS value, count(*) AS n FROM trace WHERE {where} GROUP BY {field}"
        f" ORDER BY n DESC, value NULLS LAST LIMIT {int(limit)}",
        values,
    )


_STORED = ", ".join(ARROW_SCHEMA.names)


def one_trace(snapshot: Snapshot, trace_id: str) -> Trace:
    """Return one execution, whole.

    Raises
    ------
    ViewError : there is none of this id.
    """
    rows = snapshot.ask(VIEW, f"SELECT {_STORED} FROM trace WHERE trace_id = ? LIMIT 1", [trace_id]).rows()
    if not rows:
        raise ViewError(
            f"There is no execution {quoted(trace_id)} here.", next_step="Check the id, or clear the filter."
        )
    return from_row(rows[0])


def arms_of(snapshot: Snapshot, trace: Trace) -> tuple[Trace, ...]:
    """Return the same run, episode, seed and boundary in the other arms, by arm."""
    rows = snapshot.ask(
        VIEW,
        f"SELECT {_STORED} FROM trace WHERE run_id = ? AND episode_id = ? AND boundary = ? AND backbone = ?"
        " AND seed IS NOT DISTINCT FROM ? AND arm <> ? ORDER BY arm, trace_id",
        [trace.run_id, trace.episode_id, trace.boundary.value, trace.backbone, trace.seed, trace.arm.value],
    ).rows()
    return tuple(from_row(r) for r in rows)


@dataclass(frozen=True)
class Neighbours:
    """The ids before and after one execution in a filtered, sorted list."""

    previous: str | None
    """None: it is the first, or not in the list."""
    next: str | None
    """None: it is the last, or not in the list."""
    inside: bool = True
    """Whether it is in the list at all."""


def neighbours(snapshot: Snapshot, chosen: Filter, trace_id: str, sort: Sort | None = None) -> Neighbours:
    """Return which executions come before and after this one in the list.

    Raises
    ------
    ViewError : a bad filter or order.
    """
    sort = (sort or Sort()).checked()
    where, values = condition(chosen, column_map())
    here = snapshot.ask(
        VIEW, f"SELECT {sort.field} AS value FROM trace WHERE trace_id = ? AND {where} LIMIT 1", [trace_id, *values]
    ).rows()
    if not here:
        return Neighbours(None, None, inside=False)

    def step(*, backward: bool) -> str | None:
        key, bound = sort.beyond(here[0]["value"], trace_id, backward=backward)
        rows = snapshot.ask(
            VIEW,
            f"SELECT trace_id FROM trace WHERE {joined([where, key])} ORDER BY {sort.sql(backward=backward)} LIMIT 1",
            values + bound,
        ).rows()
        return str(rows[0]["trace_id"]) if rows else None

    return Neighbours(step(backward=True), step(backward=False))


class IdKind(StrEnum):
    """What an id names."""

    TRACE = "trace"
    """One execution."""
    RUN = "run"
    """One run."""
    EPISODE = "episode"
    """One episode or case."""
    MATCH = "match"
    """A matched pair of episodes."""
    RECORD = "record"
    """One stored record."""


@dataclass(frozen=True)
class Found:
    """What a pasted id is."""

    kind: IdKind
    """What it names."""
    id: str
    """The whole id."""
    executions: int
    """How many executions it leads to."""
    filter: Filter
    """The filter that selects them."""


_LAST = chr(0x10FFFF)
Place = tuple[IdKind, str]
_LOOKED_UP: tuple[Place, ...] = (
    (IdKind.TRACE, "trace_id"),
    (IdKind.RUN, "run_id"),
    (IdKind.EPISODE, "episode_id"),
    (IdKind.MATCH, "match_id"),
    (IdKind.RECORD, "fired_record"),
    (IdKind.RECORD, "expected_record"),
)


def find_id(snapshot: Snapshot, text: str) -> Found | None:
    """Return what a pasted id names, or None; the first eight or more characters are enough if only one id has them.

    Raises
    ------
    ViewError : several ids begin with the text.
    """
    text = text.strip()
    if text_problem(text, NAME_BYTES) is not None:
        return None
    # The ids that row groups are ordered by come first: a pasted one is found without a scan.
    found = _look_up(snapshot, text, _LOOKED_UP[:2])
    if not any(f.id == text for f in found):
        found += _look_up(snapshot, text, _present(snapshot, text, _LOOKED_UP[2:]))
    for f in found:
        if f.id == text:
            return f
    ids = sorted({f.id for f in found})
    if len(ids) > 1:
        raise ViewError(
            f"Several ids begin with {quoted(text)} ({', '.join(ids[:2])}, ...).", next_step="Paste more of it."
        )
    return found[0] if found else None


def _begins(name: str, text: str) -> tuple[str, list[str]]:
    # A range and not starts_with: row groups are then skipped by their statistics.
    if len(text) < PREFIX:
        return f"{name} = ?", [text]
    return f"{name} >= ? AND {name} < ?", [text, text + _LAST]


def _present(snapshot: Snapshot, text: str, places: Sequence[Place]) -> list[Place]:
    """Return the columns that hold such an id, in one scan."""
    tests = [_begins(name, text) for _, name in places]
    asked = ", ".join(f"bool_or({test}) AS c{i}" for i, (test, _) in enumerate(tests))
    row = snapshot.ask(VIEW, f"SELECT {asked} FROM trace", [v for _, values in tests for v in values]).one()
    return [place for i, place in enumerate(places) if row[f"c{i}"]]


def _look_up(snapshot: Snapshot, text: str, places: Sequence[Place]) -> list[Found]:
    found = []
    for kind, name in places:
        test, values = _begins(name, text)
        counted = f"SELECT {name} AS id, count(*) AS n FROM trace WHERE {test} GROUP BY {name} ORDER BY id LIMIT 3"
        for row in snapshot.ask(VIEW, counted, values).rows():
            chosen = Filter.parse([f"{name}:eq:{row['id']}"], field_names())
            found.append(Found(kind, row["id"], row["n"], chosen))
    return found

"""One filter drives table, totals, facets and export; all agree with plain Python on the same rows."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.clock import format_instant
from core.errors import ViewError
from core.records.filter import Filter, FilterOp, FilterTerm
from core.records.trace import Trace
from core.traces.dataset import from_row
from core.views.read.export import export
from core.views.read.traces import (
    Sort,
    column_map,
    count,
    facets,
    field_names,
    list_columns,
    list_traces,
    neighbours,
    totals,
)
from core.views.views import Snapshot, Views
from core.views.where import Column, Kind
from tests.views.made import INSTANTS, NUMBERS, TEXTS, WHOLES, made_traces, store_of
from tests.views.plain import chosen, in_order, plain_row

AGREE = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ORDERED = [FilterOp.LT, FilterOp.LE, FilterOp.GT, FilterOp.GE]


def written(value: Any) -> str:
    """Return a value as a filter spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_instant(value) if isinstance(value, datetime) else str(value)


def terms(column: Column) -> st.SearchStrategy[FilterTerm]:
    """Return a strategy for one term on a column."""
    pools: dict[Kind, tuple[Any, ...]] = {
        Kind.TEXT: (*TEXTS, *column.values, "run-a", "A", "_", "%"),
        Kind.NESTED: (*TEXTS, "[]", "record_id", "_", "%"),
        Kind.WHOLE: WHOLES,
        Kind.NUMBER: (*NUMBERS, "1e-7", "0.50"),
        Kind.FLAG: (True, False),
        Kind.INSTANT: INSTANTS,
    }
    ops = {Kind.FLAG: [], Kind.NESTED: [FilterOp.CONTAINS], Kind.TEXT: [*ORDERED, FilterOp.CONTAINS]}
    compared = st.builds(
        lambda op, value: FilterTerm(field=column.name, op=op, value=written(value)),
        st.sampled_from([FilterOp.EQ, FilterOp.NE, *ops.get(column.kind, ORDERED)]),
        st.sampled_from(pools[column.kind]),
    )
    return compared | st.builds(
        lambda value: FilterTerm(field=column.name, op=FilterOp.IS, value=value), st.sampled_from(["null", "set"])
    )


FILTERS = st.lists(st.sampled_from(list(column_map().values())).flatmap(terms), max_size=3).map(Filter.of)
SORTS = st.builds(Sort, st.sampled_from(list_columns()), st.booleans())


@AGREE
@given(FILTERS, SORTS)
def test_list_count_totals_and_facets_agree_with_plain_python(
    views: Views, rows: list[Trace], by: Filter, sort: Sort
) -> None:
    plain = [plain_row(t) for t in rows]
    expected = chosen(plain, by)
    with views.snapshot() as snapshot:
        page = list_traces(snapshot, by, sort, limit=1000)
        assert [r["trace_id"] for r in page.answer.rows()] == in_order(expected, sort.field, descending=sort.descending)
        assert count(snapshot, by) == len(expected)
        groups = Counter((r["evidence_class"], r["origin"], r["contract"], r["run_id"]) for r in expected)
        totalled = totals(snapshot, by).rows()
        assert {
            (r["evidence_class"], r["origin"], r["contract"], r["run_id"]): r["executions"] for r in totalled
        } == groups
        assert sum(r["correct"] for r in totalled) == sum(r["correct"] for r in expected)
        assert sum(r["fired"] for r in totalled) == sum(r["fired"] for r in expected)
        counted = {r["value"]: r["n"] for r in facets(snapshot, by, "arm").rows()}
        assert counted == Counter(r["arm"] for r in chosen(plain, by.without("arm")))


@AGREE
@given(FILTERS)
def test_the_copied_sql_returns_the_same_rows(views: Views, rows: list[Trace], by: Filter) -> None:
    with views.snapshot() as snapshot:
        page = list_traces(snapshot, by, limit=1000)
        again = snapshot.ask("trace", page.answer.sql)
        assert again.table.equals(page.answer.table)


@settings(max_examples=15, deadline=None)
@given(FILTERS, st.sampled_from(["csv", "jsonl", "parquet"]))
def test_an_export_holds_exactly_the_filtered_rows(views: Views, rows: list[Trace], by: Filter, kind: str) -> None:
    expected = [t for t in rows if chosen([plain_row(t)], by)]
    file = io.BytesIO()
    with views.snapshot() as snapshot:
        assert export(snapshot, by, kind, file) == len(expected)
    if kind == "jsonl":
        lines = [json.loads(line) for line in file.getvalue().decode().split("\n")[:-1]]
        assert [tuple(line) for line in lines[:1]] in ([], [field_names()])
        known = [{n: v for n, v in line.items() if n in Trace.model_fields} for line in lines]
        assert [Trace.model_validate(k) for k in known] == expected
    elif kind == "parquet":
        file.seek(0)
        assert [from_row(r) for r in pq.read_table(file).to_pylist()] == expected


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("seed:eq:x", "The filter on seed compares a whole number with 'x'; write a whole number."),
        ("seed:gt:1.5", "The filter on seed compares a whole number with '1.5'; write a whole number."),
        ("seed:eq:٣", "The filter on seed compares a whole number with '٣'; write a whole number."),
        (
            f"seed:eq:{2**63}",
            f"The filter on seed compares a whole number with '{2**63}'; it is beyond what the column holds.",
        ),
        ("score:lt:nan", "The filter on score compares a number with 'nan'; it is beyond what the column holds."),
        ("score:lt:1e999", "The filter on score compares a number with '1e999'; it is beyond what the column holds."),
        ("score:eq:1_0", "The filter on score compares a number with '1_0'; write a number."),
        ("score:eq:", "The filter on score compares a number with ''; write a number."),
        ("fired:eq:yes", "The filter on fired compares a flag with 'yes'; write true or false."),
        ("fired:gt:true", "The filter 'fired:gt:true' orders fired, which has no order."),
        ("steps:gt:a", "The filter 'steps:gt:a' orders steps, which has no order."),
        ("score:contains:1", "The filter 'score:contains:1' searches score, which is a number and not a text."),
        (
            "created_at:gt:2026-01-01",
            "The filter on created_at compares a instant with '2026-01-01'; write RFC 3339 with an offset, like"
            " 2026-12-04T09:00:00Z.",
        ),
    ],
)  # fmt: skip
def test_a_value_its_column_cannot_hold_is_refused_in_one_sentence(
    snapshot: Snapshot, token: str, sentence: str
) -> None:
    by = Filter.parse([token], field_names())
    for question in (lambda: list_traces(snapshot, by), lambda: totals(snapshot, by), lambda: count(snapshot, by)):
        with pytest.raises(ViewError) as refused:
            question()
        assert refused.value.message == sentence


def test_names_that_are_not_columns_never_reach_the_sql(snapshot: Snapshot) -> None:
    hostile = "arm) OR (1=1"
    by = Filter(terms=(FilterTerm(field=hostile, op=FilterOp.EQ, value="x"),))
    with pytest.raises(ViewError, match="which is not a column here"):
        list_traces(snapshot, by)
    with pytest.raises(ViewError, match="which cannot be sorted by"):
        list_traces(snapshot, Filter(), Sort(hostile))
    with pytest.raises(ViewError, match="There is no column"):
        list_traces(snapshot, Filter(), names=[hostile])
    with pytest.raises(ViewError, match="which cannot be sorted by"):
        facets(snapshot, Filter(), hostile)


def test_quotes_in_values_are_data(snapshot: Snapshot, rows: list[Trace]) -> None:
    by = Filter.parse(["event_text:ne:'; DROP TABLE trace_tail; --"], field_names())
    assert count(snapshot, by) == len(rows)


@pytest.mark.parametrize("token", ["", "x", "AAAA", "bm90IGpzb24", "W10", "WyJuIiwic2VlZDphc2MiLDEsImEiXQ"])
def test_a_token_of_another_list_is_refused(snapshot: Snapshot, token: str) -> None:
    if token:
        with pytest.raises(ViewError, match="does not belong to this list"):
            list_traces(snapshot, Filter(), Sort("score"), after=token)
    else:
        assert list_traces(snapshot, Filter(), Sort("score"), after=token).previous is None


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Views, list[Trace]]]:
    """Return a store of fourteen executions: every page of them is asked for twice."""
    rows = made_traces(5, 14)
    views = Views(store_of(tmp_path_factory.mktemp("few") / "home", rows[::2], rows[1::2]))
    yield views, rows
    views.close()


@settings(max_examples=25, deadline=None)
@given(FILTERS, SORTS, st.integers(1, 5))
def test_pages_visit_every_row_once_forwards_and_backwards(
    few: tuple[Views, list[Trace]], by: Filter, sort: Sort, limit: int
) -> None:
    views, rows = few
    expected = in_order(chosen([plain_row(t) for t in rows], by), sort.field, descending=sort.descending)
    with views.snapshot() as snapshot:
        pages = [list_traces(snapshot, by, sort, limit=limit, names=["arm"])]
        while pages[-1].next:
            pages.append(list_traces(snapshot, by, sort, pages[-1].next, limit, names=["arm"]))
        ids = [[r["trace_id"] for r in p.answer.rows()] for p in pages]
        assert [i for page in ids for i in page] == expected
        assert pages[0].previous is None
        assert all(len(page) == limit for page in ids[:-1])
        back, seen = pages[-1], [ids[-1]]
        while back.previous:
            back = list_traces(snapshot, by, sort, back.previous, limit, names=["arm"])
            seen.insert(0, [r["trace_id"] for r in back.answer.rows()])
            assert back.next is not None
        assert seen == ids
        for here in expected[:: max(1, len(expected) // 3)]:
            at = expected.index(here)
            beside = neighbours(snapshot, by, here, sort)
            assert beside.previous == (expected[at - 1] if at else None)
            assert beside.next == (expected[at + 1] if at + 1 < len(expected) else None)

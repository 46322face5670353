"""One filter drives table, totals, facets and export; all agree with plain Python on the same rows."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.clock import format_instant
from core.errors import ViewError, quoted
from core.records.filter import Filter, FilterOp, FilterTerm
from core.records.trace import Trace
from core.traces.dataset import from_row
from core.views.read import runs
from core.views.read.export import export
from core.views.read.traces import (
    Sort,
    column_map,
    count,
    facets,
    field_names,
    find_id,
    list_columns,
    list_traces,
    neighbours,
    one_trace,
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
        ("score:contains:1", "The filter 'score:contains:1' searches score, which is of kind number, no text."),
        (
            "created_at:gt:2026-01-01",
            "The filter on created_at compares an instant with '2026-01-01'; write RFC 3339 with an offset, like"
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


MEGABYTE = "9" * 2**20
REFUSED = {
    "NUL": (["event_text:eq:a\x00b"], "A filter value holds a NUL character."),
    "NUL in a field": (["arm\x00:eq:C0"], "which is not a column here."),
    "surrogate": (["event_text:contains:\ud800"], "A filter value is not valid Unicode (a lone surrogate)."),
    "surrogate in a field": (["\udcff:eq:1"], "which is not a column here."),
    "megabyte": ([MEGABYTE], "is not field:op:value."),
    "megabyte and more": ([f"event_text:eq:{MEGABYTE}1"], "is 1,048,577 bytes long; at most 1,048,576 are taken."),
    "megabyte of a field": ([f"{MEGABYTE}:eq:1"], "which is not a column here."),
    "megabyte of an operator": ([f"arm:{MEGABYTE}:1"], "allowed are eq, ne, lt, le, gt, ge, contains, is."),
    "megabyte is null": ([f"arm:is:{MEGABYTE}"], "must end in null or set."),
    "megabyte of digits": ([f"seed:eq:{MEGABYTE}"], "write a whole number."),
    "megabyte of a number": ([f"score:lt:{MEGABYTE}"], "it is beyond what the column holds."),
    "megabyte of an instant": ([f"created_at:lt:{MEGABYTE}"], "like 2026-12-04T09:00:00Z."),
    "megabyte of a flag": ([f"fired:eq:{MEGABYTE}"], "write true or false."),
    "megabyte in order": ([f"fired:gt:{MEGABYTE}"], "orders fired, which has no order."),
    "right to left field": (["\u202earm:eq:C0"], "The filter '\\u202earm:eq:C0' names '\\u202earm', which"),
    "injected field": (["arm'; DROP TABLE trace_tail; --:eq:1"], "which is not a column here."),
    "unknown column": (["nope:eq:1"], "The filter 'nope:eq:1' names 'nope', which is not a column here."),
    "huge whole": ([f"seed:eq:{'9' * 400}"], "it is beyond what the column holds."),
    "infinite": (["score:lt:inf"], "it is beyond what the column holds."),
    "minus infinite": (["score:gt:-Infinity"], "it is beyond what the column holds."),
    "infinite instant": (["created_at:lt:infinity"], "like 2026-12-04T09:00:00Z."),
    "year 10000": (["created_at:lt:10000-01-01T00:00:00Z"], "like 2026-12-04T09:00:00Z."),
    "year 0": (["created_at:gt:0000-01-01T00:00:00Z"], "like 2026-12-04T09:00:00Z."),
    "before year 1 in UTC": (["created_at:gt:0001-01-01T00:00:00+14:00"], "like 2026-12-04T09:00:00Z."),
    "after year 9999 in UTC": (["created_at:lt:9999-12-31T23:59:59-12:00"], "like 2026-12-04T09:00:00Z."),
    "10,000 terms": ([f"seed:ne:{n}" for n in range(10_000)], "A filter has at most 200 comparisons."),
    "10,000 times one": (["seed:is:set"] * 10_000, "A filter has at most 200 comparisons."),
}


@pytest.mark.parametrize(("tokens", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_hostile_address_is_answered_with_one_short_sentence(
    snapshot: Snapshot, tokens: list[str], sentence: str
) -> None:
    questions: list[Callable[[Filter], Any]] = [
        lambda by: list_traces(snapshot, by),
        lambda by: totals(snapshot, by),
        lambda by: count(snapshot, by),
        lambda by: facets(snapshot, by, "arm"),
        lambda by: neighbours(snapshot, by, "x"),
        lambda by: export(snapshot, by, "csv", io.BytesIO()),
    ]
    for question in questions:
        with pytest.raises(ViewError) as refused:
            question(Filter.parse(tokens, field_names()))
        assert sentence in str(refused.value)
        assert len(str(refused.value)) < 300
        assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "token",
    [
        "event_text:eq:\U0001f986\u200d\U0001f986",
        "event_text:contains:\u202e\u05d0",
        "event_text:ne:\u202e\u05d0",
        "event_text:eq:'; DROP TABLE trace_tail; --",
        "event_text:ne:' OR 1=1 --",
        "event_text:contains:%",
        "event_text:contains:?",
        "event_text:eq:a\nb",
        "event_text:eq: ",
        "event_text:eq:",
        f"event_text:ne:{MEGABYTE}",
        f"event_text:contains:{MEGABYTE}",
        "seed:le:9223372036854775807",
        "seed:gt:-9223372036854775808",
        "score:lt:1e308",
        "score:gt:1e-400",
        "created_at:gt:0001-01-01T00:00:00Z",
        "created_at:le:9999-12-31T23:59:59.999999Z",
    ],
    ids=lambda token: token[:30],
)
def test_an_odd_value_selects_what_it_says(snapshot: Snapshot, rows: list[Trace], token: str) -> None:
    by = Filter.parse([token], field_names())
    expected = chosen([plain_row(t) for t in rows], by)
    assert count(snapshot, by) == len(expected)
    assert [r["trace_id"] for r in list_traces(snapshot, by, Sort("trace_id"), limit=1000).answer.rows()] == in_order(
        expected, "trace_id", descending=True
    )


@pytest.mark.parametrize("text", [MEGABYTE, "\ud800", "a\x00b", "\u202e", "'; DROP TABLE trace_tail; --", "\n"])
def test_a_hostile_id_order_or_token_is_refused_in_one_short_sentence(snapshot: Snapshot, text: str) -> None:
    questions: list[Callable[[], Any]] = [
        lambda: one_trace(snapshot, text),
        lambda: Sort.parse(text),
        lambda: Sort.parse(f"{text}:asc"),
        lambda: list_traces(snapshot, Filter(), after=text),
        lambda: list_traces(snapshot, Filter(), names=[text]),
        lambda: facets(snapshot, Filter(), text),
        lambda: runs.run(snapshot, text),
    ]
    for question in questions:
        with pytest.raises(ViewError) as refused:
            question()
        assert len(str(refused.value)) < 300
        assert str(refused.value).isprintable()
    assert find_id(snapshot, text) is None


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


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["n", "p", 10**400, "9" * 5000]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SORTS = st.builds(Sort, st.sampled_from(["trace_id", "score", "seed", "fired", "created_at", "event_text"]))


@given(
    sort=SORTS,
    content=JSON
    | st.tuples(st.sampled_from(["n", "p"]), SORTS.map(lambda s: s.token), JSON, JSON)
    | st.tuples(st.just("n"), st.just("score:desc"), st.sampled_from([10**400, -(10**309)]), st.text()),
)
@example(sort=Sort("score"), content=("n", "score:desc", 10**400, "x"))
@example(sort=Sort("event_text"), content=("n", "event_text:desc", "\ud800", "x"))
@example(sort=Sort(), content=("n", "trace_id:desc", None, "\ud800"))
@settings(AGREE, max_examples=300)
def test_a_token_of_any_json_is_a_page_or_the_same_sentence(snapshot: Snapshot, sort: Sort, content: Any) -> None:
    token = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    refused = None
    try:
        list_traces(snapshot, Filter(), sort, after=token, limit=1)
    except ViewError as e:
        refused = str(e)
    assert refused in (None, f"The page token {quoted(token)} does not belong to this list. Open page one.")


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

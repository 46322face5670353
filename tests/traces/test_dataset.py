from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.hashing import canonical_json
from core.records.trace import Trace
from core.traces.dataset import ARROW_SCHEMA, NESTED, from_row, nested_text, rows_from_json, to_table
from core.traces.writer import write_part
from tests.views.made import made_trace, made_traces, many_traces

SLOW = settings(max_examples=40, deadline=None)


def test_every_field_of_a_trace_is_a_column_in_its_order_and_nothing_else_is() -> None:
    assert tuple(Trace.model_fields) == tuple(ARROW_SCHEMA.names)
    assert {"records", "events", "losers", "features", "decisions", "steps", "step_times"} == NESTED


def test_columns_may_be_undefined_exactly_where_the_field_may() -> None:
    undefined = {n for n, i in Trace.model_fields.items() if type(None) in getattr(i.annotation, "__args__", ())}
    assert {f.name for f in ARROW_SCHEMA if f.nullable} == undefined
    assert ARROW_SCHEMA.field("created_at").type == pa.timestamp("us", tz="UTC")


@SLOW
@given(many_traces(5))
def test_a_table_gives_back_the_traces_it_was_made_of(rows: list[Trace]) -> None:
    table = to_table(rows)
    table.validate(full=True)
    assert [from_row(r) for r in table.to_pylist()] == rows


@SLOW
@given(many_traces(5))
def test_the_tails_json_gives_the_same_table_as_the_traces_themselves(rows: list[Trace]) -> None:
    assert rows_from_json(t.model_dump_json() for t in rows).equals(to_table(rows))


def test_a_written_file_gives_back_its_traces(tmp_path: Path) -> None:
    rows = [t for t in made_traces(7, 60) if t.run_id == "run-a"]
    part = write_part(tmp_path, rows, "one")
    with part.path.open("rb") as f:
        assert [from_row(r) for r in pq.read_table(f).to_pylist()] == rows


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcz_", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(VALUES)
def test_nested_text_is_the_canonical_json(value: object) -> None:
    try:
        expected = canonical_json(value).decode()
    except InputError:
        with pytest.raises(InputError):
            nested_text(value)
    else:
        assert nested_text(value) == expected


@pytest.mark.parametrize("number", [1.0, -0.0, 1e-7, 1e16, 1e22, 123456789012345680000.0, 5e-324, 0.1])
def test_nested_numbers_are_spelled_as_in_rfc_8785(number: float) -> None:
    assert nested_text([number]) == canonical_json([number]).decode()
    assert math.isclose(json.loads(nested_text([number]))[0], number)


@pytest.mark.parametrize("field", ["event_text", "losers"])
def test_a_lone_surrogate_is_refused_in_words(field: str) -> None:
    broken = "\ud800"
    trace = made_trace(random.Random(1), 1).model_copy(update={field: (broken,) if field == "losers" else broken})
    with pytest.raises(InputError, match="cannot be stored"):
        to_table([trace])


def test_an_integer_beyond_64_bits_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="A trace cannot be stored"):
        to_table([made_trace(random.Random(1), 1, seed=2**63)])


def test_a_row_that_is_no_trace_is_refused_by_id() -> None:
    with pytest.raises(InputError, match="trace t-1"):
        from_row({"trace_id": "t-1"})


def test_a_tail_row_that_is_no_trace_is_refused() -> None:
    with pytest.raises(InputError, match="A trace of the tail cannot be read"):
        rows_from_json(["{}"])
    with pytest.raises(InputError, match="A trace of the tail cannot be read"):
        rows_from_json(["not json"])

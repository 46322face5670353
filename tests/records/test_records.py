from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.errors import CaseError, ConditionError, ViewError
from core.records.base import refusal
from core.records.case import Case
from core.records.event import Event
from core.records.filter import Filter, FilterOp, FilterTerm
from core.records.record import Condition, Payload, Record, RecordState

FIELDS = ("arm", "score", "event_text")


def _case(**changes: Any) -> dict[str, Any]:
    return {
        "case_id": "c1",
        "source": "s",
        "stratum": "direct_positive",
        "operations": [{"op": "write", "record": "r1", "condition": "it rains", "payload": "take the coat"}],
        "event": {"at": "2026-12-04T09:00:00Z", "text": "It rained."},
        "trigger": True,
        "expected_record": "r1",
        "expected_payload": "take the coat",
        **changes,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ("a\x00b", "holds a NUL character"),
        ("\ud800", "valid"),
        ("é" * 40_000, "is 80,000 bytes long; at most 65,536 are taken"),
    ],
)
def test_a_text_that_cannot_be_stored_says_why(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Condition(text=text)


@pytest.mark.parametrize("text", ["مرحبا بالعالم", "🧾🔥", "a\u202eb", "x" * 65_536, "<script>$1$</script>"])
def test_any_other_text_is_kept_to_the_byte(text: str) -> None:
    assert Payload(text=text).text == text


def test_nouns_are_frozen_and_refuse_unknown_keys() -> None:
    condition = Condition(text="it rains")
    with pytest.raises(ValidationError, match="frozen"):
        condition.text = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Condition.model_validate({"text": "it rains", "colour": "red"})


def test_an_event_without_text_says_so_when_asked() -> None:
    event = Event(id="e1", source="s", type="t", data={"amount": 3})
    with pytest.raises(ConditionError, match="Event e1 carries no text."):
        _ = event.text


def test_an_event_of_a_mebibyte_is_taken_and_one_byte_more_is_not() -> None:
    assert len(Event(id="e", source="s", type="t", data={"text": "x" * 1_048_576}).text) == 1_048_576
    with pytest.raises(ValidationError, match="is 1,048,577 bytes long"):
        Event(id="e", source="s", type="t", data={"text": "x" * 1_048_577})


def test_expiry_is_exact_and_needs_an_instant() -> None:
    end = datetime(2026, 12, 4, 9, tzinfo=UTC)
    record = Record(
        record_id="r", condition=Condition(text="c"), payload=Payload(text="p"), expires_at=end, written_step=2
    )
    assert record.state_at(None, end) is RecordState.EXPIRED
    assert record.state_at(None, end.replace(microsecond=0, second=0, minute=0, hour=8)) is RecordState.ACTIVE
    assert record.state_at(None, None) is RecordState.ACTIVE
    assert record.state_at(1, None) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"operations": [{"op": "write", "record": "r1", "condition": "c"}]}, "a write needs payload"),
        ({"operations": [{"op": "cancel", "record": "r9"}]}, "operation 1 cancels 'r9', which is not open"),
        ({"stratum": "sideways_positive"}, "stratum"),
        ({"event": {"at": "2026-12-04T09:00:00", "text": "x"}}, "event.at: '2026-12-04T09:00:00' is not an instant"),
        ({"expected_record": "r2"}, "a positive needs an expected_record that is open, not 'r2'"),
        ({"expected_payload": "take the hat"}, "expected_payload is not the payload of record 'r1'"),
        ({"expected_payload": None}, "expected_payload is not the payload of record 'r1'"),
        ({"trigger": "yes"}, "trigger is neither true nor false"),
        ({"trigger": False}, "a negative has neither"),
        ({"colour": "red"}, "colour is not a known field"),
    ],
)
def test_a_bad_case_is_one_sentence_that_names_the_field(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Case.model_validate(_case(**changes))
    error = refusal(caught.value, CaseError, where="cases.jsonl:3")
    assert sentence in error.message
    assert error.where == "cases.jsonl:3"


TERMS = st.builds(
    FilterTerm,
    field=st.sampled_from(FIELDS),
    op=st.sampled_from([op for op in FilterOp if op is not FilterOp.IS]),
    value=st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
)


@given(st.lists(TERMS, max_size=6))
def test_a_filter_survives_the_url_whatever_its_values(terms: list[FilterTerm]) -> None:
    chosen = Filter.of(terms)
    assert Filter.parse(chosen.tokens(), FIELDS) == chosen
    assert Filter.of(reversed(terms)) == chosen


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("arm", "is not field:op:value"),
        ("arm:eq", "is not field:op:value"),
        ("colour:eq:red", "names 'colour', which is not a column here"),
        ("arm:like:C3", "uses 'like'; allowed are"),
        ("arm:is:empty", "must end in null or set"),
        ("arm:eq:\x00", "NUL"),
    ],
)
def test_a_bad_filter_is_refused_in_words(token: str, sentence: str) -> None:
    with pytest.raises(ViewError, match=sentence):
        Filter.parse([token], FIELDS)

"""What holds for every history, event and arm: the contract of the five arms, and properties of bind and respond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.controller.arms import Arm, arms, record_key
from core.controller.step import bind, hear, respond
from core.records.case import Operation
from core.records.event import EventLine
from core.records.record import Record, RecordState
from core.records.trace import VARYING, ArmName, ErrorKind, StepStatus, Trace
from tests.controller.tiny import TableTrigger, TinyBackbone, context

START = datetime(2026, 1, 5, tzinfo=UTC)
WORDS = ("snow falls", "rain falls", "invoice arrives", "approval form arrives")
PAYLOADS = ("clear the snow", "open the umbrella", "attach the approval form")
SCORES = st.sampled_from((0.0, 0.2, 0.5, 0.8, 0.8, 1.0))


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """A legal history of up to nine operations."""
    operations: list[dict[str, object]] = []
    standing: list[str] = []
    for n in range(draw(st.integers(0, 9))):
        kinds = ["write", "distractor"] + (["replace", "cancel"] if standing else [])
        kind = draw(st.sampled_from(kinds))
        op: dict[str, object] = {"op": kind}
        if kind == "distractor":
            op["text"] = draw(st.sampled_from(WORDS))
        else:
            if kind in ("replace", "cancel"):
                ended = standing.pop(draw(st.integers(0, len(standing) - 1)))
                op["supersedes" if kind == "replace" else "record"] = ended
            if kind in ("write", "replace"):
                op |= {
                    "record": f"r{n}",
                    "condition": f"{draw(st.sampled_from(WORDS))} {n}",
                    "payload": draw(st.sampled_from(PAYLOADS)),
                }
                if draw(st.booleans()):
                    op["expires_at"] = START + timedelta(hours=draw(st.integers(0, 4)))
                standing.append(f"r{n}")
        operations.append(op)
    return [Operation.model_validate(op) for op in operations]


@st.composite
def executions(draw: st.DrawFn) -> tuple[list[Operation], EventLine, TableTrigger, str | None]:
    """A history, a final event, a trigger that scores it, and the record that should fire."""
    operations = draw(histories())
    event = EventLine(at=START + timedelta(hours=draw(st.integers(0, 4))), text=draw(st.sampled_from(WORDS)))
    conditions = [op.condition for op in operations if op.condition is not None]
    table = {(c, e): draw(SCORES) for c in conditions for e in WORDS}
    written = [r.record_id for r in bind(operations)]
    expected = draw(st.sampled_from([None, *written]))
    return operations, event, TableTrigger(table), expected


def execute(execution: tuple[list[Operation], EventLine, TableTrigger, str | None], arm: ArmName) -> Trace:
    operations, event, trigger, expected = execution
    records = bind(operations)
    permutation = {record_key("e1", r.record_id): f"permuted {r.record_id}" for r in records}
    payload = next((r.payload.text for r in records if r.record_id == expected), None)
    return respond(
        records,
        hear(operations, event),
        arms(trigger, 0.5, permutation)[arm],
        TinyBackbone(),
        context(expected, payload),
    )


@pytest.mark.parametrize("arm", ArmName)
@settings(max_examples=60, deadline=None)
@given(execution=executions())
def test_the_contract_every_arm_keeps(
    arm: ArmName, execution: tuple[list[Operation], EventLine, TableTrigger, str]
) -> None:
    t = execute(execution, arm)
    # Exactly one of the two paths.
    assert t.fired == (t.fired_record is not None) == (t.intervention is not None) == (t.null_reason is None)
    assert t.steps[4].status is (StepStatus.DONE if t.fired else StepStatus.NOT_REACHED)
    assert t.steps[5].status is (StepStatus.NOT_REACHED if t.fired else StepStatus.DONE)
    # No action iff null; the output is the payload iff fired, else the paired baseline's.
    assert (t.predicted_action is not None) == t.fired == (t.payload_bound is not None)
    assert t.output == (t.payload_bound if t.fired else t.baseline_output)
    assert t.retrieved_id == t.fired_record
    # Only an active record fires, and only active records lose.
    standing = {r.record_id for r in t.records if r.state == RecordState.ACTIVE}
    assert {*t.losers, *([t.fired_record] if t.fired_record else [])} <= standing
    # P4: the decisions stored are the decisions called for, each pair once.
    assert len(t.decisions) == t.decisions_expected == len({(d.event, d.record_id) for d in t.decisions})
    final = [d for d in t.decisions if d.event == t.delay]
    assert any(d.fired for d in final) == t.fired
    assert t.distractor_fires == sum(d.fired for d in t.decisions) - sum(d.fired for d in final)
    # Audit and diagnostics only where they belong.
    assert t.null_trial == (arm is ArmName.C3 and not t.fired) == (t.audit_output_equal is not None)
    assert (t.model_action is not None) == (arm is ArmName.C0 or (arm is ArmName.C3 and t.fired))
    assert (t.prompt_sha256 is None) == t.fired
    # Outcome.
    assert t.correct == (t.error_kind is ErrorKind.NONE)
    if t.expected_trigger:
        assert t.correct == (t.predicted_action is not None and t.predicted_action == t.expected_payload)
    else:
        assert t.correct == (not t.fired)
    # The waterfall: every step that was reached has one time, and the steps timed lie within the whole.
    assert [s.step for s in t.step_times] == [s.step for s in t.steps if s.status is not StepStatus.NOT_REACHED]
    assert sum(s.elapsed_us for s in t.step_times) <= t.elapsed_us
    assert t.integrity_ok


@settings(max_examples=60, deadline=None)
@given(execution=executions())
def test_c3_and_c4_decide_alike_and_differ_in_the_payload_alone(
    execution: tuple[list[Operation], EventLine, TableTrigger, str],
) -> None:
    complete, permuted = execute(execution, ArmName.C3), execute(execution, ArmName.C4)
    for field in ("score", "fired", "fired_record", "losers", "decisions", "null_reason", "distractor_fires"):
        assert getattr(complete, field) == getattr(permuted, field)
    if complete.fired:
        assert permuted.predicted_action == f"permuted {complete.fired_record}"


@settings(max_examples=60, deadline=None)
@given(execution=executions(), arm=st.sampled_from(ArmName))
def test_responding_twice_gives_equal_columns(
    execution: tuple[list[Operation], EventLine, TableTrigger, str], arm: ArmName
) -> None:
    first, second = execute(execution, arm), execute(execution, arm)
    for name in set(Trace.model_fields) - VARYING:
        assert getattr(first, name) == getattr(second, name), name


@settings(max_examples=100, deadline=None)
@given(operations=histories())
def test_bind_is_deterministic_and_agrees_with_a_replay(operations: list[Operation]) -> None:
    records = bind(operations)
    assert records == bind(list(operations))
    # A second way: replay with plain sets.
    open_, cancelled, replaced = set(), set(), set()
    for op in operations:
        if op.op == "write":
            open_.add(op.record)
        elif op.op == "replace":
            open_.discard(op.supersedes)
            replaced.add(op.supersedes)
            open_.add(op.record)
        elif op.op == "cancel":
            open_.discard(op.record)
            cancelled.add(op.record)
    by_state = {s: {r.record_id for r in records if r.state is s} for s in RecordState}
    assert by_state == {
        RecordState.ACTIVE: open_,
        RecordState.CANCELLED: cancelled,
        RecordState.REPLACED: replaced,
        RecordState.EXPIRED: set(),
    }


@settings(max_examples=60, deadline=None)
@given(operations=histories(), data=st.data())
def test_the_order_of_unrelated_writes_changes_no_record_but_its_position(
    operations: list[Operation], data: st.DataObject
) -> None:
    unrelated = [
        Operation.model_validate({"op": "write", "record": f"x{n}", "condition": f"c{n}", "payload": f"p{n}"})
        for n in range(3)
    ]
    mixed = list(operations)
    for op in data.draw(st.permutations(unrelated)):
        mixed.insert(data.draw(st.integers(0, len(mixed))), op)

    def bare(records: tuple[Record, ...]) -> dict[str, Record]:
        return {r.record_id: r.model_copy(update={"written_step": 0, "ended_step": None}) for r in records}

    assert bare(bind(mixed)) == bare(bind([*operations, *unrelated]))


def test_a_decision_of_many_equals_a_decision_of_one() -> None:
    from core.controller.memory import MemoryTap

    operations = [
        Operation.model_validate({"op": "write", "record": f"r{n}", "condition": w, "payload": p})
        for n, (w, p) in enumerate(zip(WORDS, (*PAYLOADS, PAYLOADS[0]), strict=True))
    ]
    memory = MemoryTap(bind(operations))
    trigger = TableTrigger({(c, e): (len(c) * len(e) % 10) / 10 for c in WORDS for e in WORDS})
    every: list[Arm] = [a for name, a in arms(trigger, 0.4, {}).items() if name is not ArmName.C0]
    for arm in every:
        pairs = [(r, e) for r in memory.ids() for e in WORDS]
        many = arm.judge_many(memory, pairs)
        one = [arm.judge(memory, r, e) for r, e in pairs]
        assert [(d.score, d.fired, d.threshold) for d in many] == [(d.score, d.fired, d.threshold) for d in one]

"""The flow, golden: every arm on every family of episode, with the expected values written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.controller.arms import Arm, arms
from core.controller.context import Heard
from core.controller.step import bind, hear, respond
from core.controller.trail import with_hash_after
from core.errors import CaseError, ConditionError, InputError
from core.records.case import Operation
from core.records.decision import NullReason
from core.records.event import EventLine
from core.records.record import RecordState
from core.records.trace import ArmName, Boundary, ErrorKind, EventDecision, Step, StepName, StepStatus, StepTime, Trace
from tests.controller.tiny import TableTrigger, TinyBackbone, context

COND = "The invoice exceeds 10,000 dollars."
AMENDED = "The invoice exceeds 20,000 dollars."
PAY = "Attach the approval form."
CUE = "The invoice came to 12,300 dollars."
NEW_CUE = "The invoice came to 24,000 dollars."
NEAR = "The invoice may exceed 10,000 dollars next month."
WEATHER = "It rained in the morning."
LIKE_PAYLOAD = "Somebody asked how to attach the approval form."
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)

TRIGGER = TableTrigger({(COND, CUE): 0.9, (AMENDED, NEW_CUE): 0.8, (COND, NEAR): 0.3})
PERMUTED = {"e1/r1": "Water the plants.", "e1/r2": "Call the plumber."}


def write(record: str = "r1", condition: str = COND, payload: str = PAY, **more: object) -> Operation:
    return Operation.model_validate(
        {"op": "write", "record": record, "condition": condition, "payload": payload, **more}
    )


def distractor(text: str = WEATHER) -> Operation:
    return Operation.model_validate({"op": "distractor", "text": text})


def replace(record: str = "r2", old: str = "r1", condition: str = AMENDED, payload: str = PAY) -> Operation:
    return Operation.model_validate(
        {"op": "replace", "record": record, "supersedes": old, "condition": condition, "payload": payload}
    )


def cancel(record: str = "r1") -> Operation:
    return Operation.model_validate({"op": "cancel", "record": record})


POSITIVE = ([write(), distractor()], CUE, "r1")
NEAR_TRIGGER = ([write(), distractor()], NEAR, None)
DISTRACTOR_ONLY = ([write(), distractor()], WEATHER, None)
CANCELLATION = ([write(), cancel(), distractor()], CUE, None)
CORRECTION = ([write(), replace(), distractor()], CUE, None)
CORRECTED_POSITIVE = ([write(), replace(), distractor()], NEW_CUE, "r2")
REACTIVE_BAIT = ([write(), distractor()], LIKE_PAYLOAD, None)


def run(
    name: ArmName,
    episode: tuple[list[Operation], str, str | None],
    backbone: TinyBackbone | None = None,
    trigger: TableTrigger = TRIGGER,
    **more: object,
) -> Trace:
    operations, text, expected = episode
    return respond(
        bind(operations),
        hear(operations, EventLine(at=NOON, text=text)),
        arms(trigger, 0.5, PERMUTED)[name],
        backbone or TinyBackbone(),
        context(expected, PAY if expected else None, **more),
    )


# fired record, action, null reason, correct, error: worked out by hand from docs/experiments.md and paper section 3.5.
GOLDEN = {
    (ArmName.C0, "positive"): (None, None, "no_active_record", False, "missed"),
    (ArmName.C0, "near"): (None, None, "no_active_record", True, "none"),
    (ArmName.C0, "distractor"): (None, None, "no_active_record", True, "none"),
    (ArmName.C0, "cancelled"): (None, None, "no_active_record", True, "none"),
    (ArmName.C0, "corrected"): (None, None, "no_active_record", True, "none"),
    (ArmName.C0, "new cue"): (None, None, "no_active_record", False, "missed"),
    (ArmName.C0, "bait"): (None, None, "no_active_record", True, "none"),
    (ArmName.C1, "positive"): (None, None, "below_threshold", False, "missed"),
    (ArmName.C1, "near"): (None, None, "below_threshold", True, "none"),
    (ArmName.C1, "distractor"): (None, None, "below_threshold", True, "none"),
    (ArmName.C1, "cancelled"): (None, None, "lifecycle", True, "none"),
    (ArmName.C1, "corrected"): (None, None, "below_threshold", True, "none"),
    (ArmName.C1, "new cue"): (None, None, "below_threshold", False, "missed"),
    (ArmName.C1, "bait"): ("r1", PAY, None, False, "false"),
    (ArmName.C2, "positive"): ("r1", PAY, None, True, "none"),
    (ArmName.C2, "near"): ("r1", PAY, None, False, "false"),
    (ArmName.C2, "distractor"): ("r1", PAY, None, False, "false"),
    (ArmName.C2, "cancelled"): (None, None, "lifecycle", True, "none"),
    (ArmName.C2, "corrected"): ("r2", PAY, None, False, "false"),
    (ArmName.C2, "new cue"): ("r2", PAY, None, True, "none"),
    (ArmName.C2, "bait"): ("r1", PAY, None, False, "false"),
    (ArmName.C3, "positive"): ("r1", PAY, None, True, "none"),
    (ArmName.C3, "near"): (None, None, "below_threshold", True, "none"),
    (ArmName.C3, "distractor"): (None, None, "below_threshold", True, "none"),
    (ArmName.C3, "cancelled"): (None, None, "lifecycle", True, "none"),
    (ArmName.C3, "corrected"): (None, None, "below_threshold", True, "none"),
    (ArmName.C3, "new cue"): ("r2", PAY, None, True, "none"),
    (ArmName.C3, "bait"): (None, None, "below_threshold", True, "none"),
    (ArmName.C4, "positive"): ("r1", "Water the plants.", None, False, "wrong_payload"),
    (ArmName.C4, "near"): (None, None, "below_threshold", True, "none"),
    (ArmName.C4, "distractor"): (None, None, "below_threshold", True, "none"),
    (ArmName.C4, "cancelled"): (None, None, "lifecycle", True, "none"),
    (ArmName.C4, "corrected"): (None, None, "below_threshold", True, "none"),
    (ArmName.C4, "new cue"): ("r2", "Call the plumber.", None, False, "wrong_payload"),
    (ArmName.C4, "bait"): (None, None, "below_threshold", True, "none"),
}
EPISODES = {
    "positive": POSITIVE,
    "near": NEAR_TRIGGER,
    "distractor": DISTRACTOR_ONLY,
    "cancelled": CANCELLATION,
    "corrected": CORRECTION,
    "new cue": CORRECTED_POSITIVE,
    "bait": REACTIVE_BAIT,
}


@pytest.mark.parametrize(("arm", "family"), GOLDEN, ids=lambda v: str(v))
def test_every_arm_answers_every_family_as_written_by_hand(arm: ArmName, family: str) -> None:
    t = run(arm, EPISODES[family])
    assert (t.fired_record, t.predicted_action, t.null_reason, t.correct, t.error_kind) == GOLDEN[arm, family]


def test_a_fired_c3_trace_in_full() -> None:
    backbone = TinyBackbone()
    t = run(ArmName.C3, POSITIVE, backbone, match_id="m1", seed=2026, family="exact_positive", run_id="run-1")
    assert t.condition_text == COND
    assert (t.trigger, t.score, t.threshold, t.features) == ("table", 0.9, 0.5, (0.9, 1.0))
    assert t.events == (WEATHER, CUE)
    assert t.event_text == CUE
    assert t.delay == 1
    assert t.decisions == (
        EventDecision(event=0, record_id="r1", score=0.0, fired=False),
        EventDecision(event=1, record_id="r1", score=0.9, fired=True),
    )
    assert t.decisions_expected == 2
    assert (t.retrieved_id, t.payload_bound, t.output) == ("r1", PAY, PAY)
    assert t.intervention == '{"payload":"Attach the approval form.","record_id":"r1"}'
    assert t.model_action == backbone.generate(backbone.prompt(CUE, memory=[PAY]))
    assert t.baseline_output == backbone.generate(backbone.prompt(CUE))
    assert t.prompt_sha256 is None
    assert (t.null_trial, t.audit_output_equal, t.regenerated) == (False, None, False)
    assert (t.match_id, t.seed, t.family, t.run_id) == ("m1", 2026, "exact_positive", "run-1")
    assert [(s.step, s.status) for s in t.steps] == [
        (StepName.WRITE, StepStatus.DONE),
        (StepName.BOUNDARY, StepStatus.DONE),
        (StepName.TRIGGER_DECISION, StepStatus.DONE),
        (StepName.RETRIEVAL, StepStatus.DONE),
        (StepName.INTERVENTION, StepStatus.DONE),
        (StepName.NULL_BEHAVIOUR, StepStatus.NOT_REACHED),
        (StepName.OUTPUT, StepStatus.DONE),
        (StepName.INTEGRITY, StepStatus.DONE),
    ]
    assert t.steps[2].detail == ("2 decisions on 2 events. Best on the final event: r1, score 0.9000 >= 0.5000, fires.")


def test_a_silent_c3_trace_in_full() -> None:
    backbone = TinyBackbone()
    t = run(ArmName.C3, NEAR_TRIGGER, backbone)
    assert (t.trigger, t.score, t.threshold, t.features) == ("table", 0.3, 0.5, (0.3, 1.0))
    assert t.condition_text == COND
    assert t.output == t.baseline_output == backbone.generate(backbone.prompt(NEAR))
    assert (t.retrieved_id, t.payload_bound, t.intervention) == (None, None, None)
    assert (t.predicted_action, t.model_action) == (None, None)
    checks = (t.audit_no_retrieved_id, t.audit_no_intervention, t.audit_no_later_use, t.audit_output_equal)
    assert (t.null_trial, checks) == (True, (True, True, True, True))
    assert [s.status for s in t.steps] == [
        StepStatus.DONE,
        StepStatus.DONE,
        StepStatus.DONE,
        StepStatus.NOT_REACHED,
        StepStatus.NOT_REACHED,
        StepStatus.DONE,
        StepStatus.DONE,
        StepStatus.DONE,
    ]
    assert t.steps[5].detail == (
        "All four checks hold: no id, no intervention, no later read, prompt and output equal the baseline's."
    )


def test_the_null_path_of_c3_and_the_answer_of_c0_meet_in_two_rows() -> None:
    silent, bare = run(ArmName.C3, NEAR_TRIGGER), run(ArmName.C0, NEAR_TRIGGER)
    assert silent.prompt_sha256 == bare.prompt_sha256
    assert silent.output == bare.output == bare.model_action
    assert silent.baseline_output == bare.baseline_output


def test_c0_has_no_memory_even_when_records_are_passed() -> None:
    t = run(ArmName.C0, POSITIVE)
    assert (t.records, t.decisions, t.decisions_expected, t.memory_write_ok) == ((), (), 0, None)
    assert (t.trigger, t.score, t.threshold, t.condition_text) == (None, None, None, None)
    assert t.steps[0].detail == "This arm has no memory: nothing is written."


def test_c1_stores_its_likeness_under_its_own_name_and_never_reads_a_condition() -> None:
    t = run(ArmName.C1, REACTIVE_BAIT)
    assert (t.trigger, t.threshold, t.features, t.model_action) == ("payload_similarity", 0.5, None, None)
    assert t.score is not None
    assert t.score >= 0.5
    other_condition = run(ArmName.C1, ([write(condition="Anything else at all."), distractor()], LIKE_PAYLOAD, None))
    assert (other_condition.score, other_condition.fired_record) == (t.score, t.fired_record)


def test_c2_asks_no_trigger_and_every_decision_fires() -> None:
    trigger = TableTrigger({})
    t = run(ArmName.C2, DISTRACTOR_ONLY, trigger=trigger)
    assert trigger.asked == []
    assert (t.trigger, t.score, t.threshold) == (None, None, None)
    assert t.decisions == (
        EventDecision(event=0, record_id="r1", score=None, fired=True),
        EventDecision(event=1, record_id="r1", score=None, fired=True),
    )
    assert t.distractor_fires == 1
    assert t.steps[2].status is StepStatus.NOT_REACHED
    assert t.steps[2].detail == (
        "No trigger is asked: 1 active record exposed. On the distractors 1 decision fired, counted apart."
    )


def test_c2_with_several_records_acts_on_the_latest_write() -> None:
    ops = [write("r1"), write("r2", payload="Second."), write("r3", payload="Third.")]
    t = run(ArmName.C2, (ops, WEATHER, None))
    assert (t.fired_record, t.predicted_action, t.losers) == ("r3", "Third.", ("r2", "r1"))


def test_c4_decides_exactly_as_c3_and_says_whose_payload_it_is() -> None:
    complete, permuted = run(ArmName.C3, POSITIVE), run(ArmName.C4, POSITIVE)
    for field in ("score", "threshold", "features", "decisions", "fired_record", "retrieved_id", "trigger"):
        assert getattr(complete, field) == getattr(permuted, field)
    assert permuted.records[0].payload == PAY
    assert permuted.payload_bound == permuted.output == "Water the plants."
    assert permuted.steps[4].detail == "The action is the payload that the permutation binds to it."


def test_a_fixed_point_of_the_permutation_is_right() -> None:
    arm = Arm(ArmName.C4, trigger=TRIGGER, permutation={"e1/r1": PAY})
    operations, text, _ = POSITIVE
    t = respond(
        bind(operations), hear(operations, EventLine(at=NOON, text=text)), arm, TinyBackbone(), context("r1", PAY)
    )
    assert (t.correct, t.error_kind) == (True, ErrorKind.NONE)


def test_a_record_the_permutation_does_not_name_is_refused() -> None:
    arm = Arm(ArmName.C4, trigger=TRIGGER, permutation={})
    with pytest.raises(InputError) as e:
        respond(bind([write()]), [Heard(CUE, NOON)], arm, TinyBackbone(), context("r1", PAY))
    assert str(e.value) == "The permutation of arm C4 binds no payload to record e1/r1."


def test_the_highest_margin_wins_and_the_losers_are_listed_best_first() -> None:
    trigger = TableTrigger({("a", CUE): 0.7, ("b", CUE): 0.9, ("c", CUE): 0.8, ("d", CUE): 0.1})
    ops = [write(name, condition=name, payload=f"do {name}") for name in "abcd"]
    t = run(ArmName.C3, (ops, CUE, "b"), trigger=trigger)
    assert (t.fired_record, t.losers, t.score) == ("b", ("c", "a"), 0.9)
    assert t.steps[3].detail == "b is handed on, before c, a."


def test_a_tie_goes_to_the_latest_write() -> None:
    trigger = TableTrigger({("a", CUE): 0.7, ("b", CUE): 0.7, ("c", CUE): 0.7})
    ops = [write(name, condition=name, payload=f"do {name}") for name in "abc"]
    t = run(ArmName.C3, (ops, CUE, "b"), trigger=trigger)
    assert (t.fired_record, t.losers, t.error_kind) == ("c", ("b", "a"), ErrorKind.WRONG_RECORD)


def test_below_the_threshold_the_best_active_record_gives_score_features_and_condition() -> None:
    trigger = TableTrigger({("a", CUE): 0.1, ("b", CUE): 0.4, ("c", CUE): 0.2, ("d", CUE): 0.45})
    ops = [*(write(name, condition=name, payload=f"do {name}") for name in "abcd"), cancel("d")]
    t = run(ArmName.C3, (ops, CUE, None), trigger=trigger)
    assert (t.score, t.features, t.condition_text, t.losers) == (0.4, (0.4, 1.0), "b", ())


def test_a_fire_on_a_distractor_is_counted_apart_and_is_not_the_answer() -> None:
    t = run(ArmName.C3, ([write(), distractor(CUE)], WEATHER, None))
    assert (t.distractor_fires, t.fired, t.correct, t.null_reason) == (1, False, True, NullReason.BELOW_THRESHOLD)
    assert t.steps[2].detail.endswith("does not fire. On the distractors 1 decision fired, counted apart.")


def test_a_distractor_is_judged_against_the_records_active_at_its_step() -> None:
    ops = [distractor("before"), write("r1"), distractor("one"), write("r2", condition=AMENDED), distractor("two"),
           cancel("r1"), distractor("three"), replace("r3", "r2"), distractor("four")]  # fmt: skip
    t = run(ArmName.C3, (ops, WEATHER, None))
    assert [(d.event, d.record_id) for d in t.decisions] == [
        (1, "r1"), (2, "r1"), (2, "r2"), (3, "r2"), (4, "r3"), (5, "r3"),
    ]  # fmt: skip
    assert t.decisions_expected == 6


def test_the_trigger_is_never_asked_about_an_ended_record() -> None:
    trigger = TableTrigger({})
    run(ArmName.C3, CANCELLATION, trigger=trigger)
    assert trigger.asked == []


def test_lifecycle_leaves_the_reason_in_words() -> None:
    t = run(ArmName.C3, CANCELLATION)
    assert (t.score, t.features, t.threshold, t.condition_text) == (None, None, 0.5, COND)
    assert t.steps[2].status is StepStatus.REFUSED
    assert t.steps[2].detail == "The lifecycle rules left no record to judge: r1 is cancelled."


@pytest.mark.parametrize(
    ("offset", "fired", "state"),
    [(-timedelta(microseconds=1), True, "active"), (timedelta(0), False, "expired"), (timedelta(1), False, "expired")],
)
def test_expiry_is_exact_to_the_microsecond(offset: timedelta, fired: bool, state: str) -> None:
    ops = [write(expires_at="2026-01-05T12:00:00Z")]
    events = hear(ops, EventLine(at=NOON + offset, text=CUE))
    t = respond(bind(ops), events, arms(TRIGGER, 0.5, {})[ArmName.C3], TinyBackbone(), context("r1", PAY))
    assert (t.fired, t.records[0].state) == (fired, state)
    assert t.null_reason == (None if fired else NullReason.LIFECYCLE)
    assert t.decisions_expected == len(t.decisions) == int(fired)


def test_nothing_written_is_no_active_record() -> None:
    t = run(ArmName.C3, ([distractor()], CUE, None))
    assert (t.null_reason, t.null_trial, t.correct) == (NullReason.NO_ACTIVE_RECORD, True, True)
    assert t.steps[0].detail == "No operation writes a record."


def test_fresh_regenerates_the_null_output_of_c3_only() -> None:
    for arm in ArmName:
        backbone = TinyBackbone()
        t = run(arm, NEAR_TRIGGER, backbone, fresh=True)
        asked_anew = [prompt for prompt, fresh in backbone.asked if fresh]
        assert asked_anew == ([backbone.prompt(NEAR)] if arm is ArmName.C3 else [])
        assert t.regenerated is (arm is ArmName.C3)
    fired = run(ArmName.C3, POSITIVE, backbone, fresh=True)
    assert fired.regenerated is False


def test_the_backbone_generates_for_the_final_event_only() -> None:
    for arm in ArmName:
        backbone = TinyBackbone()
        run(arm, POSITIVE, backbone)
        assert not [p for p, _ in backbone.asked if WEATHER.encode() in p]


def test_steps_and_columns_are_equal_in_two_runs_but_for_times_and_ids() -> None:
    from core.records.trace import VARYING

    a, b = run(ArmName.C3, NEAR_TRIGGER), run(ArmName.C3, NEAR_TRIGGER, writer_pid=1, responder_pid=2, run_id="other")
    kept = [f for f in Trace.model_fields if f not in VARYING]
    assert [getattr(a, f) for f in kept] == [getattr(b, f) for f in kept]
    assert a.execution_key == b.execution_key
    assert a.trace_id != b.trace_id


def test_the_execution_key_tells_every_factor_apart() -> None:
    keys = {
        run(arm, POSITIVE, boundary=boundary, seed=seed, contract=contract, episode_id="e1").execution_key
        for arm in (ArmName.C0, ArmName.C3)
        for boundary in Boundary
        for seed in (2026, 2027)
        for contract in (None, "controlled")
    }
    assert len(keys) == 16


def test_a_restart_without_another_process_is_a_failed_boundary() -> None:
    def boundary_step(responder_pid: int, reopened: bool) -> Step:
        return run(
            ArmName.C3,
            POSITIVE,
            boundary=Boundary.RESTART,
            writer_pid=7,
            responder_pid=responder_pid,
            store_reopened=reopened,
        ).steps[1]

    for failed in (boundary_step(7, True), boundary_step(8, False)):
        assert failed.status is StepStatus.FAILED
        assert failed.detail == "A restart was planned, but no other process took over."
    assert boundary_step(8, True).status is StepStatus.DONE


def test_records_that_differ_when_read_back_are_a_failed_write() -> None:
    step = run(ArmName.C3, POSITIVE, memory_write_ok=False).steps[0]
    assert (step.status, step.detail) == (StepStatus.FAILED, "Written: r1; read back, they differ.")


def test_integrity_waits_for_the_hash_after_the_shard() -> None:
    open_ = run(ArmName.C3, POSITIVE, backbone_hash_after=None)
    assert (open_.integrity_ok, open_.backbone_hash_after, open_.steps[7].status) == (
        False, "", StepStatus.NOT_REACHED,
    )  # fmt: skip
    measured = StepTime(step=StepName.INTEGRITY, at=NOON, elapsed_us=5.0)
    whole = with_hash_after(open_, "w" * 64, measured)
    assert whole.step_times == (*open_.step_times, measured)
    assert (whole.integrity_ok, whole.steps[7].status) == (True, StepStatus.DONE)
    changed = with_hash_after(open_, "x" * 64, measured)
    assert (changed.integrity_ok, changed.steps[7].detail) == (False, "The backbone's weights changed.")


def test_bind_keeps_condition_and_payload_apart_and_folds_the_lifecycle() -> None:
    records = bind([write(expires_at="2026-01-05T12:00:00Z"), distractor(), replace(), cancel("r2")])
    one, two = records
    assert (one.condition.text, one.payload.text, one.expires_at) == (COND, PAY, NOON)
    assert (one.state, one.written_step, one.ended_step, one.supersedes) == (RecordState.REPLACED, 0, 2, None)
    assert (two.state, two.written_step, two.ended_step, two.supersedes) == (RecordState.CANCELLED, 2, 3, "r1")


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([write(), write()], "Operation 2 writes record 'r1' a second time."),
        ([cancel()], "Operation 1 would make record 'r1' cancelled, but it does not stand."),
        ([write(), cancel(), cancel()], "Operation 3 would make record 'r1' cancelled, but it does not stand."),
        ([write(), cancel(), replace()], "Operation 3 would make record 'r1' replaced, but it does not stand."),
    ],
)
def test_operations_that_contradict_each_other_are_refused(operations: list[Operation], message: str) -> None:
    with pytest.raises(CaseError) as e:
        bind(operations)
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The text of an event is empty. Give the event a readable text."),
        ("a\x00b", "The text of an event holds a NUL character. Give the event a readable text."),
        ("\ud800", "The text of an event is not valid Unicode (a lone surrogate). Give the event a readable text."),
        (
            "x" * 1_048_577,
            "The text of an event is 1,048,577 bytes long; at most 1,048,576 are taken. "
            "Give the event a readable text.",
        ),
    ],
)
def test_an_event_that_cannot_be_stored_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as e:
        Heard(text, NOON)
    assert str(e.value) == message


@pytest.mark.parametrize("text", ["x " * 524_288, "\u200fמחר יגיע החשבון", "🧾🧾 12 300 €", "$x$ **b** <b>&"])
@pytest.mark.parametrize("arm", ArmName)
def test_large_right_to_left_and_emoji_events_pass_through_unchanged(arm: ArmName, text: str) -> None:
    t = run(arm, ([write(), distractor(text)], text, None))
    assert t.event_text == t.events[0] == text


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(ConditionError) as e:
        Heard(CUE, NOON.replace(tzinfo=None))
    assert str(e.value) == "The instant of an event has no zone. Give it an offset or Z."


@pytest.mark.parametrize("events", [[], [Heard(CUE, NOON, 3)], [Heard(CUE), Heard(CUE)]])
def test_an_execution_without_one_final_event_is_refused(events: list[Heard]) -> None:
    with pytest.raises(InputError, match="one final event"):
        respond(bind([write()]), events, Arm(ArmName.C0), TinyBackbone(), context(None, None))


def test_an_arm_without_what_it_needs_is_refused() -> None:
    with pytest.raises(InputError) as e:
        Arm(ArmName.C4)
    assert str(e.value) == "Arm C4 needs trigger and permutation."


def test_the_steps_that_were_reached_have_a_time_and_no_others() -> None:
    def timed(
        arm: ArmName, episode: tuple[list[Operation], str, str | None], hash_after: str | None = "w"
    ) -> list[str]:
        return [t.step.value for t in run(arm, episode, backbone_hash_after=hash_after).step_times]

    last = ["output", "integrity"]
    assert timed(ArmName.C0, POSITIVE) == ["boundary", "null_behaviour", *last]
    assert timed(ArmName.C2, POSITIVE) == ["write", "boundary", "retrieval", "intervention", *last]
    assert timed(ArmName.C3, POSITIVE) == ["write", "boundary", "trigger_decision", "retrieval", "intervention", *last]
    assert timed(ArmName.C3, NEAR_TRIGGER) == ["write", "boundary", "trigger_decision", "null_behaviour", *last]
    assert timed(ArmName.C0, POSITIVE, None) == ["boundary", "null_behaviour", "output"]


def test_c1_stores_the_likeness_that_its_threshold_was_set_on() -> None:
    from core.triggers.lexical import payload_similarity

    events = (WEATHER, LIKE_PAYLOAD, CUE)
    operations = [write(), *(distractor(text) for text in events), write("r2", payload="Attach everything.")]
    t = run(ArmName.C1, (operations, LIKE_PAYLOAD, None))
    payloads = {"r1": PAY, "r2": "Attach everything."}
    assert [d.score for d in t.decisions] == [
        payload_similarity(t.events[d.event], payloads[d.record_id]) for d in t.decisions
    ]

"""From what happened to the stored trace: every column, the error kind, the count of decisions called for.

Pure. The eight steps are worded in `steps.py`; their times are kept apart from them, so that re-runs compare equal.
Every step that was reached has a time, no other has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core import clock
from core.controller.arms import Arm
from core.controller.context import Context, Heard
from core.controller.null import Baseline
from core.controller.resolve import Resolution, null_reason
from core.controller.steps import eight_steps, integrity_step
from core.hashing import sha256_hex
from core.records.decision import Decision
from core.records.record import Record
from core.records.trace import (
    ErrorKind,
    EventDecision,
    RecordView,
    StepName,
    StepStatus,
    StepTime,
    Trace,
)

if TYPE_CHECKING:
    from core.backbone.base import Backbone
    from core.controller.step import Outcome


class Stopwatch:
    """Times the execution and its steps."""

    def __init__(self) -> None:
        self.began = clock.now()
        self._start = time.perf_counter_ns()
        self.times: list[StepTime] = []

    @contextmanager
    def step(self, name: StepName) -> Iterator[None]:
        """Time one step."""
        at, start = clock.now(), time.perf_counter_ns()
        yield
        self.times.append(StepTime(step=name, at=at, elapsed_us=(time.perf_counter_ns() - start) / 1000))

    @property
    def elapsed_us(self) -> float:
        """Microseconds since the execution began."""
        return (time.perf_counter_ns() - self._start) / 1000


def trace_of(
    records: Sequence[Record],
    events: Sequence[Heard],
    arm: Arm,
    backbone: Backbone,
    context: Context,
    stored: Sequence[EventDecision],
    decisions: Sequence[Decision],
    resolution: Resolution,
    baseline: Baseline,
    outcome: Outcome,
    watch: Stopwatch,
) -> Trace:
    """Return the complete trace of one execution."""
    final, best, winner = events[-1], resolution.best, resolution.winner
    reason = None if winner else null_reason(bool(records), bool(decisions))
    error = error_kind(context, winner.record_id if winner else None, outcome.predicted_action)
    views = tuple(_view(r, final) for r in records)
    checks = outcome.audit
    write_ok = context.memory_write_ok if arm.has_memory else None
    hash_after = context.backbone_hash_after
    with watch.step(StepName.INTEGRITY):
        intact = hash_after == context.backbone_hash_before
    steps = eight_steps(views, len(events), arm, context, stored, resolution, reason, outcome)
    reached = {s.step for s in steps if s.status is not StepStatus.NOT_REACHED}
    trace = Trace(
        trace_id=context.trace_id,
        execution_key=context.execution_key(arm.name, backbone.name),
        run_id=context.run_id,
        evidence_class=context.evidence_class,
        origin=context.origin,
        contract=context.contract,
        created_at=watch.began,
        elapsed_us=0.0,
        episode_id=context.episode_id,
        match_id=context.match_id,
        seed=context.seed,
        arm=arm.name,
        boundary=context.boundary,
        family=context.family,
        source=context.source,
        stratum=context.stratum,
        delay=len(events) - 1,
        expected_trigger=context.expected_trigger,
        expected_record=context.expected_record,
        expected_payload=context.expected_payload,
        records=views,
        events=tuple(e.text for e in events),
        condition_text=_condition(records, best.record_id if best else None),
        event_text=final.text,
        trigger=arm.judged_by,
        score=best.score if best else None,
        threshold=arm.threshold,
        fired=winner is not None,
        fired_record=winner.record_id if winner else None,
        losers=resolution.losers,
        null_reason=reason,
        features=best.features if best else None,
        decisions=tuple(stored),
        decisions_expected=decisions_expected(records, events),
        distractor_fires=sum(d.fired for d in stored if d.event < len(events) - 1),
        retrieved_id=outcome.retrieved_id,
        payload_bound=outcome.payload_bound,
        intervention=outcome.intervention.as_json() if outcome.intervention else None,
        predicted_action=outcome.predicted_action,
        model_action=outcome.model_action,
        output=outcome.output,
        baseline_output=baseline.output,
        prompt_sha256=sha256_hex(outcome.prompt) if outcome.prompt is not None else None,
        regenerated=context.fresh and checks is not None,
        null_trial=checks is not None,
        audit_no_retrieved_id=checks.no_retrieved_id if checks else None,
        audit_no_intervention=checks.no_intervention if checks else None,
        audit_no_later_use=checks.no_later_use if checks else None,
        audit_output_equal=checks.output_equal if checks else None,
        correct=error is ErrorKind.NONE,
        error_kind=error,
        memory_write_ok=write_ok,
        backbone=backbone.name,
        backbone_hash_before=context.backbone_hash_before,
        backbone_hash_after=hash_after or "",
        integrity_ok=intact,
        device=context.device,
        writer_pid=context.writer_pid,
        responder_pid=context.responder_pid,
        store_reopened=context.store_reopened,
        steps=steps,
        step_times=tuple(t for t in (*context.earlier_times, *watch.times) if t.step in reached),
    )
    return trace.model_copy(update={"elapsed_us": watch.elapsed_us})


def error_kind(context: Context, fired_record: str | None, action: str | None) -> ErrorKind:
    """Return how the answer is wrong: a positive is right by its payload, a negative by no action."""
    if not context.expected_trigger:
        return ErrorKind.NONE if fired_record is None else ErrorKind.FALSE
    if fired_record is None:
        return ErrorKind.MISSED
    if action == context.expected_payload:
        return ErrorKind.NONE
    return ErrorKind.WRONG_RECORD if fired_record != context.expected_record else ErrorKind.WRONG_PAYLOAD


def decisions_expected(records: Sequence[Record], events: Sequence[Heard]) -> int:
    """Count the decisions that events and active records call for (P4).

    Counted by arithmetic on the stored positions, not through `Record.state_at`, which the flow asks: two ways.
    """
    final = events[-1]
    count = 0
    for r in records:
        for e in events[:-1]:
            assert e.step is not None
            count += r.written_step <= e.step and (r.ended_step is None or e.step < r.ended_step) and not _past(r, e)
        count += r.ended_step is None and not _past(r, final)
    return count


def with_hash_after(trace: Trace, hash_after: str, measured: StepTime) -> Trace:
    """Return the trace with the weights' hash measured when its shard ended, and the integrity step it decides.

    Parameters
    ----------
    measured : when hashing began, and this execution's share of its time.
    """
    return trace.model_copy(
        update={
            "backbone_hash_after": hash_after,
            "integrity_ok": hash_after == trace.backbone_hash_before,
            "steps": (*trace.steps[:-1], integrity_step(trace.backbone_hash_before, hash_after)),
            "step_times": (*trace.step_times, measured),
        }
    )


def _past(record: Record, event: Heard) -> bool:
    return record.expires_at is not None and event.at is not None and event.at >= record.expires_at


def _view(record: Record, final: Heard) -> RecordView:
    state = record.state_at(final.step, final.at)
    assert state is not None  # the final event comes after every write
    return RecordView(
        record_id=record.record_id,
        condition=record.condition.text,
        payload=record.payload.text,
        state=state.value,
    )


def _condition(records: Sequence[Record], best: str | None) -> str | None:
    for r in records:
        if r.record_id == best:
            return r.condition.text
    return max(records, key=lambda r: r.written_step).condition.text if records else None

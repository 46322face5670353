"""From what happened to the stored trace: outcome, error kind, the eight steps in words, times apart.

Pure. The words of a step hold nothing that differs between two runs of the same execution (no pid, no time, no path).
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
from core.hashing import sha256_hex
from core.records.decision import Decision, NullReason
from core.records.record import Record, RecordState
from core.records.trace import (
    ArmName,
    Boundary,
    ErrorKind,
    EventDecision,
    RecordView,
    Step,
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
        integrity_ok=hash_after == context.backbone_hash_before,
        device=context.device,
        writer_pid=context.writer_pid,
        responder_pid=context.responder_pid,
        store_reopened=context.store_reopened,
        steps=(
            _write_step(records, arm, write_ok),
            _boundary_step(context),
            _decision_step(arm, views, stored, events, resolution, reason),
            _retrieval_step(resolution),
            _intervention_step(outcome, arm),
            _null_step(outcome, arm, winner is not None, context.fresh),
            _output_step(winner is not None),
            integrity_step(context.backbone_hash_before, hash_after),
        ),
        step_times=(*context.earlier_times, *watch.times),
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


def with_hash_after(trace: Trace, hash_after: str) -> Trace:
    """Return the trace with the weights' hash measured when its shard ended, and the integrity step it decides."""
    return trace.model_copy(
        update={
            "backbone_hash_after": hash_after,
            "integrity_ok": hash_after == trace.backbone_hash_before,
            "steps": (*trace.steps[:-1], integrity_step(trace.backbone_hash_before, hash_after)),
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


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _write_step(records: Sequence[Record], arm: Arm, ok: bool | None) -> Step:
    if not arm.has_memory:
        return _step(StepName.WRITE, StepStatus.NOT_REACHED, "This arm has no memory: nothing is written.")
    if not records:
        return _step(StepName.WRITE, StepStatus.NOT_REACHED, "No operation writes a record.")
    names = ", ".join(r.record_id for r in records)
    if ok is False:
        return _step(StepName.WRITE, StepStatus.FAILED, f"Written: {names}; read back, they differ.")
    back = "; read back equal after the boundary" if ok else ""
    return _step(StepName.WRITE, StepStatus.DONE, f"Written, condition and payload apart: {names}{back}.")


def _boundary_step(context: Context) -> Step:
    if context.boundary is Boundary.SAME_PROCESS:
        return _step(StepName.BOUNDARY, StepStatus.DONE, "None: one process writes and answers.")
    if not context.store_reopened or context.writer_pid == context.responder_pid:
        return _step(StepName.BOUNDARY, StepStatus.FAILED, "A restart was planned, but no other process took over.")
    return _step(
        StepName.BOUNDARY, StepStatus.DONE, "The writing process exited; another opened the store anew and answers."
    )


def _decision_step(
    arm: Arm,
    views: Sequence[RecordView],
    stored: Sequence[EventDecision],
    events: Sequence[Heard],
    resolution: Resolution,
    reason: NullReason | None,
) -> Step:
    name = StepName.TRIGGER_DECISION
    if reason is NullReason.NO_ACTIVE_RECORD:
        return _step(name, StepStatus.NOT_REACHED, "Nothing was written, so there is nothing to judge.")
    fires = sum(d.fired for d in stored if d.event < len(events) - 1)
    apart = f" On the distractors {_count(fires, 'decision')} fired, counted apart." if fires else ""
    if reason is NullReason.LIFECYCLE:
        ended = ", ".join(f"{v.record_id} is {v.state}" for v in views)
        return _step(name, StepStatus.REFUSED, f"The lifecycle rules left no record to judge: {ended}.{apart}")
    best = resolution.best
    assert best is not None
    made = f"{_count(len(stored), 'decision')} on {_count(len(events), 'event')}."
    if arm.judged_by is None:
        exposed = sum(v.state == RecordState.ACTIVE for v in views)
        return _step(
            name, StepStatus.NOT_REACHED, f"No trigger is asked: {_count(exposed, 'active record')} exposed.{apart}"
        )
    verdict = "fires" if best.fired else "does not fire"
    sign = ">=" if best.fired else "<"
    return _step(
        name,
        StepStatus.DONE,
        f"{made} Best on the final event: {best.record_id}, score {best.score:.4f} {sign} {best.threshold:.4f}, "
        f"{verdict}.{apart}",
    )


def _retrieval_step(resolution: Resolution) -> Step:
    if resolution.winner is None:
        return _step(StepName.RETRIEVAL, StepStatus.NOT_REACHED, "Nothing fired: no id is handed on.")
    over = f", before {', '.join(resolution.losers)}" if resolution.losers else ""
    return _step(StepName.RETRIEVAL, StepStatus.DONE, f"{resolution.winner.record_id} is handed on{over}.")


def _intervention_step(outcome: Outcome, arm: Arm) -> Step:
    name = StepName.INTERVENTION
    if outcome.intervention is None or outcome.predicted_action is None:
        return _step(name, StepStatus.NOT_REACHED, "No intervention object was built.")
    whose = "the payload that the permutation binds to it" if arm.name is ArmName.C4 else "its own payload"
    return _step(name, StepStatus.DONE, f"The action is {whose}.")


def _null_step(outcome: Outcome, arm: Arm, fired: bool, fresh: bool) -> Step:
    name = StepName.NULL_BEHAVIOUR
    if fired:
        return _step(name, StepStatus.NOT_REACHED, "A record fired.")
    if not arm.has_memory:
        return _step(name, StepStatus.DONE, "This arm has no other path: the baseline answers.")
    if outcome.audit is None:
        return _step(name, StepStatus.DONE, "The backbone answers the event alone; the audit belongs to C3.")
    if outcome.audit.passed:
        anew = ", generated past the cache" if fresh else ""
        return _step(
            name,
            StepStatus.DONE,
            "All four checks hold: no id, no intervention, no later read, prompt and output "
            f"equal the baseline's{anew}.",
        )
    failed = ", ".join(check.replace("_", " ") for check in outcome.audit.failed)
    return _step(name, StepStatus.FAILED, f"The audit failed: {failed}.")


def _output_step(fired: bool) -> Step:
    said = "The payload is the output." if fired else "The backbone's answer is the output; there is no action."
    return _step(StepName.OUTPUT, StepStatus.DONE, said)


def integrity_step(before: str, after: str | None) -> Step:
    """Return the eighth step: whether the backbone's weights are what they were."""
    name = StepName.INTEGRITY
    if after is None:
        return _step(name, StepStatus.NOT_REACHED, "The weights have not been hashed again yet.")
    if after != before:
        return _step(name, StepStatus.FAILED, "The backbone's weights changed.")
    return _step(name, StepStatus.DONE, "The hash over all of the backbone's weights is unchanged.")


def _step(name: StepName, status: StepStatus, detail: str) -> Step:
    return Step(step=name, status=status, detail=detail)

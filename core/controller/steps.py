"""The eight steps of an execution in words, each with how it ended (paper section 3.6).

Promise: the words hold nothing that differs between two runs of the same execution (no pid, no time, no path), and no
text of a record or event, which stand in columns of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.controller.arms import Arm
from core.controller.context import Context
from core.controller.resolve import Resolution
from core.records.decision import NullReason
from core.records.record import RecordState
from core.records.trace import (
    ArmName,
    Boundary,
    EventDecision,
    RecordView,
    Step,
    StepName,
    StepStatus,
)

if TYPE_CHECKING:
    from core.controller.step import Outcome


def eight_steps(
    records: Sequence[RecordView],
    events: int,
    arm: Arm,
    context: Context,
    decisions: Sequence[EventDecision],
    resolution: Resolution,
    reason: NullReason | None,
    outcome: Outcome,
) -> tuple[Step, ...]:
    """Return the eight steps, in order.

    Parameters
    ----------
    events : how many were heard, the final one included.
    decisions : every stored decision.
    """
    fired = resolution.winner is not None
    write_ok = context.memory_write_ok if arm.has_memory else None
    return (
        _write_step(records, arm, write_ok),
        _boundary_step(context),
        _decision_step(arm, records, decisions, events, resolution, reason),
        _retrieval_step(resolution),
        _intervention_step(outcome, arm),
        _null_step(outcome, arm, fired, context.fresh),
        _output_step(fired),
        integrity_step(context.backbone_hash_before, context.backbone_hash_after),
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _write_step(records: Sequence[RecordView], arm: Arm, ok: bool | None) -> Step:
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
    events: int,
    resolution: Resolution,
    reason: NullReason | None,
) -> Step:
    name = StepName.TRIGGER_DECISION
    if reason is NullReason.NO_ACTIVE_RECORD:
        return _step(name, StepStatus.NOT_REACHED, "Nothing was written, so there is nothing to judge.")
    fires = sum(d.fired for d in stored if d.event < events - 1)
    apart = f" On the distractors {_count(fires, 'decision')} fired, counted apart." if fires else ""
    if reason is NullReason.LIFECYCLE:
        ended = ", ".join(f"{v.record_id} is {v.state}" for v in views)
        return _step(name, StepStatus.REFUSED, f"The lifecycle rules left no record to judge: {ended}.{apart}")
    best = resolution.best
    assert best is not None
    made = f"{_count(len(stored), 'decision')} on {_count(events, 'event')}."
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

"""The flow, top to bottom: operations become records, an event becomes one audited trace.

    bind(operations) -> records          what the writer stores
    hear(operations, event) -> events    what the responder hears: the distractors, then the final event
    respond(records, events, ...)        the eight steps of one execution -> Trace

Promise: nothing here writes, opens a store or keeps state; `respond` is pure but for the backbone and the clock.
Exactly one of two paths is taken: an intervention, or the null path. A fire on a distractor is counted apart and is
never the answer; the backbone generates for the final event only.
Refused: operations that contradict each other, an execution without a final event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.controller.arms import Arm
from core.controller.context import Context, Heard
from core.controller.intervene import Intervention
from core.controller.memory import MemoryTap
from core.controller.null import Baseline, MakePath, NullAudit, NullPath, Walk, audit, c0_baseline, walk
from core.controller.resolve import resolve
from core.controller.trail import Stopwatch, trace_of
from core.errors import CaseError, InputError, quoted
from core.records.case import Operation, OperationKind
from core.records.decision import Decision
from core.records.event import EventLine
from core.records.record import Condition, Payload, Record, RecordState
from core.records.trace import ArmName, EventDecision, StepName, Trace

if TYPE_CHECKING:
    from core.backbone.base import Backbone


def bind(operations: Sequence[Operation]) -> tuple[Record, ...]:
    """Fold the operations into records: condition and payload apart, bound by the id, with their lifecycle state.

    Returns
    -------
    The records in the order written; `written_step` and `ended_step` are 0-based positions among the operations.

    Raises
    ------
    CaseError : a record is written twice, or an operation ends a record that does not stand.

    Source
    ------
    Paper section 3.2 (m = (c, a, z)); Table 2, P3.
    """
    records: dict[str, Record] = {}
    for step, op in enumerate(operations):
        if op.op is OperationKind.DISTRACTOR:
            continue
        assert op.record is not None
        if op.op is OperationKind.CANCEL:
            _end(records, op.record, RecordState.CANCELLED, step)
            continue
        if op.record in records:
            raise CaseError(f"Operation {step + 1} writes record {quoted(op.record)} a second time.")
        if op.op is OperationKind.REPLACE:
            assert op.supersedes is not None
            _end(records, op.supersedes, RecordState.REPLACED, step)
        assert op.condition is not None
        assert op.payload is not None
        records[op.record] = Record(
            record_id=op.record,
            condition=Condition(text=op.condition),
            payload=Payload(text=op.payload),
            expires_at=op.expires_at,
            supersedes=op.supersedes if op.op is OperationKind.REPLACE else None,
            written_step=step,
        )
    return tuple(records.values())


def _end(records: dict[str, Record], record_id: str, state: RecordState, step: int) -> None:
    record = records.get(record_id)
    if record is None or record.state is not RecordState.ACTIVE:
        raise CaseError(f"Operation {step + 1} would make record {quoted(record_id)} {state}, but it does not stand.")
    records[record_id] = record.model_copy(update={"state": state, "ended_step": step})


def hear(operations: Sequence[Operation], event: EventLine) -> tuple[Heard, ...]:
    """Return what the responder hears: every distractor at its step, then the final event.

    A distractor carries no instant, so that expiry is judged on the final event only.
    """
    distractors = [
        Heard(op.text or "", step=step) for step, op in enumerate(operations) if op.op is OperationKind.DISTRACTOR
    ]
    return (*distractors, Heard(event.text, at=event.at))


@dataclass(frozen=True)
class Outcome:
    """What an execution comes to, on either path."""

    output: str
    """y_t."""
    payload_bound: str | None = None
    """The payload the arm binds to the record that fired; on the null path none is bound."""
    retrieved_id: str | None = None
    """The id handed to the intervention."""
    intervention: Intervention | None = None
    """The intervention object."""
    predicted_action: str | None = None
    """The system's action."""
    model_action: str | None = None
    """The backbone's own proposal, a diagnostic."""
    prompt: bytes | None = None
    """The prompt the backbone answered, where the output is the backbone's."""
    audit: NullAudit | None = None
    """The four checks, on the null path of C3."""


def respond(
    records: Sequence[Record],
    events: Sequence[Heard],
    arm: Arm,
    backbone: Backbone,
    context: Context,
    null_path: MakePath = NullPath,
    tap: Callable[[Sequence[Record]], MemoryTap] = MemoryTap,
) -> Trace:
    """Execute the lifecycle once.

    Parameters
    ----------
    records : as read back from the store; ignored in C0, which has no memory.
    events : the distractors, then the final event (its step is None).
    null_path : makes the null path once the memory is closed; tests pass mutants.
    tap : makes the view of the memory; tests keep it for mutants that cheat with it.

    Returns
    -------
    The trace, every field filled but the backbone's hash after the shard where the context does not know it yet.

    Raises
    ------
    InputError : there is no final event.

    Source
    ------
    Paper sections 3.2, 3.3 (Figure 1) and 3.5.
    """
    if not events or any(e.step is None for e in events[:-1]) or events[-1].step is not None:
        raise InputError("An execution needs its distractors, each with its step, and one final event without.")
    watch = Stopwatch()
    final = events[-1]
    written = tuple(records) if arm.has_memory else ()
    memory = tap(written)

    with watch.step(StepName.TRIGGER_DECISION):
        earlier = judge_distractors(memory, events[:-1], arm)
        decisions = [arm.judge(memory, record_id, final.text) for record_id in memory.active(final)]
    with watch.step(StepName.RETRIEVAL):
        resolution = resolve(decisions, {d.record_id: memory.written_step(d.record_id) for d in decisions})

    intervention, walked, baseline = None, None, None
    if resolution.winner is not None:
        with watch.step(StepName.INTERVENTION):
            record_id = resolution.winner.record_id
            intervention = Intervention(record_id, arm.bound_payload(memory, context.episode_id, record_id))
    else:
        with watch.step(StepName.NULL_BEHAVIOUR):
            baseline = c0_baseline(final.text, backbone)  # before the path is walked: nothing it does can move it
            if arm.has_memory:
                fresh = context.fresh and arm.name is ArmName.C3
                walked = walk(null_path, memory, final.text, backbone, fresh=fresh)
    with watch.step(StepName.OUTPUT):
        baseline = baseline or c0_baseline(final.text, backbone)
        outcome = come_out(intervention, walked, baseline, memory, final, arm, backbone)

    stored = [*earlier, *(_stored(len(events) - 1, d) for d in decisions)]
    return trace_of(written, events, arm, backbone, context, stored, decisions, resolution, baseline, outcome, watch)


def judge_distractors(memory: MemoryTap, distractors: Sequence[Heard], arm: Arm) -> list[EventDecision]:
    """Judge every distractor against the records that are active at its step."""
    pairs = [(n, record_id) for n, event in enumerate(distractors) for record_id in memory.active(event)]
    if not pairs:
        return []
    found = arm.judge_many(memory, [(record_id, distractors[n].text) for n, record_id in pairs])
    return [_stored(n, decision) for (n, _), decision in zip(pairs, found, strict=True)]


def come_out(
    intervention: Intervention | None,
    walked: Walk | None,
    baseline: Baseline,
    memory: MemoryTap,
    final: Heard,
    arm: Arm,
    backbone: Backbone,
) -> Outcome:
    """Return y_t: the payload where something fired, else what the null path said, else (C0) the baseline itself.

    In C3 a fired trial also asks the backbone what it would do, and a silent one is audited, last of all.

    Source
    ------
    Paper sections 3.2 (y_t) and 3.5 (predicted_action apart from model_action).
    """
    complete = arm.name is ArmName.C3
    if intervention is not None:
        payload = intervention.payload
        return Outcome(
            output=payload,
            payload_bound=payload,
            retrieved_id=intervention.record_id,
            intervention=intervention,
            predicted_action=payload,
            model_action=backbone.generate(backbone.prompt(final.text, memory=[payload])) if complete else None,
        )
    if walked is None:
        return Outcome(baseline.output, model_action=baseline.output, prompt=baseline.prompt)
    handed_on = walked.outcome
    return Outcome(
        output=handed_on.output,
        retrieved_id=handed_on.retrieved_id,
        intervention=handed_on.intervention,
        prompt=handed_on.prompt,
        audit=audit(walked, memory, baseline) if complete else None,
    )


def _stored(event: int, decision: Decision) -> EventDecision:
    return EventDecision(event=event, record_id=decision.record_id, score=decision.score, fired=decision.fired)

"""The words of one execution: what came out in one sentence, the steps' and checks' names, lengths of time.

Sentences name what was observed and what it was compared with; no sentence claims more than the trace holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from core.evaluation.claims import Claim
from core.records.decision import NullReason
from core.records.run import CriterionRow, Decided, Manifest
from core.records.trace import ArmName, Boundary, ErrorKind, StepName, StepStatus, Trace

LEAST_EFFECT = 0.5
"""Smaller effects of a feature, in log-odds, are not spelled out."""
STEP_TITLES = {
    StepName.WRITE: "Write",
    StepName.BOUNDARY: "Boundary",
    StepName.TRIGGER_DECISION: "Trigger decision",
    StepName.RETRIEVAL: "Retrieval",
    StepName.INTERVENTION: "Intervention",
    StepName.NULL_BEHAVIOUR: "Null behaviour",
    StepName.OUTPUT: "Output",
    StepName.INTEGRITY: "Integrity",
}
STATUS_ICONS = {
    StepStatus.DONE: "●",
    StepStatus.NOT_REACHED: "○",
    StepStatus.REFUSED: "⊘",
    StepStatus.FAILED: "✕",
    StepStatus.NOT_RECORDED: "?",
}
ARM_TITLES = {
    ArmName.C0: "C0 no memory",
    ArmName.C1: "C1 reactive",
    ArmName.C2: "C2 always on",
    ArmName.C3: "C3 complete",
    ArmName.C4: "C4 payloads permuted",
}
BOUNDARY_TITLES = {Boundary.SAME_PROCESS: "same process", Boundary.RESTART: "restart"}
AUDIT_CHECKS = {
    "audit_no_retrieved_id": "No record id was retrieved",
    "audit_no_intervention": "No intervention object was built",
    "audit_no_later_use": "No memory value was read after the decision",
    "audit_output_equal": "Prompt and output bytes equal the run without memory",
}
NULL_REASONS = {
    NullReason.NO_ACTIVE_RECORD: "nothing had been written",
    NullReason.LIFECYCLE: "every record was replaced, cancelled or expired; the trigger was not asked",
    NullReason.BELOW_THRESHOLD: "the best score lay below the threshold",
    NullReason.UNSURE: "the trigger abstained",
    NullReason.UNKNOWN_FIELD: "the expression names a field the event does not have",
}


def duration(us: float) -> str:
    """Return microseconds as `85 µs`, `1.2 ms`, `2.41 s` or `44 min 20 s`."""
    if us >= 120e6:
        return "{} min {} s".format(*divmod(round(us / 1e6), 60))
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.0f} µs"


def gap(score: float, threshold: float) -> str:
    """Return how far a score lies from a threshold, with as many digits as it takes not to read 0."""
    size = abs(score - threshold)
    return f"{size:.2f}" if size >= 0.01 or size == 0 else f"{size:.1g}"


def number(value: float) -> str:
    """Return a score or threshold without trailing zeros; one that four digits cannot tell from 0 says so."""
    if 0 < abs(value) < 0.0001:
        return "less than 0.0001"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def moved(effects: pd.DataFrame) -> str:
    """Return which features lowered and raised the score most.

    Parameters
    ----------
    effects : columns `feature`, `value`, `effect` (log-odds).
    """
    ordered = effects.sort_values("effect")
    parts = [
        f"{word} most by {', '.join(_effect(row) for row in rows.to_dict('records'))}"
        for word, rows in (
            ("Lowered", ordered[ordered["effect"] <= -LEAST_EFFECT].head(3)),
            ("raised", ordered[ordered["effect"] >= LEAST_EFFECT].iloc[::-1].head(3)),
        )
        if len(rows)
    ]
    sentence = "; ".join(parts) or "No single feature moved the score much"
    return sentence[0].upper() + sentence[1:] + "."


def _effect(row: Mapping[Any, Any]) -> str:
    return f"{row['feature'].replace('_', ' ')} = {row['value']:.2g} ({row['effect']:+.1f})"


def compared(score: float | None, threshold: float | None) -> str | None:
    """Return a score beside its threshold as `0.2961 ≥ 0.2`; None where none was given."""
    if score is None:
        return None
    if threshold is None:
        return number(score)
    return f"{number(score)} {'≥' if score >= threshold else '<'} {number(threshold)}"


def verdict(trace: Trace) -> str:
    """Return the outcome of one execution in one sentence."""
    if trace.fired or trace.predicted_action is not None:
        return f"{_acted(trace)}: {_why_it_fired(trace)}."
    return f"{'Silent, correctly' if trace.correct else 'Silent, and should have acted'}: {why_silent(trace)}."


def _acted(trace: Trace) -> str:
    return {
        ErrorKind.NONE: "Fired, correctly",
        ErrorKind.FALSE: "Fired, and should have stayed silent",
        ErrorKind.WRONG_RECORD: "Fired, wrong record",
        ErrorKind.WRONG_PAYLOAD: "Fired, wrong payload",
        ErrorKind.MISSED: "Acted, and missed what was due",
    }[trace.error_kind]


def _why_it_fired(trace: Trace) -> str:
    if trace.arm is ArmName.C2:
        return "this arm exposes every active record, whatever the event says"
    if trace.score is None or trace.threshold is None:
        return "the record was exposed without a score"
    asked = "the similarity of event and payload" if trace.arm is ArmName.C1 else "the trigger"
    return f"{asked} scored {_beside(trace.score, trace.threshold)}"


def _beside(score: float, threshold: float) -> str:
    if score == threshold:
        return f"{number(score)}, exactly the threshold"
    side = "above" if score > threshold else "below"
    if f"{gap(score, threshold)}" == f"{threshold:.2f}":  # a score near 0: the distance would only repeat the threshold
        return f"{number(score)}, {side} the threshold {number(threshold)}"
    return f"{number(score)}, {gap(score, threshold)} {side} the threshold {number(threshold)}"


def why_silent(trace: Trace) -> str:
    """Return why nothing fired, in words; never blames the trigger where it was not asked."""
    if trace.arm is ArmName.C0:
        return "this arm has no memory; it is the baseline"
    if trace.null_reason is NullReason.LIFECYCLE:
        return "the lifecycle decided; the trigger was not asked"
    if trace.null_reason is NullReason.BELOW_THRESHOLD and trace.score is not None and trace.threshold is not None:
        asked = "the similarity of event and payload" if trace.arm is ArmName.C1 else "the trigger"
        return f"{asked} scored {_beside(trace.score, trace.threshold)}"
    return NULL_REASONS[trace.null_reason] if trace.null_reason else "the trace does not say why"


def outcome(trace: Trace) -> str:
    """Return the outcome as icon and word, in the words of the trace view, for tables."""
    if trace.correct:
        return "✓ right action" if trace.expected_trigger else "✓ right silence"
    return {
        ErrorKind.NONE: "✕ wrong",
        ErrorKind.MISSED: "✕ missed",
        ErrorKind.FALSE: "✕ false action",
        ErrorKind.WRONG_RECORD: "✕ wrong record",
        ErrorKind.WRONG_PAYLOAD: "✕ wrong payload",
    }[trace.error_kind]


def belongs_to(trace: Trace) -> str:
    """Return which episode or case an execution belongs to, in words."""
    group = (trace.family or trace.stratum or "no family").replace("_", " ")
    seed = f", seed {trace.seed}" if trace.seed is not None else ""
    return f"{group}, {trace.delay} distractors · episode {trace.episode_id}{seed}"


def selection_words(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a filter selects of one class and run: how many executions, and what came of them."""
    counted = f"{row['executions']:,} execution{'' if row['executions'] == 1 else 's'}"
    other = row["executions"] - row["correct"] - row["missed"] - row["false_fired"]
    came_of = (
        f"of {row['episodes']:,} episodes: {row['correct']:,} right, {row['missed']:,} missed, "
        f"{row['false_fired']:,} fired where silence was right"
        + (f", {other:,} fired on the wrong record or payload" if other else "")
    )
    return counted, f"{came_of} · class {row['evidence_class']}, {row['origin']}, run {row['run_id']}"


def ago(instant: datetime, now: datetime) -> str:
    """Return a past or future instant in words, like `3 h ago` or `in 2 d`."""
    seconds = (now - instant).total_seconds()
    size = abs(seconds)
    for unit_seconds, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if size >= unit_seconds:
            text = f"{size // unit_seconds:.0f} {unit}"
            break
    else:
        text = f"{size:.0f} s"
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def share_text(observed: float | None, low: float | None, high: float | None) -> str:
    """Return a value with its interval, like `0.912 [0.880, 0.936]`; undefined is said, never 0."""
    if observed is None:
        return "undefined"
    return f"{observed:.3f}" if low is None or high is None else f"{observed:.3f} [{low:.3f}, {high:.3f}]"


def claim_evidence(claim: Claim, criteria: Sequence[CriterionRow]) -> str:
    """Return what a claim rests on: its class, its criteria with value, interval and n."""
    if claim.run_id is None:
        return f"class {claim.evidence_class}, no run" if claim.evidence_class else "no run could carry it"
    chosen = [c for c in criteria if c.metric in claim.metrics]
    if not chosen:
        return f"{claim.evidence_class}, counted from stored rows"
    if len(chosen) == 1:
        c = chosen[0]
        return f"{claim.evidence_class} · {share_text(c.observed, c.ci_low, c.ci_high)} · n = {c.n:,}"
    met = sum(c.decision is Decided.MET for c in chosen)
    return f"{claim.evidence_class} · {met} of {len(chosen)} criteria met · n up to {max(c.n for c in chosen):,}"


def run_words(run: Manifest) -> str:
    """Return a run in one line: how much of it is stored, of which class, with what it was run."""
    return (
        f"Run {run.run_id}: {run.stored:,} of {run.planned:,} executions · class {run.evidence_class}, {run.origin} · "
        f"{run.backbone} on {run.device}"
    )

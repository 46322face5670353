"""A case: operations on records, then one event, and what should happen (naturalistic challenge and users' sets)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import StrictBool, model_validator

from core.errors import quoted
from core.records.base import EventText, Instant, Name, Noun, Text
from core.records.event import EventLine


class OperationKind(StrEnum):
    """What a line of a case does."""

    WRITE = "write"
    """Stores a record."""
    REPLACE = "replace"
    """Stores a record in the place of another."""
    CANCEL = "cancel"
    """Withdraws a record."""
    DISTRACTOR = "distractor"
    """An event that should fire nothing; it goes through lifecycle rules and trigger like any other."""


class Stratum(StrEnum):
    """The eight semantic groups of the naturalistic challenge (paper section 4.3)."""

    DIRECT_POSITIVE = "direct_positive"
    """The event satisfies the condition in similar words."""
    INDIRECT_POSITIVE = "indirect_positive"
    """Satisfied by paraphrase or a short implication only."""
    COMPETING_RECORD_POSITIVE = "competing_record_positive"
    """Several related records are active; exactly one is satisfied."""
    REPLACEMENT_POSITIVE = "replacement_positive"
    """The event satisfies the record that replaced another."""
    NEAR_MISS_NEGATIVE = "near_miss_negative"
    """Close, but not satisfied."""
    HEDGED_FUTURE_NEGATIVE = "hedged_future_negative"
    """Possible, planned, denied or asked about; it has not happened."""
    CANCELLATION_NEGATIVE = "cancellation_negative"
    """The record was cancelled before the event."""
    EXPIRY_NEGATIVE = "expiry_negative"
    """The record had expired before the event."""


_NEEDED = {
    OperationKind.WRITE: ("record", "condition", "payload"),
    OperationKind.REPLACE: ("record", "supersedes", "condition", "payload"),
    OperationKind.CANCEL: ("record",),
    OperationKind.DISTRACTOR: ("text",),
}
_FIELDS = ("record", "supersedes", "condition", "payload", "expires_at", "text")
_WRITES = (OperationKind.WRITE, OperationKind.REPLACE)


class Operation(Noun):
    """One line of a case's history."""

    op: OperationKind
    """What it does."""
    record: Name | None = None
    """The record it writes, or cancels."""
    supersedes: Name | None = None
    """The record a replace ends."""
    condition: Text | None = None
    """The condition of a write or replace."""
    payload: Text | None = None
    """The payload of a write or replace."""
    expires_at: Instant | None = None
    """When a written record expires."""
    text: EventText | None = None
    """The text of a distractor."""

    @model_validator(mode="after")
    def _has_its_fields_and_no_others(self) -> Operation:
        given = {name for name in _FIELDS if getattr(self, name) is not None}
        needed = _NEEDED[self.op]
        if missing := [name for name in needed if name not in given]:
            raise ValueError(f"a {self.op} needs {', '.join(missing)}")
        taken = {*needed, "expires_at"} if self.op in _WRITES else set(needed)
        if more := [name for name in _FIELDS if name in given - taken]:
            raise ValueError(f"a {self.op} takes no {', '.join(more)}")
        return self


class Case(Noun):
    """One independent case; n counts these."""

    case_id: Name
    """Unique in its set."""
    source: Name
    """The writing packet it came from (the artifacts' "author")."""
    stratum: Stratum | None = None
    """Its semantic group; None in users' sets that have none."""
    operations: tuple[Operation, ...]
    """The history, in order."""
    event: EventLine
    """What arrives at the end."""
    trigger: StrictBool
    """Whether any record should fire on the event."""
    expected_record: Name | None = None
    """The record that should fire; None on negatives."""
    expected_payload: str | None = None
    """Its payload; None on negatives."""
    twin_condition: Text | None = None
    """A minimally changed condition under which the same event has the opposite answer."""
    why: str | None = None
    """The writer's reason."""

    @model_validator(mode="after")
    def _history_is_consistent(self) -> Case:
        open_records: dict[str, Operation] = {}
        seen: set[str] = set()
        for n, op in enumerate(self.operations, 1):
            if op.op in _WRITES:
                assert op.record is not None
                if op.record in seen:
                    raise ValueError(f"operation {n} writes record {quoted(op.record)} a second time")
                if op.op is OperationKind.REPLACE:
                    assert op.supersedes is not None
                    if open_records.pop(op.supersedes, None) is None:
                        raise ValueError(f"operation {n} replaces {quoted(op.supersedes)}, which is not open")
                seen.add(op.record)
                open_records[op.record] = op
            elif op.op is OperationKind.CANCEL:
                assert op.record is not None
                if open_records.pop(op.record, None) is None:
                    raise ValueError(f"operation {n} cancels {quoted(op.record)}, which is not open")
        if self.trigger:
            if self.expected_record not in open_records:
                raise ValueError(
                    f"a positive needs an expected_record that is open, not {quoted(self.expected_record)}"
                )
            written = open_records[self.expected_record]
            if written.expires_at is not None and self.event.at >= written.expires_at:
                raise ValueError(f"expected_record {quoted(self.expected_record)} has expired when the event comes")
            if self.expected_payload != written.payload:
                raise ValueError(f"expected_payload is not the payload of record {quoted(self.expected_record)}")
        if not self.trigger and (self.expected_record is not None or self.expected_payload is not None):
            raise ValueError("a negative has neither expected_record nor expected_payload")
        return self

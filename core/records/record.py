"""The stored pair: a condition, its payload, and the lifecycle state z (paper section 3.2)."""

from __future__ import annotations

from enum import StrEnum

from core.records.base import Instant, Noun, Text


class RecordState(StrEnum):
    """The lifecycle state z of a record."""

    ACTIVE = "active"
    """Judged by the trigger."""
    REPLACED = "replaced"
    """A later record took its place; never judged again."""
    CANCELLED = "cancelled"
    """Withdrawn; never judged again."""
    EXPIRED = "expired"
    """An event came at or after its `expires_at`; never judged again."""


class Condition(Noun):
    """The stored future condition c."""

    text: Text
    """What must have happened, in words."""


class Payload(Noun):
    """The stored action a."""

    text: Text
    """What is to be done when the condition is satisfied, in words."""


class Record(Noun):
    """m = (c, a, z): condition and payload kept apart, bound by the record's id."""

    record_id: str
    """Stable id, unique in its store or episode."""
    condition: Condition
    """The future condition c."""
    payload: Payload
    """The action a, never an input of the trigger."""
    state: RecordState = RecordState.ACTIVE
    """The lifecycle state z after every operation."""
    expires_at: Instant | None = None
    """From this instant on the record is expired (event.at >= expires_at); None: never."""
    supersedes: str | None = None
    """The record this one replaced."""
    intention_id: str | None = None
    """The typed obligation it belongs to, where there is one."""
    written_step: int = 0
    """Position of its write among the operations; later writes win ties."""
    ended_step: int | None = None
    """Position of the replace or cancel that ended it; None while it stands."""

    def state_at(self, step: int | None, at: Instant | None) -> RecordState | None:
        """Return the state that holds when the operation at `step` (None: after all of them) comes at instant `at`.

        None means the record was not yet written. Expiry needs an instant: without one it is not judged.
        """
        if step is not None and step < self.written_step:
            return None
        ended = self.ended_step is not None and (step is None or step >= self.ended_step)
        if ended:
            return self.state
        if self.expires_at is not None and at is not None and at >= self.expires_at:
            return RecordState.EXPIRED
        return RecordState.ACTIVE

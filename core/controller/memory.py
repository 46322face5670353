"""The controller's only view of the stored records: it notes every read, before and after the null decision.

A read after `close` is answered, so that a controller which makes one is *seen* to make it (null audit, check 3)
instead of crashing. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.controller.context import Heard
from core.records.record import Record, RecordState


class Read(NamedTuple):
    """One access to the memory."""

    what: str
    """`ids`, `condition`, `payload` or `written_step`."""
    record_id: str | None
    """The record read; None for the list of ids."""
    late: bool
    """Whether the memory had been closed before."""


class MemoryTap:
    """Read-recording view of the records."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {r.record_id: r for r in records}
        self._reads: list[Read] = []
        self._closed = False

    def active(self, event: Heard) -> tuple[str, ...]:
        """Return the ids of the records that are active when this event comes, in the order written."""
        self._note("ids", None)
        return tuple(key for key, r in self._records.items() if r.state_at(event.step, event.at) is RecordState.ACTIVE)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of every record written."""
        self._note("ids", None)
        return tuple(self._records)

    def condition(self, record_id: str) -> str:
        """Return a record's condition."""
        self._note("condition", record_id)
        return self._records[record_id].condition.text

    def payload(self, record_id: str) -> str:
        """Return a record's payload, as written."""
        self._note("payload", record_id)
        return self._records[record_id].payload.text

    def written_step(self, record_id: str) -> int:
        """Return the position of a record's write among the operations."""
        self._note("written_step", record_id)
        return self._records[record_id].written_step

    def close(self) -> None:
        """Mark the null decision: from here on every read is late."""
        self._closed = True

    @property
    def reads(self) -> tuple[Read, ...]:
        """Every read so far, in order."""
        return tuple(self._reads)

    @property
    def late_reads(self) -> tuple[Read, ...]:
        """The reads made after `close`."""
        return tuple(r for r in self._reads if r.late)

    def _note(self, what: str, record_id: str | None) -> None:
        self._reads.append(Read(what, record_id, self._closed))

"""Four controllers that cheat on the null path, each in one way, each caught by exactly its own check.

They are what makes the audit worth something: a check that no cheat can fail proves nothing. Used in tests and shown
on a trace's page; no run ever uses one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.controller.intervene import Intervention
from core.controller.memory import MemoryTap
from core.controller.null import Baseline, NullAudit, NullPath, audit, c0_baseline, walk
from core.errors import InputError
from core.records.record import Condition, Payload, Record, RecordState
from core.records.trace import Trace

if TYPE_CHECKING:
    from core.backbone.base import Backbone


class LeaksAnId(NullPath):
    """Hands on an id that it learned before the decision.

    Parameters
    ----------
    memory : still open; the last record's id is remembered.
    """

    def __init__(self, memory: MemoryTap) -> None:
        ids = memory.ids()
        self._leaked = ids[-1] if ids else "no record"

    def retrieved_id(self) -> str | None:
        """Return the remembered id."""
        return self._leaked


class ReturnsAnEmptyIntervention(NullPath):
    """Builds an intervention object with nothing in it."""

    def intervention(self) -> Intervention | None:
        """Return an empty object instead of none."""
        return Intervention(record_id="", payload="")


class ReadsMemoryLater(NullPath):
    """Reads the memory after the decision; what it reads changes nothing, the read alone is the fault.

    Parameters
    ----------
    memory : kept.
    """

    def __init__(self, memory: MemoryTap) -> None:
        self._memory = memory

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        """Read every condition, then answer as the true path does."""
        for record_id in self._memory.ids():
            self._memory.condition(record_id)
        return super().answer(prompt, backbone, fresh=fresh)


class AddsAByte(NullPath):
    """Adds one space to the prompt."""

    def prompt(self, text: str, backbone: Backbone) -> bytes:
        """Return the true prompt and one byte."""
        return super().prompt(text, backbone) + b" "


@dataclass(frozen=True)
class Demonstration:
    """One controller's walk of the null path, and what the audit says of it."""

    controller: str
    """`true controller`, or what the mutant does."""
    must_fail: str | None
    """The check that has to catch it; None for the true controller."""
    audit: NullAudit
    """The four checks."""

    @property
    def as_expected(self) -> bool:
        """Whether exactly the check that has to catch it does so."""
        return self.audit.failed == ((self.must_fail,) if self.must_fail else ())


MakeMutant = Callable[[MemoryTap], NullPath]
"""Makes a path that may hold the memory, which is still open; only tests and the demonstration make one so."""

CONTROLLERS: tuple[tuple[str, MakeMutant, str | None], ...] = (
    ("true controller", lambda memory: NullPath(), None),
    ("leaks an id", LeaksAnId, "no_retrieved_id"),
    ("returns an empty intervention object", lambda memory: ReturnsAnEmptyIntervention(), "no_intervention"),
    ("reads a memory value later", ReadsMemoryLater, "no_later_use"),
    ("adds one byte to the prompt", lambda memory: AddsAByte(), "output_equal"),
)
"""The true controller, then the four mutants, each with the check that must catch it."""


def demonstrate(trace: Trace, backbone: Backbone) -> tuple[Demonstration, ...]:
    """Walk a trace's null path again with the true controller and with every mutant.

    The mutant that adds a byte asks the backbone something it was never asked: that one answer takes its weights.

    Raises
    ------
    InputError : the trace did not take the null path.
    """
    if trace.fired:
        raise InputError(
            "The null path was not taken in this execution.",
            where=trace.trace_id,
            next_step="Open an execution that stayed silent.",
        )
    records = [
        Record.model_construct(
            record_id=view.record_id,
            condition=Condition.model_construct(text=view.condition),
            payload=Payload.model_construct(text=view.payload),
            state=RecordState(view.state),
        )
        for view in trace.records
    ]
    baseline = c0_baseline(trace.event_text, backbone)
    return tuple(
        _demonstrated(name, make, must_fail, MemoryTap(records), trace.event_text, backbone, baseline)
        for name, make, must_fail in CONTROLLERS
    )


def _demonstrated(
    name: str,
    make: MakeMutant,
    must_fail: str | None,
    memory: MemoryTap,
    text: str,
    backbone: Backbone,
    baseline: Baseline,
) -> Demonstration:
    path = make(memory)
    return Demonstration(name, must_fail, audit(walk(lambda: path, memory, text, backbone), memory, baseline))

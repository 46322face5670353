"""The exact null path, and the four checks that can catch it cheating (paper sections 3.2 and 3.3).

Promise: `NullPath` is given the event's text and the backbone, no record, no id, no tap; it builds its own prompt.
The baseline it is compared with comes from `c0_baseline`, the very call that arm C0 answers by, made independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.controller.intervene import Intervention
from core.controller.memory import MemoryTap

if TYPE_CHECKING:
    from core.backbone.base import Backbone


@dataclass(frozen=True)
class Baseline:
    """What arm C0 answers to the same event."""

    prompt: bytes
    """The exact prompt bytes."""
    output: str
    """f_theta(x_t)."""


def c0_baseline(text: str, backbone: Backbone) -> Baseline:
    """Return the frozen backbone's answer to the event alone."""
    prompt = backbone.prompt(text)
    return Baseline(prompt, backbone.generate(prompt))


@dataclass(frozen=True)
class NullOutcome:
    """What the null path handed on."""

    retrieved_id: str | None
    """Must be None."""
    intervention: Intervention | None
    """Must be None."""
    prompt: bytes
    """The prompt bytes it built itself."""
    output: str
    """What the backbone answered to them."""


class NullPath:
    """The path taken when nothing fired. Its four seams are what the mutants of `mutants.py` override."""

    @classmethod
    def beside(cls, memory: MemoryTap) -> NullPath:
        """Return the path for one execution. The true one keeps nothing of the memory; called before it closes."""
        return cls()

    def retrieved_id(self) -> str | None:
        """Return the id handed on: none."""
        return None

    def intervention(self) -> Intervention | None:
        """Return the intervention object: none."""
        return None

    def prompt(self, text: str, backbone: Backbone) -> bytes:
        """Return the prompt, built from the event's text only."""
        return backbone.prompt(text)

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        """Return what the backbone says to this prompt."""
        return backbone.generate(prompt, fresh=fresh)

    def run(self, text: str, backbone: Backbone, *, fresh: bool = False) -> NullOutcome:
        """Walk the path once.

        Parameters
        ----------
        fresh : generate past the cache.
        """
        prompt = self.prompt(text, backbone)
        return NullOutcome(self.retrieved_id(), self.intervention(), prompt, self.answer(prompt, backbone, fresh=fresh))


def walk(
    null_path: type[NullPath], memory: MemoryTap, text: str, backbone: Backbone, *, fresh: bool = False
) -> NullOutcome:
    """Close the memory at the null decision and walk the path once."""
    path = null_path.beside(memory)
    memory.close()
    return path.run(text, backbone, fresh=fresh)


@dataclass(frozen=True)
class NullAudit:
    """The four checks; every one must hold."""

    no_retrieved_id: bool
    """1: no retrieved id was handed on."""
    no_intervention: bool
    """2: no intervention object exists, not even an empty one."""
    no_later_use: bool
    """3: the memory was not read after the null decision."""
    output_equal: bool
    """4: prompt bytes and output bytes equal the paired C0 baseline's."""

    @property
    def passed(self) -> bool:
        """Whether all four hold."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that do not hold."""
        return tuple(name for name, held in vars(self).items() if not held)


def audit(outcome: NullOutcome, memory: MemoryTap, baseline: Baseline) -> NullAudit:
    """Check one walk of the null path against its paired baseline."""
    return NullAudit(
        no_retrieved_id=outcome.retrieved_id is None,
        no_intervention=outcome.intervention is None,
        no_later_use=not memory.late_reads,
        output_equal=(outcome.prompt, outcome.output) == (baseline.prompt, baseline.output),
    )

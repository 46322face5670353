"""The exact null path, and the four checks that can catch it cheating (paper sections 3.2 and 3.3).

Promise: `NullPath` is given the event's text and the backbone, no record, no id, no tap; it builds its own prompt.
What it asks the backbone is noted on the way, so that the audit judges what was really asked and answered, not what
the path says of it. The baseline it is compared with comes from `c0_baseline`, the very call that arm C0 answers by,
taken before the path is walked: nothing the path does can move it. What the path hands on is read once, into values of
the built-in types: what is compared is what is stored, and no object of the path's has a say in the comparison.
Not promised: against code that reaches into private attributes or the interpreter no check inside the process can help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
class Asked:
    """A question the path asked the backbone, with its answer."""

    prompt: bytes
    """The exact prompt bytes."""
    output: str
    """What the backbone answered."""
    fresh: bool
    """Whether it was to generate past the cache."""


class WatchedBackbone:
    """A backbone that notes every question and its answer, and lets nothing else of the real one be reached.

    Parameters
    ----------
    backbone : the one asked.
    asked : each question and answer is appended here.
    """

    def __init__(self, backbone: Backbone, asked: list[Asked]) -> None:
        self._backbone, self._asked = backbone, asked

    @property
    def name(self) -> str:
        """The real one's name."""
        return self._backbone.name

    @property
    def device(self) -> str:
        """The real one's device."""
        return self._backbone.device

    @property
    def weights_sha256(self) -> str:
        """The real one's locked hash."""
        return self._backbone.weights_sha256

    def hash_weights(self) -> str:
        """Return the hash over all weights in memory."""
        return self._backbone.hash_weights()

    def prompt(self, event_text: str, memory: Sequence[str] = ()) -> bytes:
        """Return the prompt; building one asks nothing."""
        return self._backbone.prompt(event_text, memory)

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        """Return the answer, noted with its question."""
        prompt, fresh = bytes.__getitem__(prompt, slice(None)), fresh is True
        output = self._backbone.generate(prompt, fresh=fresh)
        self._asked.append(Asked(prompt, output, fresh))
        return output


@dataclass(frozen=True)
class NullOutcome:
    """What the null path handed on."""

    retrieved_id: str | None
    """Must be None."""
    intervention: Intervention | None
    """Must be None."""
    prompt: bytes
    """The prompt bytes it says it built."""
    output: str
    """What it says the backbone answered to them."""


class NullPath:
    """The path taken when nothing fired. Its four seams are what the mutants of `mutants.py` override."""

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


MakePath = Callable[[], NullPath]


@dataclass(frozen=True)
class Walk:
    """One walk of the null path, as it was seen from outside."""

    outcome: NullOutcome
    """What the path handed on, every value of its built-in type."""
    plain: bool
    """Whether the path handed it on so, not as objects that can answer otherwise each time they are read."""
    asked: tuple[Asked, ...]
    """Every question the backbone was asked on the way, with its answer."""
    fresh: bool
    """Whether the path was told to generate past the cache."""


def walk(null_path: MakePath, memory: MemoryTap, text: str, backbone: Backbone, *, fresh: bool = False) -> Walk:
    """Close the memory at the null decision, and only then make the path and walk it once."""
    memory.close()
    asked: list[Asked] = []
    handed_on = null_path().run(text, WatchedBackbone(backbone, asked), fresh=fresh)
    outcome, plain = _read_once(handed_on)
    return Walk(outcome, plain, tuple(asked), fresh)


def _read_once(handed_on: NullOutcome) -> tuple[NullOutcome, bool]:
    """Return what was handed on as built-in values, each read once, and whether it was nothing else before."""
    retrieved_id, intervention = handed_on.retrieved_id, handed_on.intervention
    prompt, output = handed_on.prompt, handed_on.output
    plain = type(handed_on) is NullOutcome and type(prompt) is bytes and type(output) is str
    return NullOutcome(
        retrieved_id=None if retrieved_id is None else _text(retrieved_id),
        intervention=None
        if intervention is None
        else Intervention(
            _text(getattr(intervention, "record_id", None)), _text(getattr(intervention, "payload", None))
        ),
        prompt=bytes.__getitem__(prompt, slice(None)) if isinstance(prompt, bytes) else b"",
        output=_text(output),
    ), plain


def _text(value: object) -> str:
    """Return the text itself, not through a method of its class; what is no text is empty."""
    return str.__getitem__(value, slice(None)) if isinstance(value, str) else ""


@dataclass(frozen=True)
class NullAudit:
    """The four checks; every one must hold."""

    no_retrieved_id: bool
    """1: no retrieved id was handed on."""
    no_intervention: bool
    """2: no intervention object exists, not even an empty one."""
    no_later_use: bool
    """3: the memory was not read after the null decision, and no payload was read at all."""
    output_equal: bool
    """4: the backbone was asked once, past the cache where it had to be; prompt and output bytes, asked and handed on,
    equal the paired C0 baseline's, and nothing but plain text was handed on."""

    @property
    def passed(self) -> bool:
        """Whether all four hold."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that do not hold."""
        return tuple(name for name, held in vars(self).items() if not held)


def audit(walked: Walk, memory: MemoryTap, baseline: Baseline) -> NullAudit:
    """Check one walk of C3's null path against its paired baseline, which was taken before the walk.

    A payload is nothing the trigger reads: one that was read before the null decision was read to be used after it.
    """
    outcome = walked.outcome
    handed_on = Baseline(outcome.prompt, outcome.output)
    as_told = all(a.fresh for a in walked.asked) or not walked.fresh
    asked = [Baseline(a.prompt, a.output) for a in walked.asked]
    return NullAudit(
        no_retrieved_id=outcome.retrieved_id is None,
        no_intervention=outcome.intervention is None,
        no_later_use=not memory.late_reads and not any(read.what == "payload" for read in memory.reads),
        output_equal=asked == [baseline] and handed_on == baseline and walked.plain and as_told,
    )

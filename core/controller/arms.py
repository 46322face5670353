"""The five arms: the paper's causal conditions (section 3.5), each a way to judge, to bind a payload, and to silence.

| arm | judges a record by | stores as score, threshold, features | binds | says itself |
|---|---|---|---|---|
| C0 | nothing: it has no memory | NULL, NULL, NULL | nothing | model_action = the baseline |
| C1 | likeness of event and *payload*, not the condition | the likeness, `c1_threshold`, NULL | own payload | NULL |
| C2 | nothing: every active record acts | NULL, NULL, NULL; each decision *fired* | own payload | NULL |
| C3 | the trigger on condition and event | the trigger's | own payload | model_action when fired |
| C4 | the trigger, as C3 | the trigger's, equal to C3's | the permuted payload | NULL |

C1's score is a likeness and no trigger's: its `trigger` column reads `payload_similarity`, so that it is never pooled
with one. C2 asks nothing, so its `trigger` is NULL; the latest write is acted on, the other records are losers.
Refused: an arm without what it needs, a C4 record the permutation does not name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.controller.memory import MemoryTap
from core.errors import InputError
from core.records.decision import Decision
from core.records.trace import ArmName
from core.triggers.learned.features import encode
from core.triggers.lexical import encoded_similarity

if TYPE_CHECKING:
    from core.triggers.base import Trigger

REACTIVE = "payload_similarity"
"""What the `trigger` column of C1 reads."""
EXPOSED = "always_exposed"
"""The name C2's decisions carry; its `trigger` column is NULL, for no trigger is asked."""


def record_key(episode_id: str, record_id: str) -> str:
    """Return the key of a record in a permutation: record ids are unique within their episode or case only."""
    return f"{episode_id}/{record_id}"


@dataclass(frozen=True)
class Arm:
    """One causal condition with what it needs."""

    name: ArmName
    """Which."""
    trigger: Trigger | None = None
    """Judges condition and event in C3 and C4."""
    c1_threshold: float | None = None
    """C1 acts at this likeness or above; set on the validation pairs."""
    permutation: Mapping[str, str] | None = None
    """C4: record key -> payload text."""

    def __post_init__(self) -> None:
        needs = {
            ArmName.C1: ("c1_threshold",),
            ArmName.C3: ("trigger",),
            ArmName.C4: ("trigger", "permutation"),
        }.get(self.name, ())
        if missing := [need for need in needs if getattr(self, need) is None]:
            raise InputError(f"Arm {self.name} needs {' and '.join(missing)}.")

    @property
    def has_memory(self) -> bool:
        """Whether records are written and can be read in this arm."""
        return self.name is not ArmName.C0

    @property
    def judged_by(self) -> str | None:
        """What the `trigger` column reads; None where nothing is asked."""
        if self.name is ArmName.C1:
            return REACTIVE
        return self.trigger.name if self.trigger is not None and self.name in (ArmName.C3, ArmName.C4) else None

    @property
    def threshold(self) -> float | None:
        """What the `threshold` column reads."""
        if self.name is ArmName.C1:
            return self.c1_threshold
        return self.trigger.threshold if self.trigger is not None and self.judged_by is not None else None

    def judge(self, memory: MemoryTap, record_id: str, event: str) -> Decision:
        """Decide one event against one active record, features and time included."""
        if self.name in (ArmName.C3, ArmName.C4):
            assert self.trigger is not None
            j = self.trigger.judge(memory.condition(record_id), event)
            return Decision(
                trigger=self.trigger.name,
                record_id=record_id,
                score=j.score,
                threshold=self.trigger.threshold,
                fired=j.fired,
                features=j.features,
                elapsed_us=j.elapsed_us,
            )
        return self.judge_many(memory, [(record_id, event)])[0]

    def judge_many(self, memory: MemoryTap, pairs: Sequence[tuple[str, str]]) -> list[Decision]:
        """Decide many (record id, event text) pairs at once, without features: the distractors' way.

        Returns
        -------
        One decision a pair, in order; scores and verdicts are those `judge` gives.
        """
        if self.name is ArmName.C0:
            raise InputError("Arm C0 has no memory to judge.")
        if self.name is ArmName.C2:
            return [Decision(trigger=EXPOSED, record_id=r, score=None, threshold=None, fired=True) for r, _ in pairs]
        if not pairs:
            return []
        name, threshold = self.judged_by, self.threshold
        assert name is not None
        assert threshold is not None
        if self.name is ArmName.C1:
            payloads = [memory.payload(r) for r, _ in pairs]
            texts = {text: encode(text) for text in {*payloads, *(event for _, event in pairs)}}
            scores = [
                encoded_similarity(texts[event], texts[own]) for (_, event), own in zip(pairs, payloads, strict=True)
            ]
        else:
            assert self.trigger is not None
            found = self.trigger.score_pairs([memory.condition(r) for r, _ in pairs], [e for _, e in pairs])  # (n,)
            scores = [float(s) for s in found]
        return [
            Decision(trigger=name, record_id=r, score=s, threshold=threshold, fired=s >= threshold)
            for (r, _), s in zip(pairs, scores, strict=True)
        ]

    def bound_payload(self, memory: MemoryTap, episode_id: str, record_id: str) -> str:
        """Return the payload this arm binds to a record: its own, but under C4 the one the permutation gives it.

        Raises
        ------
        InputError : the permutation does not name the record.
        """
        if self.name is not ArmName.C4:
            return memory.payload(record_id)
        assert self.permutation is not None
        key = record_key(episode_id, record_id)
        if key not in self.permutation:
            raise InputError(f"The permutation of arm C4 binds no payload to record {key}.")
        return self.permutation[key]


def arms(trigger: Trigger, c1_threshold: float, permutation: Mapping[str, str]) -> dict[ArmName, Arm]:
    """Return the five arms, every one with exactly what it may use."""
    return {
        ArmName.C0: Arm(ArmName.C0),
        ArmName.C1: Arm(ArmName.C1, c1_threshold=c1_threshold),
        ArmName.C2: Arm(ArmName.C2),
        ArmName.C3: Arm(ArmName.C3, trigger=trigger),
        ArmName.C4: Arm(ArmName.C4, trigger=trigger, permutation=permutation),
    }

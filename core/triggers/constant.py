"""The two rows every table of triggers has: never fire, and fire on every active record.

They read no text: whatever they reach, lifecycle rules alone reached it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from core.errors import InputError
from core.triggers.base import Judgement, Scores


@dataclass(frozen=True)
class ConstantTrigger:
    """Gives every pair the same score."""

    name: str
    """Its name."""
    score: float
    """The score of every pair."""
    threshold: float = 0.5
    """Between the two constants."""
    weights_sha256: str = ""
    """Nothing is fitted."""
    device: str = "cpu"
    """Nothing is computed."""

    def judge(self, condition: str, event: str) -> Judgement:
        """Judge one pair."""
        start = perf_counter()
        score = float(self.score_pairs([condition], [event])[0])
        return Judgement(score, score >= self.threshold, None, (perf_counter() - start) * 1e6)

    def score_pairs(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        """Score aligned pairs; returns (n,).

        Raises
        ------
        InputError : the two lists differ in length.
        """
        check_aligned(conditions, events)
        return np.full(len(conditions), self.score)

    def score_grid(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        """Score every condition against every event; returns (conditions, events)."""
        return np.full((len(conditions), len(events)), self.score)


def check_aligned(conditions: Sequence[str], events: Sequence[str]) -> None:
    """Refuse lists of pairs that do not match in length.

    Raises
    ------
    InputError : the two lists differ in length.
    """
    if len(conditions) != len(events):
        raise InputError(
            f"{len(conditions)} conditions do not pair with {len(events)} events.",
            next_step="Give as many events as conditions, or ask for the grid.",
        )


@dataclass(frozen=True)
class NeverTrigger(ConstantTrigger):
    """Fires on nothing."""

    name: str = "never"
    """Its name."""
    score: float = 0.0
    """The score of every pair."""


@dataclass(frozen=True)
class AlwaysTrigger(ConstantTrigger):
    """Fires on every active record."""

    name: str = "always"
    """Its name."""
    score: float = 1.0
    """The score of every pair."""

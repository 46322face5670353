"""What every trigger promises: one (condition, event) pair or a million, one code, the same floats bit for bit.

A trigger takes any text and never refuses one: whether a text may be stored is decided where it enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """A trigger's answer on one pair."""

    score: float
    """In [0, 1]."""
    fired: bool
    """score >= threshold."""
    features: tuple[float, ...] | None
    """The features the score was computed from, in order; None where the trigger has none."""
    elapsed_us: float
    """How long the judgement took, in microseconds."""


class Trigger(Protocol):
    """g(c, x): scores whether an event satisfies a condition (paper section 3.2)."""

    @property
    def name(self) -> str:
        """The name it is looked up by."""
        ...

    @property
    def threshold(self) -> float:
        """The locked threshold; fired iff score >= threshold."""
        ...

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights file; empty where there is nothing fitted."""
        ...

    @property
    def device(self) -> str:
        """Where it computes."""
        ...

    def judge(self, condition: str, event: str) -> Judgement:
        """Judge one pair."""
        ...

    def score_pairs(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        """Score aligned pairs; returns (n,) float64."""
        ...

    def score_grid(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        """Score every condition against every event; returns (conditions, events) float64."""
        ...

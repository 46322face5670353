"""What a trigger answers, and what the lifecycle makes of it."""

from __future__ import annotations

from enum import StrEnum

from core.records.base import Noun


class NullReason(StrEnum):
    """Why nothing fired."""

    NO_ACTIVE_RECORD = "no_active_record"
    """Nothing was written."""
    LIFECYCLE = "lifecycle"
    """Every record is replaced, cancelled or expired; the trigger was not asked."""
    BELOW_THRESHOLD = "below_threshold"
    """The best active record's score lies below the threshold."""
    UNSURE = "unsure"
    """The trigger abstained."""
    UNKNOWN_FIELD = "unknown_field"
    """An expression met a field the event does not have."""


class Decision(Noun):
    """One trigger's verdict on one (condition, event) pair."""

    trigger: str
    """The trigger's name."""
    record_id: str
    """The record whose condition was judged."""
    score: float | None
    """In [0, 1] for learned triggers; None: the trigger gave none."""
    threshold: float | None
    """The locked threshold; fired iff score >= threshold."""
    fired: bool
    """Whether the condition is judged satisfied."""
    features: tuple[float, ...] | None = None
    """The 16 named features, in order, where the trigger has them."""
    why: str = ""
    """The reason in words, for triggers that can give one."""
    elapsed_us: float | None = None
    """How long the judgement took, in microseconds."""

    @property
    def margin(self) -> float:
        """Score minus threshold; -inf where either is undefined."""
        if self.score is None or self.threshold is None:
            return float("-inf")
        return self.score - self.threshold


class ScoreLine(Noun):
    """One line of `score`: the case's answer, its score being the best active record's."""

    case_id: str
    """The case."""
    trigger: str
    """The trigger's name."""
    score: float | None
    """The best active record's score; null when no record is active."""
    threshold: float | None
    """The locked threshold."""
    fired: bool
    """Whether any record fired."""
    record: str | None
    """The operation's record id; null when nothing fired."""
    payload: str | None
    """The payload of the record that fired."""
    null_reason: NullReason | None
    """Why nothing fired; null when something did."""

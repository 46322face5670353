"""Which record is acted on when several fire: the highest margin over the threshold, then the latest write.

Pure. A decision without a score (the always-on arm asks no trigger) has the lowest margin, so the latest write wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.records.decision import Decision, NullReason


@dataclass(frozen=True)
class Resolution:
    """What the decisions on one event come to."""

    best: Decision | None
    """The best decision, fired or not; None where no record is active."""
    winner: Decision | None
    """The decision acted on; None: nothing fired."""
    losers: tuple[str, ...]
    """The records that fired too, best first."""


def resolve(decisions: Sequence[Decision], written_step: Mapping[str, int]) -> Resolution:
    """Choose among the decisions on one event.

    Parameters
    ----------
    decisions : one a record that is active when the event comes.
    written_step : position of each record's write; no two are equal.

    Source
    ------
    Paper section 3.2 (the record i* that is actionable).
    """
    ranked = sorted(decisions, key=lambda d: (d.margin, written_step[d.record_id]), reverse=True)
    fired = [d for d in ranked if d.fired]
    return Resolution(
        best=fired[0] if fired else (ranked[0] if ranked else None),
        winner=fired[0] if fired else None,
        losers=tuple(d.record_id for d in fired[1:]),
    )


def null_reason(any_written: bool, any_active: bool) -> NullReason:
    """Return why nothing fired: nothing was written, the lifecycle left nothing active, or all scored too low."""
    if not any_written:
        return NullReason.NO_ACTIVE_RECORD
    return NullReason.BELOW_THRESHOLD if any_active else NullReason.LIFECYCLE

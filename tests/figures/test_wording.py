"""The sentence of an execution says what the trace holds, and never blames a trigger that was not asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from core.figures.tables import audit_table, decision_table
from core.figures.wording import ago, compared, duration, gap, moved, number, share_text, verdict
from core.records.decision import NullReason
from core.records.trace import ArmName, ErrorKind, Trace
from tests.pages.made import in_arm, trace


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (trace(), "Silent, correctly: the trigger scored 0.03, 0.02 below the threshold 0.05."),
        (trace(score=0.0001), "Silent, correctly: the trigger scored 0.0001, below the threshold 0.05."),
        (trace(score=0.0499), "Silent, correctly: the trigger scored 0.0499, 0.0001 below the threshold 0.05."),
        (trace(fired=True), "Fired, correctly: the trigger scored 0.91, 0.86 above the threshold 0.05."),
        (trace(fired=True, score=0.05), "Fired, correctly: the trigger scored 0.05, exactly the threshold."),
        (
            trace(score=None, null_reason=NullReason.LIFECYCLE),
            "Silent, correctly: the lifecycle decided; the trigger was not asked.",
        ),
        (
            trace(expected_trigger=True, correct=False, error_kind=ErrorKind.MISSED),
            "Silent, and should have acted: the trigger scored 0.03, 0.02 below the threshold 0.05.",
        ),
        (
            trace(fired=True, correct=False, error_kind=ErrorKind.FALSE),
            "Fired, and should have stayed silent: the trigger scored 0.91, 0.86 above the threshold 0.05.",
        ),
        (
            trace(fired=True, arm=ArmName.C4, correct=False, error_kind=ErrorKind.WRONG_PAYLOAD),
            "Fired, wrong payload: the trigger scored 0.91, 0.86 above the threshold 0.05.",
        ),
        (
            trace(arm=ArmName.C1, trigger="payload_similarity"),
            "Silent, correctly: the similarity of event and payload scored 0.03, 0.02 below the threshold 0.05.",
        ),
        (in_arm(ArmName.C0, fired=False), "Silent, correctly: this arm has no memory; it is the baseline."),
        (
            in_arm(ArmName.C2, fired=True),
            "Fired, correctly: this arm exposes every active record, whatever the event says.",
        ),
        (
            in_arm(ArmName.C2, fired=False),
            "Fired, and should have stayed silent: this arm exposes every active record, whatever the event says.",
        ),
    ],
)
def test_the_outcome_in_one_sentence(made: Trace, sentence: str) -> None:
    assert verdict(made) == sentence


def test_lengths_of_time_and_numbers_keep_three_digits() -> None:
    assert [duration(us) for us in (0.4, 85, 1200, 2_410_000)] == ["0 µs", "85 µs", "1.2 ms", "2.41 s"]
    assert [duration(us) for us in (119_400_000, 120_000_000, 2_660_100_000)] == ["119 s", "2 min 0 s", "44 min 20 s"]
    assert [number(x) for x in (0.05, 1.0, 0.0, 0.00001)] == ["0.05", "1", "0", "less than 0.0001"]
    assert [gap(0.5, 0.25), gap(0.0499, 0.05)] == ["0.25", "0.0001"]


def test_ages_in_words() -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    assert ago(now - timedelta(hours=3, minutes=59), now) == "3 h ago"
    assert ago(now + timedelta(days=2), now) == "in 2 d"
    assert ago(now, now) == "0 s ago"


def test_undefined_is_said() -> None:
    assert share_text(None, None, None) == "undefined"
    assert share_text(0.5, None, None) == "0.500"
    assert share_text(0.5, 0.4, 0.6) == "0.500 [0.400, 0.600]"


def test_the_audit_has_four_rows_on_a_null_trial_and_none_elsewhere() -> None:
    assert list(audit_table(trace(audit_output_equal=False, audit_no_later_use=None))["result"]) == [
        "✓ passed",
        "✓ passed",
        "— not recorded",
        "✕ failed",
    ]
    assert audit_table(trace(fired=True)).empty


def test_every_stored_decision_is_a_row() -> None:
    made = trace()
    table = decision_table(made)
    assert list(table["event"]) == ["distractor 1", "final"]
    assert list(table["event text"]) == list(made.events)


def test_what_moved_a_score_names_the_largest_effects_of_either_sign() -> None:
    effects = pd.DataFrame(
        {
            "feature": ["a_b", "c", "d", "e", "f", "g"],
            "value": [0.125, 1.0, 0.0, 0.5, 1.0, 1 / 3],
            "effect": [-4.06, -0.2, 3.3, -1.0, 0.5, -0.6],
        }
    )
    assert moved(effects) == (
        "Lowered most by a b = 0.12 (-4.1), e = 0.5 (-1.0), g = 0.33 (-0.6); raised most by d = 0 (+3.3), f = 1 (+0.5)."
    )
    assert moved(effects[effects["effect"] > 0]) == "Raised most by d = 0 (+3.3), f = 1 (+0.5)."
    assert moved(effects[effects["feature"] == "c"]) == "No single feature moved the score much."


@pytest.mark.parametrize(
    ("score", "threshold", "said"),
    [
        (None, 0.2, None),
        (0.2961, 0.2, "0.2961 ≥ 0.2"),
        (0.2, 0.2, "0.2 ≥ 0.2"),
        (0.1, 0.2, "0.1 < 0.2"),
        (1.0, None, "1"),
    ],
)
def test_a_score_is_compared_with_its_threshold(score: float | None, threshold: float | None, said: str | None) -> None:
    assert compared(score, threshold) == said

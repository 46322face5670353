"""One contract for every installed trigger: one pair or many, the same floats; any text; a decision that follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.triggers import registry
from core.triggers.base import Trigger

TRIGGERS: dict[str, Trigger] = {name: registry.get(name) for name in registry.NAMES}
every = pytest.mark.parametrize("trigger", TRIGGERS.values(), ids=TRIGGERS.keys())

WORDS = [
    "the",
    "crane",
    "permit",
    "is",
    "issued",
    "paid",
    "not",
    "will",
    "maybe",
    "confirmed",
    "wrong",
    "Dock",
    "4",
    "?",
]
TEXT = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=60)
HOSTILE = ["", " ", "\x00", "🙂" * 50, "مرحبا \u202e שלום", "e\u0301\u0300", "\ud800", "a" * 100_000, "not " * 5_000]


@every
def test_a_trigger_says_who_it_is(trigger: Trigger) -> None:
    assert trigger.name in registry.NAMES
    assert 0.0 < trigger.threshold < 1.0
    assert trigger.device == "cpu"
    assert trigger.weights_sha256 == "" or len(trigger.weights_sha256) == 64


@every
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_on_either_side_gets_a_score(trigger: Trigger, text: str) -> None:
    for condition, event in ((text, "The permit was issued."), ("the permit is issued", text), (text, text)):
        judgement = trigger.judge(condition, event)
        assert 0.0 <= judgement.score <= 1.0
        assert judgement.fired == (judgement.score >= trigger.threshold)
        assert judgement.elapsed_us >= 0.0
        assert judgement.features is None or len(judgement.features) == 16


@every
@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=6), st.lists(TEXT, min_size=1, max_size=6))
def test_one_pair_aligned_pairs_and_the_grid_give_the_same_floats(
    trigger: Trigger, conditions: list[str], events: list[str]
) -> None:
    grid = trigger.score_grid(conditions, events)
    assert grid.shape == (len(conditions), len(events))
    pairs = trigger.score_pairs([c for c in conditions for _ in events], [e for _ in conditions for e in events])
    assert np.array_equal(grid.ravel(), pairs)
    assert [[trigger.judge(c, e).score for e in events] for c in conditions] == grid.tolist()


@every
def test_no_texts_give_no_scores(trigger: Trigger) -> None:
    assert trigger.score_pairs([], []).shape == (0,)
    assert trigger.score_grid([], ["The permit was issued."]).shape == (0, 1)
    assert trigger.score_grid(["the permit is issued"], []).shape == (1, 0)


@every
def test_lists_of_different_length_are_refused(trigger: Trigger) -> None:
    with pytest.raises(InputError) as e:
        trigger.score_pairs(["a", "b"], ["c"])
    assert str(e.value) == (
        "2 conditions do not pair with 1 events. Give as many events as conditions, or ask for the grid."
    )


def corpus(n: int) -> tuple[Sequence[str], Sequence[str]]:
    pool = [
        f"the {a} permit of Dock {k} is {b}" for k in range(40) for a in ("crane", "night") for b in ("issued", "paid")
    ]
    said = [f"Confirmed: {c.replace(' is ', ' was ')}." for c in pool] + [f"Perhaps {c} soon, not now?" for c in pool]
    return [pool[k * 7 % len(pool)] for k in range(n)], [said[k * 13 % len(said)] for k in range(n)]


CONDITIONS, EVENTS = corpus(5000)
ALONE = {name: t.score_pairs(CONDITIONS[:400], EVENTS[:400]) for name, t in TRIGGERS.items()}


@every
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5000))
def test_the_size_of_a_batch_moves_no_bit(trigger: Trigger, size: int) -> None:
    got = trigger.score_pairs(CONDITIONS[:size], EVENTS[:size])
    shared = min(size, 400)
    assert np.array_equal(got[:shared], ALONE[trigger.name][:shared])
    last = trigger.judge(CONDITIONS[size - 1], EVENTS[size - 1])
    assert last.score == got[-1]


@every
def test_a_grid_longer_than_its_blocks_equals_its_pairs(trigger: Trigger) -> None:
    for conditions, events in ((CONDITIONS[:40], EVENTS[:300]), (CONDITIONS[:300], EVENTS[:40])):
        grid = trigger.score_grid(conditions, events)
        rows = [trigger.score_pairs([c] * len(events), events) for c in conditions]
        assert np.array_equal(grid, np.array(rows))


def test_never_fires_on_nothing_and_always_on_everything() -> None:
    assert not TRIGGERS["never"].judge("it rains", "It rained.").fired
    assert TRIGGERS["always"].judge("it rains", "The bus was late.").fired
    assert TRIGGERS["always"].judge("it rains", "It rained.").score == 1.0


def test_every_trigger_of_the_table_is_listed_and_usable() -> None:
    rows = registry.installed()
    assert [row.name for row in rows] == ["never", "always", "mlp"]
    assert all(row.available and row.why_not is None and row.device == "cpu" for row in rows)


def test_an_unknown_name_is_refused_with_the_table() -> None:
    with pytest.raises(InputError) as e:
        registry.get("../mlp")
    assert str(e.value) == "There is no trigger '../mlp': choose one of never, always, mlp."

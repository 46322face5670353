"""The controlled episodes: counts by hand, pairs that match, and texts that no training pair has."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from core.controller.arms import Arm
from core.controller.step import bind, hear, respond
from core.errors import InputError
from core.evaluation.episodes import (
    PERMUTATIONS,
    SEEDS,
    Episode,
    Family,
    Wording,
    draw_permutation,
    episodes,
    fixed_points,
    permutation,
)
from core.evaluation.pairs import MIX, bank, generate
from core.records.case import OperationKind
from core.records.record import RecordState
from core.records.trace import ArmName
from tests.controller.tiny import TinyBackbone, context


def pairs_of(seed: int) -> list[tuple[Episode, Episode]]:
    listed = episodes(seed)
    return list(zip(listed[::2], listed[1::2], strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mix_is_the_one_written_by_hand(seed: int) -> None:
    listed = episodes(seed)
    assert len(listed) == len({e.episode_id for e in listed}) == 240
    assert Counter((e.family.value, e.wording.value, e.delay) for e in listed) == {
        ("exact_positive", "exact", 5): 30,
        ("exact_positive", "exact", 20): 30,
        ("paraphrased_positive", "paraphrased", 5): 30,
        ("paraphrased_positive", "paraphrased", 20): 30,
        ("near_trigger", "exact", 5): 15,
        ("near_trigger", "exact", 20): 15,
        ("near_trigger", "paraphrased", 5): 15,
        ("near_trigger", "paraphrased", 20): 15,
        ("distractor_only", "exact", 5): 5,
        ("distractor_only", "exact", 20): 5,
        ("distractor_only", "paraphrased", 5): 5,
        ("distractor_only", "paraphrased", 20): 5,
        ("cancellation", "exact", 5): 5,
        ("cancellation", "exact", 20): 5,
        ("cancellation", "paraphrased", 5): 5,
        ("cancellation", "paraphrased", 20): 5,
        ("correction", "exact", 5): 5,
        ("correction", "exact", 20): 5,
        ("correction", "paraphrased", 5): 5,
        ("correction", "paraphrased", 20): 5,
    }
    assert sum(e.expected_trigger for e in listed) == 120


@pytest.mark.parametrize("seed", SEEDS)
def test_a_match_is_one_positive_and_one_negative_on_equal_record_texts(seed: int) -> None:
    assert len({e.match_id for e in episodes(seed)}) == 120
    for positive, negative in pairs_of(seed):
        assert positive.match_id == negative.match_id
        assert (positive.expected_trigger, negative.expected_trigger) == (True, False)
        texts = [
            [(r.record_id, r.condition.text, r.payload.text) for r in bind(e.operations)] for e in (positive, negative)
        ]
        assert texts[0] == texts[1]
        heard = [[h.text for h in hear(e.operations, e.event)[:-1]] for e in (positive, negative)]
        assert heard[0] == heard[1]
        assert len(heard[0]) == len(set(heard[0])) == positive.delay == negative.delay
        assert positive.event.at == negative.event.at


@pytest.mark.parametrize("seed", SEEDS)
def test_each_negative_is_what_its_family_says(seed: int) -> None:
    for positive, negative in pairs_of(seed):
        kinds = Counter(op.op for op in negative.operations)
        states = [r.state for r in bind(negative.operations)]
        same_cue = positive.event.text == negative.event.text
        if negative.family is Family.NEAR_TRIGGER:
            assert (states, same_cue) == ([RecordState.ACTIVE], False)
        elif negative.family is Family.DISTRACTOR_ONLY:
            assert (states, same_cue) == ([RecordState.ACTIVE], False)
            assert negative.event.text not in [op.text for op in negative.operations]
        elif negative.family is Family.CANCELLATION:
            assert (states, same_cue) == ([RecordState.CANCELLED], True)
            assert bind(positive.operations)[0].state is RecordState.ACTIVE
        else:
            assert negative.family is Family.CORRECTION
            assert (states, same_cue) == ([RecordState.REPLACED, RecordState.ACTIVE], False)
            assert positive.operations == negative.operations
            assert positive.expected_record == "r2"
        assert kinds[OperationKind.WRITE] == 1
        assert kinds[OperationKind.DISTRACTOR] == negative.delay


@pytest.mark.parametrize("seed", SEEDS)
def test_a_positive_expects_a_standing_record_and_its_own_payload(seed: int) -> None:
    for positive, _ in pairs_of(seed):
        (record,) = [r for r in bind(positive.operations) if r.state is RecordState.ACTIVE]
        assert (record.record_id, record.payload.text) == (positive.expected_record, positive.expected_payload)
        assert record.payload.text not in positive.event.text


def test_no_scene_is_repeated_within_a_seed_or_over_seeds() -> None:
    conditions = [bind(p.operations)[0].condition.text for seed in SEEDS for p, _ in pairs_of(seed)]
    assert len(conditions) == len(set(conditions)) == 360
    subjects = bank("evaluation").subjects
    by_seed = [{s for s in subjects for c in conditions[n : n + 120] if s in c} for n in (0, 120, 240)]
    assert all(not (a & b) for a, b in (*pairwise(by_seed), (by_seed[0], by_seed[2])))
    # The opening aside: the same happening under another opening would be the same scene.
    openings = [str(f).partition("{clause}")[0].lower() for f in bank("evaluation").frames["conditions"]]
    bare = {next(c.lower().removeprefix(o) for o in openings if c.lower().startswith(o)) for c in conditions}
    assert len(bare) == 360


def test_no_subject_template_or_text_occurs_in_any_training_validation_or_test_pair() -> None:
    mine = bank("evaluation")
    texts = {
        text
        for seed in SEEDS
        for e in episodes(seed)
        for text in (e.event.text, *(t for op in e.operations for t in (op.condition, op.payload, op.text) if t))
    }
    for split in MIX:
        other = bank(split)
        assert not set(mine.subjects) & set(other.subjects)
        assert not {t["name"] for t in mine.template_sets} & {t["name"] for t in other.template_sets}
        rows = generate(split)
        assert not texts & {row[field] for row in rows for field in ("condition", "payload", "event")}
        everything = " ".join(row[field] for row in rows for field in ("condition", "payload", "event"))
        assert not [s for s in mine.subjects if s in everything]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_episode_is_a_case(seed: int) -> None:
    for e in episodes(seed):
        case = e.as_case()
        assert bind(case.operations) == bind(e.operations)
        assert (case.case_id, case.trigger, case.expected_record) == (
            e.episode_id,
            e.expected_trigger,
            e.expected_record,
        )


def test_episodes_are_the_same_in_another_process() -> None:
    import subprocess
    import sys

    from core.config import ROOT
    from core.hashing import json_hash

    def digest() -> str:
        return json_hash([e.as_case().model_dump(mode="json") for e in episodes(2027)])

    script = (
        "from core.evaluation.episodes import episodes; from core.hashing import json_hash;"
        "print(json_hash([e.as_case().model_dump(mode='json') for e in episodes(2027)]))"
    )
    out = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == digest()


def test_another_seed_is_refused() -> None:
    with pytest.raises(InputError) as e:
        episodes(1)
    assert str(e.value) == "There are no controlled episodes for seed 1: choose one of (2026, 2027, 2028)."


@pytest.mark.parametrize("seed", SEEDS)
def test_the_permutation_moves_payloads_among_the_records_of_one_seed(seed: int) -> None:
    listed = episodes(seed)
    bound = permutation(seed, listed)
    own = {key: text for e in listed for key, text in e.payloads.items()}
    assert len(bound) == 280  # 200 episodes of one record, 40 of two
    assert Counter(bound.values()) == Counter(own.values())
    assert json.loads(PERMUTATIONS.read_text())[str(seed)] == draw_permutation(seed, listed)
    by_hand = sum(bound[key] == text for key, text in own.items())
    assert fixed_points(bound, listed) == (by_hand, 280)
    assert by_hand < 14  # under 5%: a permutation that keeps most payloads would test nothing


def test_a_permutation_that_is_missing_or_of_other_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as missing:
        permutation(2026, episodes(2026), tmp_path / "none.json")
    assert missing.value.message == "There is no stored permutation for seed 2026."
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"2026": {"2026-m000-p/r1": "2026-m000-p/r1"}}))
    with pytest.raises(InputError) as e:
        permutation(2026, episodes(2026), other)
    assert e.value.message == "The stored permutation of seed 2026 is not one of its records."


def test_always_on_makes_the_decisions_counted_by_hand() -> None:
    # A seed hears 120 x 5 + 120 x 20 = 3,000 distractors and 240 final events, each against one standing record,
    # but for 20 cancelled records: 20 final events and 10 x 3 + 10 x 10 = 130 distractors come too late.
    traces = [
        respond(
            bind(e.operations),
            hear(e.operations, e.event),
            Arm(ArmName.C2),
            TinyBackbone(),
            context(e.expected_record, e.expected_payload, episode_id=e.episode_id, family=e.family.value),
        )
        for e in episodes(2028)
    ]
    assert sum(len(t.decisions) for t in traces) == sum(t.decisions_expected for t in traces) == 3_240 - 150
    assert sum(t.distractor_fires for t in traces) == 3_000 - 130
    # Right: the 120 positives and the 20 cancellations (paper section 5: selectivity gain 0.833 = 1 - 20/120).
    assert Counter(t.family for t in traces if t.correct) == {
        "exact_positive": 60,
        "paraphrased_positive": 60,
        "cancellation": 20,
    }


def clauses(wording: Wording) -> set[str]:
    """Every clause in which the evaluation bank tells a happening in this wording, whatever its tense."""
    mine = bank("evaluation")
    return {
        str(clause).format(subject=subject, item=item).lower()
        for kind in mine.template_sets
        for told in ([kind["exact"]] if wording is Wording.EXACT else kind["paraphrases"])
        for clause in told.values()
        for subject in mine.subjects
        for item in kind["items"]
    }


@pytest.mark.parametrize("wording", Wording)
def test_cues_and_near_triggers_tell_the_happening_in_the_wording_of_their_pair(wording: Wording) -> None:
    own, other = clauses(wording), clauses(next(w for w in Wording if w is not wording))
    for e in episodes(2027)[::3]:
        if e.wording is wording and e.family is not Family.DISTRACTOR_ONLY:
            text = e.event.text.lower()
            assert any(clause in text for clause in own)
            assert not any(clause in text for clause in other)

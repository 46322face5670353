"""The template banks and the pairs made from them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.config import DATA
from core.errors import InputError
from core.evaluation import pairs
from core.evaluation.pairs import MIX, NEAR_KINDS, SPLITS, bank, generate, read_pairs

SIZES = {"train": 720, "validation": 216, "test": 360}
each_split = pytest.mark.parametrize("split", SIZES)


@each_split
def test_the_committed_pairs_are_those_of_the_generator(split: str) -> None:
    assert pairs.pairs_file(split).read_text(encoding="utf-8") == pairs.as_lines(generate(split))


@each_split
def test_sizes_labels_and_ids(split: str) -> None:
    rows = read_pairs(pairs.pairs_file(split))
    assert len(rows) == SIZES[split]
    assert Counter(r["label"] for r in rows) == {0: SIZES[split] // 2, 1: SIZES[split] // 2}
    assert Counter(r["kind"] for r in rows) == MIX[split]
    assert len({r["pair_id"] for r in rows}) == len({(r["condition"], r["event"]) for r in rows}) == len(rows)
    assert {r["split"] for r in rows} == {split}
    assert all(r["label"] == (r["kind"] in {"exact", "paraphrase"}) for r in rows)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    else:
        for part in value:
            yield from strings(part)


@pytest.mark.parametrize(("left", "right"), list(combinations(SPLITS, 2)))
def test_splits_share_no_subject_no_item_and_no_template(left: str, right: str) -> None:
    a, b = bank(left), bank(right)
    assert not set(a.subjects) & set(b.subjects)
    assert not {s["name"] for s in a.template_sets} & {s["name"] for s in b.template_sets}
    assert not {i for s in a.template_sets for i in s["items"]} & {i for s in b.template_sets for i in s["items"]}
    keys = ("condition", "exact", "paraphrases", "payloads")
    clauses = [set(strings([[s[k] for k in keys] for s in x.template_sets])) for x in (a, b)]
    assert not clauses[0] & clauses[1]
    frames = [{t for k, v in x.frames.items() if k not in {"days"} for t in strings(v)} for x in (a, b)]
    assert not frames[0] & frames[1]


@pytest.mark.parametrize(("left", "right"), list(combinations(SIZES, 2)))
def test_pair_files_share_no_subject_no_template_set_and_no_text(left: str, right: str) -> None:
    a, b = read_pairs(pairs.pairs_file(left)), read_pairs(pairs.pairs_file(right))
    for key in ("subject", "template_set", "condition", "event", "payload"):
        assert not {r[key] for r in a} & {r[key] for r in b}


def texts(split: str) -> Iterator[tuple[str, str, str]]:
    rng = Random(7)
    for _ in range(600):
        s = bank(split).scene(rng)
        for event in (s.exact_event, s.paraphrased_event, s.near_exact_event, s.near_paraphrased_event,
                      s.amended_exact_event, s.amended_paraphrased_event, bank(split).distractor(rng)):  # fmt: skip
            yield s.condition, s.payload, event
        yield s.amended_condition, s.payload, s.exact_event


@pytest.mark.parametrize("split", SPLITS)
def test_lengths_and_the_payload_never_in_an_event(split: str) -> None:
    for condition, payload, event in texts(split):
        assert 4 <= len(condition.split()) <= 20, condition
        assert 5 <= len(event.split()) <= 40, event
        assert payload.rstrip(".").casefold() not in event.casefold()
        assert not {"{", "}"} & set(condition + payload + event)
        assert condition[0].isupper() or condition[0].isdigit()
        assert event[0].isupper()
        assert event[-1] in ".?"


def test_the_evaluation_bank_yields_more_than_eight_hundred_scenes() -> None:
    rng = Random(1)
    assert len({bank("evaluation").scene(rng).condition for _ in range(4000)}) > 800


@pytest.mark.parametrize("split", SPLITS)
def test_a_scene_differs_where_it_says_it_does(split: str) -> None:
    rng, kinds = Random(3), set()
    for _ in range(300):
        s = bank(split).scene(rng)
        kinds.add(s.near_kind)
        assert s.amended_condition != s.condition
        events = (s.exact_event, s.paraphrased_event, s.near_exact_event, s.near_paraphrased_event)
        assert len(set(events)) == 4
        assert all(s.subject in e or s.subject[0].upper() + s.subject[1:] in e for e in events)
    assert kinds == set(NEAR_KINDS)


def test_randomness_is_the_argument_and_nothing_else() -> None:
    first, again = Random(11), Random(11)
    assert [bank("evaluation").scene(first) for _ in range(5)] == [bank("evaluation").scene(again) for _ in range(5)]


def test_a_split_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError) as e:
        bank("holdout")
    assert str(e.value) == "There is no split 'holdout': choose one of train, validation, test, evaluation."
    with pytest.raises(InputError) as e:
        generate("evaluation")
    assert str(e.value) == "The split 'evaluation' has no pairs: choose one of train, validation, test."


def test_a_bad_line_of_pairs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"label": 1, "condition": "a", "event": "b"}\n{"label": 1}\n')
    with pytest.raises(InputError) as e:
        read_pairs(path)
    assert str(e.value) == f"Line 2 is not a labelled pair: 'condition'. ({path})"
    with pytest.raises(InputError, match="The pairs cannot be read"):
        read_pairs(tmp_path / "absent.jsonl")


@pytest.mark.parametrize("name", ["templates.json", "train.jsonl", "validation.jsonl", "test.jsonl"])
def test_the_readme_holds_the_sha256_of_each_file(name: str) -> None:
    folder = DATA / "controlled"
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert f"| `{name}` | `{digest}` |" in (folder / "README.md").read_text(encoding="utf-8")

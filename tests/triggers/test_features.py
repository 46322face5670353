"""Features against hand-made values, a second computation, and any text at all."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import ROOT
from core.triggers.learned import features as f
from core.triggers.learned.features import FEATURE_NAMES, encode, features, tokenise

CONDITION = "When the crane permit for Dock Four is issued"
EVENT = "Confirmed: the crane permit for Dock Four was not issued, it seems."


def named(condition: str, event: str) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, features(encode(condition), encode(event)).tolist(), strict=True))


def test_there_are_sixteen_distinct_names() -> None:
    assert len(FEATURE_NAMES) == len(set(FEATURE_NAMES)) == 16


def test_features_of_a_pair_counted_by_hand() -> None:
    # condition: when the crane permit for dock four is issued (9 tokens; content: crane permit dock four issued)
    # event: confirmed the crane permit for dock four was not issued it seems (12; the same five content words)
    got = named(CONDITION, EVENT)
    assert got["hashed_word_similarity"] == 7 / math.sqrt(9 * 12)
    assert got["token_overlap"] == 7 / 14
    assert got["content_overlap"] == 1.0
    assert got["condition_token_coverage"] == 7 / 9
    assert got["condition_content_coverage"] == 1.0
    assert got["condition_length"] == 9 / 32
    assert got["event_length"] == 12 / 64
    assert got["length_ratio"] == 9 / 12
    cues = {k: v for k, v in got.items() if k.split("_")[-1] in {"negation", "mismatch", "future", "hedging"}}
    assert cues == {
        "condition_negation": 0.0,
        "event_negation": 1.0,
        "negation_mismatch": 1.0,
        "event_future": 0.0,
        "event_hedging": 1.0,
    }
    assert (got["event_confirmation"], got["event_contradiction"]) == (1.0, 0.0)


def test_character_similarity_counted_by_hand() -> None:
    # ^ab ab$ against ^ab abc bc$ : one shared trigram of 2 and 3
    assert named("ab", "abc")["hashed_char_similarity"] == 1 / math.sqrt(2 * 3)


def test_repeated_words_count_in_the_similarity_and_not_in_the_overlap() -> None:
    got = named("pump pump valve", "pump valve valve")
    assert got["hashed_word_similarity"] == (2 * 1 + 1 * 2) / math.sqrt(5 * 5)
    assert got["token_overlap"] == got["content_overlap"] == 1.0


@pytest.mark.parametrize(
    ("event", "cue"),
    [
        ("The permit was not issued.", "event_negation"),
        ("The permit hasn't been issued.", "event_negation"),
        ("The permit hasn’t been issued.", "event_negation"),
        ("The permit will be issued.", "event_future"),
        ("They'll issue the permit.", "event_future"),
        ("They are about to issue the permit.", "event_future"),
        ("The permit may have been issued.", "event_hedging"),
        ("Was the permit issued?", "event_hedging"),
        ("Verified: the permit was issued.", "event_confirmation"),
        ("The council signed off the permit.", "event_confirmation"),
        ("The note about the permit was wrong.", "event_contradiction"),
        ("The issue of the permit was called off.", "event_contradiction"),
    ],
)
def test_each_cue_is_seen_and_no_other(event: str, cue: str) -> None:
    got = named("the permit is issued", event)
    seen = {k for k in FEATURE_NAMES if k.startswith("event_") and k != "event_length" and got[k]}
    assert seen == {cue}


def test_wont_is_both_a_negation_and_a_future() -> None:
    got = named("the permit is issued", "They won't issue it")
    assert got["event_negation"] == got["event_future"] == 1.0


def test_negation_on_both_sides_is_no_mismatch() -> None:
    got = named("the rent is not paid", "The rent was never paid.")
    assert (got["condition_negation"], got["event_negation"], got["negation_mismatch"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("event", ["", "   ", "\x00\x01", "🙂🙃", "...", "\u202e\u200f"])
def test_a_text_without_words_gives_zeros_and_no_warning(event: str) -> None:
    assert not any(features(encode("the permit is issued"), encode(event))[[0, 1, 2, 3, 4, 5, 14, 15]])
    assert np.all(np.isfinite(features(encode(event), encode(event))))


TEXT = st.text(st.characters(), max_size=200) | st.lists(
    st.sampled_from(
        ["not", "permit", "will", "?", "won't", "كتاب", "שלום", "🙂", "é", "e\u0301", "called", "off", "İ"]
    ),
    max_size=30,
).map(" ".join)


@given(TEXT, TEXT)
def test_any_text_gives_sixteen_numbers_between_nought_and_one(condition: str, event: str) -> None:
    got = features(encode(condition), encode(event))
    assert got.shape == (16,)
    assert np.all((got >= 0.0) & (got <= 1.0))


@given(TEXT, TEXT)
def test_similarities_and_overlaps_are_symmetric(left: str, right: str) -> None:
    a, b = named(left, right), named(right, left)
    for name in ("hashed_word_similarity", "hashed_char_similarity", "token_overlap", "content_overlap",
                 "negation_mismatch", "length_ratio"):  # fmt: skip
        assert a[name] == b[name]


@given(TEXT)
def test_a_text_is_wholly_like_itself(text: str) -> None:
    got = named(text, text)
    has_words = float(bool(tokenise(text)))
    # sqrt(n * n) is exact, so the cosine is exactly 1.
    assert got["hashed_word_similarity"] == got["token_overlap"] == got["length_ratio"] == has_words
    assert got["negation_mismatch"] == 0.0


def plain(condition: str, event: str) -> list[float]:
    """The first six features again, in plain Python over dictionaries."""

    def bags(text: str) -> tuple[Counter[int], Counter[int], set[str], set[str]]:
        tokens = tokenise(text)
        words = Counter(zlib.crc32(t.encode("utf-8", "surrogatepass")) % 65536 for t in tokens)
        grams = Counter(
            zlib.crc32(f"^{t}$"[i : i + 3].encode("utf-8", "surrogatepass")) % 65536
            for t in tokens
            for i in range(len(t))
        )
        skip = f._STOP | set(f._CUE_OF)
        content = {t for t in tokens if t not in skip and not t.endswith(("n't", "'ll"))}
        return words, grams, set(tokens), content

    def cosine(a: Counter[int], b: Counter[int]) -> float:
        norm = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
        return min(1.0, sum(v * b[k] for k, v in a.items()) / norm) if norm else 0.0

    def share(part: set[str], whole: set[str]) -> float:
        return len(part) / len(whole) if whole else 0.0

    cw, cg, ct, cc = bags(condition)
    ew, eg, et, ec = bags(event)
    return [
        cosine(cw, ew), cosine(cg, eg), share(ct & et, ct | et), share(cc & ec, cc | ec),
        share(ct & et, ct), share(cc & ec, cc),
    ]  # fmt: skip


@given(TEXT, TEXT)
def test_the_arrays_agree_with_plain_dictionaries(condition: str, event: str) -> None:
    assert features(encode(condition), encode(event))[:6].tolist() == plain(condition, event)


def test_large_texts_are_computed_in_halves_to_the_same_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{CONDITION} {k % 7}" for k in range(9)] + [EVENT, "", "Nothing will come of it, perhaps."]
    encoded = [encode(t) for t in texts]
    ci, ei = np.repeat(np.arange(12), 12), np.tile(np.arange(12), 12)
    whole = f.pair_features(encoded, encoded, ci, ei)
    monkeypatch.setattr(f, "CELLS_AT_ONCE", 50)
    assert np.array_equal(f.pair_features(encoded, encoded, ci, ei), whole)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "a" * n,
        lambda n: "a'" * (n // 2),
        lambda n: "e" + "\u0315\u0300" * (n // 2),  # quadratic in unicodedata.normalize
        lambda n: "? " * (n // 2),
        lambda n: "called " * (n // 7),
        lambda n: "".join(chr(0x4E00 + k % 20000) + " " for k in range(n // 2)),
        lambda n: "ﷺ" * n,
        lambda n: "\x00" * n,
    ],
)
def test_a_megabyte_of_anything_is_encoded(make: Callable[[int], str]) -> None:
    encoded = encode(make(1 << 20))
    assert np.all(np.isfinite(features(encoded, encoded)))


def test_features_are_the_same_in_every_process() -> None:
    code = (
        "import json, sys; from core.triggers.learned.features import encode, features;"
        "c, e = json.loads(sys.stdin.read()); x = features(encode(c), encode(e)).tolist();"
        "print(json.dumps([v.hex() for v in x]))"
    )
    asked = json.dumps([CONDITION, EVENT + " Die Straße 🙂 كتاب"])
    got = {
        subprocess.run(
            [sys.executable, "-c", code], input=asked, capture_output=True, text=True, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4242")
    }  # fmt: skip
    here = features(*(encode(t) for t in json.loads(asked))).tolist()
    assert [json.loads(out) for out in got] == [[x.hex() for x in here]]


def test_features_need_no_torch() -> None:
    code = "import sys, core.triggers.learned.features, core.triggers.learned.mlp; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@settings(max_examples=30)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8))
def test_many_pairs_give_the_floats_of_one(texts: list[tuple[str, str]]) -> None:
    c, e = [encode(t) for t, _ in texts], [encode(t) for _, t in texts]
    order = np.arange(len(texts))
    assert np.array_equal(
        f.pair_features(c, e, order, order), np.array([features(a, b) for a, b in zip(c, e, strict=True)])
    )

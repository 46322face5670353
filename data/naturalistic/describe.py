"""Recomputes what the README says of this set: agreement of the reviews, separability of the sources, near-duplicates.

    python data/naturalistic/describe.py

Prints one JSON document, which is kept as `described.json`; a test runs it again and compares. Needs scikit-learn
(tests/requirements.txt). It looks at labels and wording statistics and prints no text of a case.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

HERE = Path(__file__).resolve().parent
TEMPLATE_PAIRS = HERE.parent / "controlled"
SOURCES = ("harbour", "glasshouse", "troupe", "townhall")
NEAR = 0.5
"""Two texts whose sets of word trigrams have a Jaccard index above this are near-duplicates."""

Rows = list[dict[str, Any]]


def lines(path: Path) -> Rows:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def agreement(cases: Rows) -> dict[str, Any]:
    """Return, for each pass, the answers of both reviewers beside each other and beside the writers' labels."""
    by_id = {c["case_id"]: c for c in cases}
    found: dict[str, Any] = {}
    for name in ("pass1", "pass2"):
        key = json.loads((HERE / "reviews" / f"{name}.key.json").read_text())
        first, second = ({r["id"]: r for r in lines(HERE / "reviews" / f"{who}-{name}.jsonl")} for who in "AB")
        truth = {q: by_id[c]["trigger"] != (name == "pass2") for q, c in key.items()}
        record = {q: by_id[c]["expected_record"] if name == "pass1" else None for q, c in key.items()}

        def agrees(answers: dict[str, Any], q: str, truth: dict[str, bool] = truth, record: Any = record) -> bool:
            right = answers[q]["fires"] == truth[q]
            return bool(right and (record[q] is None or answers[q]["record"] == record[q]))

        found[name] = {
            "judged": len(key),
            "kappa": float(cohen_kappa_score([first[q]["fires"] for q in key], [second[q]["fires"] for q in key])),
            "reviewers_agree": sum(first[q]["fires"] == second[q]["fires"] for q in key),
            "first_agrees_with_writer": sum(agrees(first, q) for q in key),
            "second_agrees_with_writer": sum(agrees(second, q) for q in key),
            "unsure": sum(not r["sure"] for r in (*first.values(), *second.values())),
            "adjudicated": sum(not (agrees(first, q) and agrees(second, q)) for q in key),
        }
    return found


def texts_of(case: dict[str, Any]) -> list[str]:
    """Return a case's conditions and its event."""
    return [o["condition"] for o in case["operations"] if o.get("condition")] + [case["event"]["text"]]


def trigrams(text: str) -> set[tuple[str, ...]]:
    """Return a text's word trigrams."""
    words = text.lower().split()
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)}


def jaccard(a: set[Any], b: set[Any]) -> float:
    """Return the Jaccard index; 0 for two empty sets."""
    return len(a & b) / len(a | b) if a | b else 0.0


def separability(cases: Rows) -> dict[str, Any]:
    """Return how well a four-way classifier tells the sources by their events, and their n-gram overlap."""
    events = [c["event"]["text"] for c in cases]
    labels = [c["source"] for c in cases]
    model = make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), lowercase=False, sublinear_tf=True),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    folds = StratifiedKFold(4, shuffle=True, random_state=2026)
    predicted = cross_val_predict(model, events, labels, cv=folds)
    grams = {s: set().union(*(trigrams(t) for c in cases if c["source"] == s for t in texts_of(c))) for s in SOURCES}
    return {
        "events_told_apart": int(np.sum(predicted == np.array(labels))),
        "events": len(events),
        "by_chance": len(events) // len(SOURCES),
        "word_trigram_jaccard": {
            f"{a} {b}": round(jaccard(grams[a], grams[b]), 4) for a, b in combinations(SOURCES, 2)
        },
    }


def near_duplicates(cases: Rows) -> dict[str, Any]:
    """Return the largest overlap of any text with a template pair of the engine, and of two cases with each other."""
    templates = [
        trigrams(text)
        for name in ("train", "validation", "test")
        for pair in lines(TEMPLATE_PAIRS / f"{name}.jsonl")
        for text in (pair["condition"], pair["event"])
    ]
    own = [[trigrams(t) for t in texts_of(c)] for c in cases]
    to_templates = max(jaccard(a, b) for case in own for a in case for b in templates)
    to_each_other = max(jaccard(a, b) for one, two in combinations(own, 2) for a in one for b in two)
    return {
        "largest_overlap_with_a_template_pair": round(to_templates, 4),
        "largest_overlap_of_two_cases": round(to_each_other, 4),
        "near_duplicate_above": NEAR,
    }


def describe() -> dict[str, Any]:
    """Return everything the README says."""
    cases = lines(HERE / "cases.jsonl")
    return {"agreement": agreement(cases), "sources": separability(cases), "duplicates": near_duplicates(cases)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe(), indent=1, sort_keys=True) + "\n")

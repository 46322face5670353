"""The naturalistic cases are what the writers handed in, and the README says what the reviews and the wording say."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path

from core.config import DATA
from core.evaluation.case_file import read_cases
from core.hashing import sha256_file
from core.records.case import Case, Stratum

FOLDER = DATA / "naturalistic"
SOURCES = ("harbour", "glasshouse", "troupe", "townhall")


def cases() -> list[Case]:
    found = [case for _, case in read_cases(FOLDER / "cases.jsonl")]
    assert all(isinstance(c, Case) for c in found)
    return [c for c in found if isinstance(c, Case)]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_there_are_four_cases_of_every_stratum_from_every_source() -> None:
    assert Counter((c.source, c.stratum) for c in cases()) == {(s, t): 4 for s in SOURCES for t in Stratum}


def test_every_semantic_case_has_a_twin() -> None:
    lifecycle = (Stratum.CANCELLATION_NEGATIVE, Stratum.EXPIRY_NEGATIVE)
    assert all((c.twin_condition is None) is (c.stratum in lifecycle) for c in cases())


def test_no_event_holds_a_payload() -> None:
    for case in cases():
        payloads = [op.payload.lower() for op in case.operations if op.payload is not None]
        assert not [p for p in payloads if p in case.event.text.lower()], case.case_id


def test_the_cases_are_the_packets_unchanged() -> None:
    packets = b"".join((FOLDER / "packets" / f"{s}.jsonl").read_bytes() for s in SOURCES)
    assert (FOLDER / "cases.jsonl").read_bytes() == packets


def test_the_reviewers_saw_no_label() -> None:
    for name, judged in (("pass1", 128), ("pass2", 96)):
        shown = lines(FOLDER / "reviews" / f"{name}.jsonl")
        assert len(shown) == judged
        assert {key for line in shown for key in line} == {"id", "operations", "event"}


def test_what_the_readme_says_is_computed_anew() -> None:
    found = runpy.run_path(str(FOLDER / "describe.py"))["describe"]()
    assert found == json.loads((FOLDER / "described.json").read_text())
    readme = (FOLDER / "README.md").read_text()
    assert sha256_file(FOLDER / "cases.jsonl") in readme
    for name in ("pass1", "pass2"):
        assert found["agreement"][name]["kappa"] == 1.0
        assert found["agreement"][name]["adjudicated"] == 0
    told = found["sources"]
    assert (
        f"of {told['events_told_apart']} of {told['events']} events ({told['by_chance']} by chance)"
        in readme.replace("\n", " ")
    )
    assert max(told["word_trigram_jaccard"].values()) < 0.003
    assert max(v for k, v in found["duplicates"].items() if k.startswith("largest")) < 0.16

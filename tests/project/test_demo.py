"""The demo cases are cases, one of each stratum, and the README says which file it describes."""

from __future__ import annotations

from collections import Counter

from core.config import DATA
from core.hashing import sha256_file
from core.records.case import Case, Stratum

CASES = DATA / "demo" / "cases.jsonl"


def test_there_is_one_case_of_each_stratum() -> None:
    cases = [Case.model_validate_json(line) for line in CASES.read_bytes().splitlines()]
    assert Counter(c.stratum for c in cases) == dict.fromkeys(Stratum, 1)
    assert len({c.case_id for c in cases}) == len(cases)
    for case in cases:
        positive = case.stratum is not None and case.stratum.value.endswith("_positive")
        assert case.trigger is positive
        written = {op.record: op.payload for op in case.operations if op.payload is not None}
        if positive:
            assert case.expected_record is not None
            assert case.expected_payload == written[case.expected_record]
        lifecycle = (Stratum.CANCELLATION_NEGATIVE, Stratum.EXPIRY_NEGATIVE)
        assert (case.twin_condition is None) is (case.stratum in lifecycle)


def test_the_readme_says_which_file_it_describes() -> None:
    assert sha256_file(CASES) in (DATA / "demo" / "README.md").read_text()

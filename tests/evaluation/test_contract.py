from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cli.tables import criteria_lines
from core.errors import InputError
from core.evaluation import contract
from core.evaluation.contract import Contract, Criterion
from core.evaluation.estimate import Estimate
from core.hashing import sha256_file
from core.records.run import Decided

HEADER = "metric,statistic,direction,threshold,threshold_from,note\n"


def test_the_controlled_contract_is_the_frozen_one() -> None:
    found = contract.load("controlled")
    assert found.sha256 == sha256_file(contract.CONTRACTS / "controlled.csv")
    assert found.sha256 == "dd10fd5fc8a8ff9f8eeff48aae7a88001047cab46525f4c96a36d79181c10e0a"
    assert len(found.criteria) == 11
    assert found.criteria[3] == Criterion(
        "prospective_utility_margin", "ci_low", ">=", 0.15, "paper Table 4", "C3 - max(C0; C1)"
    )


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, f"is not the header {HEADER.strip()}"),
        ("\ufeff" + HEADER, 1, f"is not the header {HEADER.strip()}"),
        ("metric,threshold\nx,1\n", 1, f"is not the header {HEADER.strip()}"),
        (HEADER + "m,point,>=,0.8,ours\n", 2, "has 5 columns instead of 6"),
        (HEADER + "m,point,>=,0.8,ours,,\n", 2, "has 7 columns instead of 6"),
        (HEADER + "m,point,>=,0.8,ours,\n\n", 3, "has 0 columns instead of 6"),
        (HEADER + ",point,>=,0.8,ours,\n", 2, "names no metric ('')"),
        (HEADER + " m,point,>=,0.8,ours,\n", 2, "names no metric (' m')"),
        (HEADER + "m,point,>=,0.8,ours,\nm,point,>=,0.9,ours,\n", 3, "names m a second time"),
        (HEADER + "m,median,>=,0.8,ours,\n", 2, "has statistic 'median'; allowed are point, ci_low"),
        (HEADER + "m,point,>,0.8,ours,\n", 2, "has direction '>'; allowed are >=, <=, ="),
        (HEADER + "m,point,>=,high,ours,\n", 2, "has threshold 'high', which is not a number"),
        (HEADER + "m,point,>=,nan,ours,\n", 2, "has threshold 'nan', which is not finite"),
        (HEADER + "m,point,>=,inf,ours,\n", 2, "has threshold 'inf', which is not finite"),
        (HEADER + "m,point,>=,0.8,,\n", 2, "does not say where its threshold comes from"),
    ],
)
def test_a_bad_line_is_refused_by_number(text: str, line: int, what: str) -> None:
    with pytest.raises(InputError) as caught:
        contract.parse("c", text.encode(), "c.csv")
    assert caught.value.message == f"The contract's line {line} {what}."
    assert caught.value.where == f"c.csv:{line}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe", "The contract is not UTF-8 text."),
        (HEADER.encode() + b"\x00", "The contract holds a NUL character."),
        (HEADER.encode(), "The contract holds no criterion."),
        (HEADER.encode() + b'm,"point', "The contract's line 2 is not CSV: unexpected end of data."),
    ],
)
def test_bytes_that_are_no_contract_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        contract.parse("c", data, "c.csv")
    assert caught.value.message == message


def test_an_unknown_contract_is_named() -> None:
    with pytest.raises(InputError, match="There is no contract 'nothing'"):
        contract.load("nothing")


def one(direction: str, threshold: float, statistic: str = "point") -> Contract:
    return Contract("c", "0" * 64, (Criterion("m", statistic, direction, threshold, "ours", ""),))


def estimate(observed: float | None, low: float | None = None, n: int = 10) -> Estimate:
    return Estimate("m", observed, low, None, n, None, "wilson", ())


@pytest.mark.parametrize(
    ("direction", "threshold", "observed", "margin", "decision"),
    [
        (">=", 0.80, 0.80, 0.0, "met"),
        (">=", 0.80, 0.75, -0.05, "not met"),
        ("<=", 0.10, 0.10, 0.0, "met"),
        ("<=", 0.10, 0.00, 0.10, "met"),
        ("<=", 0.10, 0.25, -0.15, "not met"),
        ("=", 1.0, 1.0, 0.0, "met"),
        ("=", 1.0, 0.999, -0.001, "not met"),
        ("=", 0.5, 0.6, -0.1, "not met"),
    ],
)
def test_a_margin_above_0_is_on_the_allowed_side(
    direction: str, threshold: float, observed: float, margin: float, decision: str
) -> None:
    (row,) = contract.decide(one(direction, threshold), {"m": estimate(observed)}, run_id=None)
    assert row.margin == pytest.approx(margin, abs=1e-12)
    assert row.decision == decision
    assert row.margin is not None
    assert math.copysign(1, row.margin) == (-1 if margin < 0 else 1)  # no negative zero
    shown = re.split("  +", criteria_lines([row])[-1])[-2]
    assert shown == ("0.0000" if margin == 0 else f"{margin:+.4f}")


def test_a_lower_bound_decides_where_the_statistic_is_ci_low() -> None:
    (row,) = contract.decide(one(">=", 0.15, "ci_low"), {"m": estimate(0.30, low=0.10)}, run_id=None)
    assert (row.observed, row.decision) == (0.30, Decided.NOT_MET)
    assert row.margin == pytest.approx(-0.05)


def test_undefined_stays_undefined() -> None:
    (row,) = contract.decide(one("<=", 0.10), {"m": estimate(None, n=0)}, run_id=None)
    assert (row.observed, row.margin, row.n, row.decision) == (None, None, 0, Decided.UNDEFINED)
    (row,) = contract.decide(one(">=", 0.15, "ci_low"), {"m": estimate(0.3)}, run_id=None)
    assert row.decision is Decided.UNDEFINED


def test_a_metric_nobody_computes_is_refused() -> None:
    with pytest.raises(InputError, match="The contract c names m, which this evaluation does not compute"):
        contract.decide(one("<=", 0.10), {}, run_id=None)


@given(st.integers(0, 400), st.integers(1, 400), st.integers(0, 100))
def test_a_share_on_its_threshold_is_met_both_ways(k: int, n: int, percent: int) -> None:
    observed, threshold = min(k, n) / n, percent / 100
    for direction, allowed in (
        (">=", observed >= threshold),
        ("<=", observed <= threshold),
        ("=", observed == threshold),
    ):
        (row,) = contract.decide(one(direction, threshold), {"m": estimate(observed)}, run_id=None)
        assert (row.decision is Decided.MET) == allowed

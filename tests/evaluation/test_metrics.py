from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import CheckFailed, InputError
from core.evaluation import contract, metrics
from core.evaluation.actuation import agreement, agrees
from core.evaluation.estimate import Estimate
from core.evaluation.properties import properties
from core.records.run import Decided

Make = Callable[..., pd.DataFrame]
Row = dict[str, Any]


def test_a_mechanism_that_does_everything_right_gets_the_values_worked_out_by_hand(make_rows: Make) -> None:
    found = metrics.controlled(make_rows(10))
    values = {name: (e.observed, e.n) for name, e in found.items()}
    assert values == {
        "triggered_action_accuracy": (1.0, 10),
        "correct_non_action": (1.0, 10),
        "false_trigger_rate": (0.0, 10),
        "prospective_utility_margin": (0.5, 20),
        "selectivity_gain": (1.0, 10),
        "causal_memory_dependence": (1.0, 10),
        "null_path_equivalence": (1.0, 10),
        "restart_persistence_loss": (0.0, 10),
        "unrelated_control_regression": (0.0, 10),
        "memory_write_success": (1.0, 20),
        "frozen_backbone_integrity": (1.0, 20),
    }
    assert list(values) == [c.metric for c in contract.load("controlled").criteria]


TWICE = '[{"event":0,"record_id":"r1"},{"event":0,"record_id":"r1"}]'


def break_one(episode: str, arm: str, boundary: str, **changes: Any) -> Callable[[Row], Row]:
    def change(row: Row) -> Row:
        hit = (row["episode_id"], row["arm"], row["boundary"]) == (episode, arm, boundary)
        return row | changes if hit else row

    return change


# One execution of e000 (a positive) or e001 (a negative) is broken; every metric not named keeps its perfect value.
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            break_one("e000", "C3", "restart", predicted_action=None, fired=False, intervention=None),
            {
                "triggered_action_accuracy": 0.9,
                "prospective_utility_margin": 0.45,
                "causal_memory_dependence": 0.9,
                "restart_persistence_loss": 0.1,
            },
        ),
        (
            break_one("e001", "C3", "restart", fired=True, predicted_action="x", intervention="{}", null_trial=False),
            {
                "correct_non_action": 0.9,
                "false_trigger_rate": 0.1,
                "prospective_utility_margin": 0.45,
                "selectivity_gain": 0.9,
                "unrelated_control_regression": 0.1,
            },
        ),
        (
            break_one("e001", "C3", "restart", output="baseline e001 "),
            {"correct_non_action": 0.9, "selectivity_gain": 0.9},
        ),
        (break_one("e001", "C3", "restart", intervention=""), {"correct_non_action": 0.9, "selectivity_gain": 0.9}),
        (break_one("e001", "C3", "restart", audit_no_later_use=False), {"null_path_equivalence": 0.9}),
        (break_one("e001", "C3", "restart", audit_output_equal=None), {"null_path_equivalence": 0.9}),
        (break_one("e000", "C1", "restart", memory_write_ok=False), {"memory_write_success": 0.95}),
        (break_one("e000", "C0", "restart", backbone_hash_after="x"), {"frozen_backbone_integrity": 0.95}),
        (break_one("e000", "C4", "restart", predicted_action="do e000"), {}),
        (break_one("e001", "C2", "restart", predicted_action=None, intervention=None, output="baseline e001"), {}),
    ],
)  # fmt: skip
def test_one_broken_execution_moves_exactly_its_metrics(
    make_rows: Make, change: Callable[[Row], Row], expected: dict[str, float]
) -> None:
    perfect: dict[str, float | None] = {name: e.observed for name, e in metrics.controlled(make_rows(10)).items()}
    broken = {name: e.observed for name, e in metrics.controlled(make_rows(10, change)).items()}
    assert broken == pytest.approx({**perfect, **expected})


def test_a_contrast_names_the_arms_whose_rates_enter(make_rows: Make) -> None:
    found = {name: e.terms for name, e in metrics.controlled(make_rows(2)).items() if e.interval == "bootstrap"}
    negative, positive = "expected_trigger:eq:false", "expected_trigger:eq:true"
    assert found == {
        "prospective_utility_margin": ("arm:eq:C0", "arm:eq:C1", "arm:eq:C3"),
        "selectivity_gain": ("arm:eq:C2", "arm:eq:C3", negative),
        "causal_memory_dependence": ("arm:eq:C3", "arm:eq:C4", positive),
        "restart_persistence_loss": ("arm:eq:C3", positive),  # between its boundaries
        "unrelated_control_regression": ("arm:eq:C0", "arm:eq:C3", "family:eq:distractor_only"),
    }
    missing = metrics.controlled(make_rows(2).query("arm == 'C3'"))
    assert {name: missing[name].terms for name in found} == found


def test_the_rows_behind_a_contrast_give_its_value(make_rows: Make) -> None:
    """The shares are counted once more from no other rows than those the terms open."""
    rows = make_rows(6, break_one("e000", "C3", "restart", predicted_action=None))
    e = metrics.controlled(rows)["causal_memory_dependence"]
    chosen = {t.split(":")[2] for t in e.terms if t.startswith("arm:")}
    behind = rows[rows["arm"].isin(chosen) & rows["expected_trigger"].astype(bool)]
    acted = (
        behind["predicted_action"].eq(behind["expected_payload"]).groupby([behind["arm"], behind["episode_id"]]).all()
    )
    shares = acted.groupby(level="arm").mean()
    assert shares["C3"] - shares["C4"] == pytest.approx(e.observed)


def test_the_margin_is_over_the_stronger_of_the_two_baselines(make_rows: Make) -> None:
    def reactive(row: Row) -> Row:
        # C1 acts rightly on three of ten positives: utility 13/20, C0 10/20.
        hit = row["arm"] == "C1" and row["episode_id"] in ("e000", "e002", "e004")
        return row | {"predicted_action": row["expected_payload"], "fired": True} if hit else row

    found = metrics.controlled(make_rows(10, reactive))["prospective_utility_margin"]
    assert (found.k, found.n, found.observed) == (7, 20, 7 / 20)


def test_a_contrast_on_its_threshold_is_not_lost_to_rounding(make_rows: Make) -> None:
    def nineteen_and_sixteen(row: Row) -> Row:
        number = int(row["episode_id"][1:]) // 2
        if row["expected_trigger"] and row["arm"] == "C3" and number == 19:
            return row | {"predicted_action": None}
        if row["expected_trigger"] and row["arm"] == "C4" and number < 15:
            return row | {"predicted_action": row["expected_payload"]}
        return row

    found = metrics.controlled(make_rows(20, nineteen_and_sixteen))["causal_memory_dependence"]
    assert found.observed == 0.2  # 0.95 - 0.75 is 0.19999999999999996
    assert 0.95 - 0.75 < 0.2


def by_hand(rows: pd.DataFrame, seed: int = 2026) -> tuple[float, float]:
    """The selectivity gain's interval, resampled over match ids in plain Python."""
    import numpy as np

    right: dict[str, dict[str, dict[str, bool]]] = {}
    for row in rows.to_dict("records"):
        if row["arm"] in ("C2", "C3") and not row["expected_trigger"]:
            ok = pd.isna(row["intervention"]) and row["output"] == row["baseline_output"]
            cell = right.setdefault(row["match_id"], {}).setdefault(row["episode_id"], {})
            cell[row["arm"]] = cell.get(row["arm"], True) and ok
    clusters = sorted(right)
    shares = []
    for draw in np.random.default_rng(seed).integers(0, len(clusters), size=(5000, len(clusters))):
        episodes = [e for i in draw for e in right[clusters[i]].values()]
        shares.append(sum(int(e["C3"]) - int(e["C2"]) for e in episodes) / len(episodes))
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


def test_a_match_id_moves_with_all_its_arms_and_boundaries(make_rows: Make) -> None:
    def sometimes(row: Row) -> Row:
        number = int(row["episode_id"][1:])
        if row["arm"] == "C2" and number % 3 == 0:
            return row | {"intervention": None, "output": row["baseline_output"]}
        if row["arm"] == "C3" and number % 7 == 0 and row["boundary"] == "restart":
            return row | {"intervention": "{}"}
        return row

    rows = make_rows(15, sometimes)
    found = metrics.controlled(rows)["selectivity_gain"]
    assert (found.ci_low, found.ci_high) == pytest.approx(by_hand(rows), abs=1e-12)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(broken=st.sets(st.integers(0, 79), max_size=12), seed=st.integers(0, 5), copies=st.integers(1, 3))
def test_duplicating_every_run_changes_no_value_and_no_interval(
    make_rows: Make, broken: set[int], seed: int, copies: int
) -> None:
    rows = make_rows(4)
    for i in broken:
        rows.loc[i, "predicted_action"] = "something"
        rows.loc[i, "intervention"] = "{}"
    again = [rows.assign(run_id=f"run-{c}", trace_id=rows["trace_id"] + f"-{c}") for c in range(copies + 1)]
    shuffled = pd.concat(again).sample(frac=1, random_state=seed)
    assert metrics.controlled(shuffled) == metrics.controlled(rows)
    assert [(p.item, p.k, p.n) for p in properties(shuffled)] == [(p.item, p.k, p.n) for p in properties(rows)]
    assert metrics.arms(shuffled) == metrics.arms(rows)


def test_repeats_that_disagree_are_an_error_that_names_them(make_rows: Make) -> None:
    rows = make_rows(2)
    other = rows.assign(run_id="run-2")
    other.loc[other["trace_id"].eq("e000-C3-restart"), "output"] = "another text"
    with pytest.raises(CheckFailed) as caught:
        metrics.controlled(pd.concat([rows, other]))
    assert caught.value.message == ("1 executions have copies that disagree: repeats of e000 in C3 disagree on output.")


def test_boundaries_that_disagree_off_the_measured_rows_are_listed(make_rows: Make) -> None:
    rows = make_rows(2, break_one("e001", "C0", "restart", output="another text"))
    assert [str(d) for d in metrics.disagreements(rows)] == ["boundaries of e001 in C0 disagree on output"]
    lost = make_rows(2, break_one("e000", "C3", "restart", predicted_action=None))
    assert metrics.disagreements(lost) == []


@pytest.mark.parametrize("column", ["evidence_class", "origin", "contract"])
def test_rows_of_two_pools_are_refused(make_rows: Make, column: str) -> None:
    rows = make_rows(2)
    with pytest.raises(InputError, match=f"Rows of several values of {column} are never pooled: .*another"):
        metrics.controlled(pd.concat([rows, rows.assign(**{column: "another"})]))


def test_what_needs_a_missing_arm_or_boundary_is_undefined(make_rows: Make) -> None:
    rows = make_rows(3)
    without_c4 = metrics.controlled(rows[rows["arm"] != "C4"])["causal_memory_dependence"]
    assert (without_c4.observed, without_c4.ci_low, without_c4.n) == (None, None, 0)
    one_boundary = metrics.controlled(rows[rows["boundary"] == "restart"])
    assert one_boundary["restart_persistence_loss"].observed is None
    assert one_boundary["triggered_action_accuracy"].observed == 1.0


def test_no_null_trial_is_undefined_and_not_zero(make_rows: Make) -> None:
    rows = make_rows(2, lambda row: row | {"null_trial": False})
    assert metrics.controlled(rows)["null_path_equivalence"] == Estimate(
        "null_path_equivalence", None, None, None, 0, None, "wilson", ("arm:eq:C3", "null_trial:eq:true")
    )


def test_the_papers_controlled_values_are_what_its_design_gives(make_rows: Make) -> None:
    """20 of 120 negatives are cancellations, on which always-on memory is silent too: gain 100/120 = 0.833."""

    def cancelled(row: Row) -> Row:
        number = int(row["episode_id"][1:]) // 2
        if row["arm"] == "C2" and not row["expected_trigger"] and number < 20:
            return row | {"intervention": None, "output": row["baseline_output"], "predicted_action": None}
        return row

    found = metrics.controlled(make_rows(120, cancelled))
    assert round(found["selectivity_gain"].observed or 0, 3) == 0.833
    assert found["prospective_utility_margin"].observed == 0.5
    assert found["prospective_utility_margin"].ci_low == 0.5


def test_a_perfect_run_meets_all_eleven_criteria(make_rows: Make) -> None:
    rows = contract.decide(contract.load("controlled"), metrics.controlled(make_rows(30)), run_id="run-1")
    assert [r.decision for r in rows] == [Decided.MET] * 11
    assert {r.run_id for r in rows} == {"run-1"}


def test_properties_count_episodes_and_name_the_rows_that_fail(make_rows: Make) -> None:
    perfect = properties(make_rows(5))
    assert [(p.item, p.k, p.n, p.executions) for p in perfect] == [
        ("P1", 10, 10, 100),
        ("P2", 10, 10, 40),
        ("P3", 10, 10, 80),
        ("P4", 10, 10, 20),
        ("P5", 10, 10, 20),
        ("P6", 5, 5, 10),
    ]
    assert all(p.holds for p in perfect)


@pytest.mark.parametrize(
    ("item", "change"),
    [
        ("P1", break_one("e000", "C1", "restart", backbone_hash_after="x")),
        ("P2", break_one("e000", "C1", "restart", store_reopened=False)),
        ("P2", break_one("e000", "C1", "restart", responder_pid=1)),
        ("P2", break_one("e000", "C1", "restart", memory_write_ok=False)),
        ("P3", break_one("e000", "C1", "restart", records='[{"record_id":"r","condition":"a","payload":"a"}]')),
        ("P4", break_one("e000", "C3", "restart", decisions_expected=3)),
        ("P4", break_one("e000", "C3", "restart", decisions=TWICE)),
        ("P5", break_one("e000", "C3", "restart", predicted_action="something else")),
        ("P5", break_one("e001", "C3", "restart", predicted_action="something")),
        ("P6", break_one("e001", "C3", "restart", audit_no_retrieved_id=False)),
    ],
)  # fmt: skip
def test_one_broken_execution_breaks_exactly_its_property(
    make_rows: Make, item: str, change: Callable[[Row], Row]
) -> None:
    found = {p.item: p for p in properties(make_rows(5, change))}
    assert [name for name, p in found.items() if not p.holds] == [item]
    assert found[item].k == found[item].n - 1
    assert len(found[item].failing) == 1


def test_agreement_is_the_payloads_first_four_words_together_anywhere() -> None:
    payload = "Send the signed form to Ana"
    assert agrees("Sure - SEND the\nsigned form", payload)
    assert not agrees("Send the form", payload)
    assert not agrees("send the, well, signed form", payload)
    assert agrees("please call Bo.", "Call Bo!")
    assert not agrees("", payload)
    assert not agrees("...", "!!!")


def test_agreement_counts_episodes_and_refuses_a_missing_proposal(make_rows: Make) -> None:
    rows = make_rows(4, break_one("e002", "C3", "restart", model_action="nothing to do"))
    found = agreement(rows)
    assert (found.k, found.n, found.terms) == (3, 4, ("arm:eq:C3", "fired:eq:true"))
    with pytest.raises(CheckFailed, match="1 triggered trials have no stored model proposal"):
        agreement(make_rows(4, break_one("e002", "C3", "restart", model_action=None)))


def test_the_arm_table_counts_fixed_points_of_the_permutation(make_rows: Make) -> None:
    own = break_one("e000", "C4", "restart", payload_bound="do e000")
    table = {a.arm: a for a in metrics.arms(make_rows(4, own))}
    assert table["C4"].fixed_points == 1
    assert table["C3"].fixed_points is None
    assert [a.utility.observed for a in table.values()] == [0.5, 0.5, 0.5, 1.0, 0.5]

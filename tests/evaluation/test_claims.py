from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.evaluation.claims import LIMITS, ClaimStatus, Outcome, claims
from core.evaluation.properties import PropertyRow
from core.records.run import CriterionRow, Decided, Manifest, RunStatus
from core.records.trace import EvidenceClass, Origin

METRICS = (
    "triggered_action_accuracy", "correct_non_action", "false_trigger_rate", "prospective_utility_margin",
    "selectivity_gain", "causal_memory_dependence", "null_path_equivalence", "restart_persistence_loss",
    "unrelated_control_regression", "memory_write_success", "frozen_backbone_integrity",
)  # fmt: skip


def manifest(evidence_class: EvidenceClass = EvidenceClass.CONTROLLED) -> Manifest:
    return Manifest(
        run_id="run-1", kind="controlled", evidence_class=evidence_class, origin=Origin.OURS,
        status=RunStatus.COMPLETE, contract="controlled", contract_sha256="0" * 64, code_commit=None,
        code_hash="0" * 64, evaluator_hash="0" * 64, data_hash="0" * 64, model_hash="0" * 64, backbone="b",
        backbone_sha256="0" * 64,
        packages={}, seeds=(2026,), planned=1, stored=1, started_at=datetime(2026, 1, 1, tzinfo=UTC), finished_at=None,
        device="cpu",
    )  # fmt: skip


def criterion(metric: str, decision: Decided) -> CriterionRow:
    observed = None if decision is Decided.UNDEFINED else 0.9
    return CriterionRow(
        contract="controlled", run_id="run-1", method="C3", metric=metric, statistic="point", observed=observed,
        direction=">=", threshold=0.8, margin=None, ci_low=None, ci_high=None, n=10, decision=decision,
    )  # fmt: skip


def outcome(**decisions: Decided) -> Outcome:
    rows = tuple(criterion(m, decisions.get(m, Decided.MET)) for m in METRICS)
    held = tuple(PropertyRow(f"P{i}", "", "", 5, 5, 5, (), ()) for i in range(1, 7))
    return Outcome(manifest(), rows, held)


def statuses(controlled: Outcome | None, actuation: Outcome | None = None) -> dict[str, str]:
    return {c.claim: c.status.value for c in claims(controlled, actuation)}


WHOLE = "Under controlled conditions the complete mechanism meets its frozen contract"
USE = "It is of use beyond no memory and beyond reactive retrieval"
SIX = "The six observable properties hold in every execution looked at"


def test_without_a_run_nothing_is_established() -> None:
    assert set(statuses(None).values()) == {"not tested", "no claim"}


def test_every_criterion_met_establishes_the_controlled_claims_and_no_other() -> None:
    found = claims(outcome(), None)
    established = [c for c in found if c.status is ClaimStatus.ESTABLISHED]
    assert len(established) == 7
    assert {(c.evidence_class, c.run_id) for c in established} == {(EvidenceClass.CONTROLLED, "run-1")}
    assert all("Generator-matched" in c.limit for c in established if c.claim in (WHOLE, USE))


def test_one_criterion_not_met_rejects_the_whole_and_what_rests_on_it_by_name() -> None:
    found = {c.claim: c for c in claims(outcome(prospective_utility_margin=Decided.NOT_MET), None)}
    assert found[WHOLE].status is found[USE].status is ClaimStatus.REJECTED
    assert found[WHOLE].limit.endswith("Not met: prospective_utility_margin.")
    assert found["It is selective where always-on memory is not"].status is ClaimStatus.ESTABLISHED


def test_an_undefined_criterion_leaves_the_claim_untested() -> None:
    found = statuses(outcome(prospective_utility_margin=Decided.UNDEFINED))
    assert found[WHOLE] == found[USE] == "not tested"
    both = statuses(outcome(prospective_utility_margin=Decided.UNDEFINED, selectivity_gain=Decided.NOT_MET))
    assert both[WHOLE] == "rejected"


def test_a_property_that_fails_once_rejects_the_six() -> None:
    good = outcome()
    short = Outcome(
        good.manifest, good.criteria, (*good.properties[:5], PropertyRow("P6", "", "", 4, 5, 5, (), ("t",)))
    )
    assert statuses(short)[SIX] == "rejected"
    empty = Outcome(good.manifest, good.criteria, (*good.properties[:5], PropertyRow("P6", "", "", 0, 0, 0, (), ())))
    assert statuses(empty)[SIX] == "not tested"


def test_the_diagnostic_never_becomes_a_claim() -> None:
    for decision in (Decided.MET, Decided.NOT_MET):
        own = Outcome(manifest(), (criterion("model_action_agreement", decision),))
        assert statuses(outcome(), own)["The backbone carries out an exposed payload by itself"] == "no claim"


def test_a_claim_is_never_read_off_another_evidence_class() -> None:
    other = outcome()
    with pytest.raises(ValueError, match="run run-1 is of class transfer"):
        claims(Outcome(manifest(EvidenceClass.TRANSFER), other.criteria, other.properties), None)


def test_the_limits_of_the_paper_stand_in_the_table() -> None:
    text = " ".join(limit for _, limit in LIMITS)
    for words in (
        "0.632 is not discontinuous from 0.650", "no population estimate", "external to the model",
        "an orchestration property, not replication", "not comparable; they are never ranked", "unopened by rule",
    ):  # fmt: skip
        assert words in text

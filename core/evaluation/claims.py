"""The claims table: what is established, what is rejected, what nobody tested, and what is not claimed at all.

Promise: a status is computed from criteria of stored runs, never typed in. Refused: reading a claim of one evidence
class off the rows of another. The limits are the paper's section 9 in our words; they never change with a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.evaluation.properties import PropertyRow
from core.records.run import CriterionRow, Decided, Manifest
from core.records.trace import EvidenceClass


class ClaimStatus(StrEnum):
    """What the evidence says of a claim."""

    ESTABLISHED = "established"
    """Every criterion it rests on is met."""
    REJECTED = "rejected"
    """At least one is not met."""
    NOT_TESTED = "not tested"
    """No complete run of its class, or a criterion is undefined."""
    NO_CLAIM = "no claim"
    """Deliberately not claimed, whatever a number says."""


@dataclass(frozen=True)
class Claim:
    """One row of the table."""

    claim: str
    """What would be claimed."""
    status: ClaimStatus
    """What the evidence says."""
    evidence_class: EvidenceClass | None
    """The class of the rows it rests on; None where no rows could carry it."""
    run_id: str | None
    """The run it is read off."""
    limit: str
    """How far it reaches."""
    metrics: tuple[str, ...] = ()
    """The criteria it rests on, by metric."""

    def as_dict(self) -> dict[str, Any]:
        """Return {claim, status, class, run, limit}."""
        return {
            "claim": self.claim,
            "status": self.status.value,
            "class": self.evidence_class.value if self.evidence_class else None,
            "run": self.run_id,
            "limit": self.limit,
        }


@dataclass(frozen=True)
class Outcome:
    """A complete run and what its contract says of it."""

    manifest: Manifest
    criteria: tuple[CriterionRow, ...]
    properties: tuple[PropertyRow, ...] = ()


GENERATOR_MATCHED = (
    "Generator-matched: episodes come from the same kind of templates as the training pairs, with other subjects and "
    "template sets. It says nothing about wording nobody generated."
)
LIMITS = (
    (
        "The language model itself forms, keeps or carries out intentions",
        "Writer, trigger and action are external to the model: the controller writes the record, a separate classifier "
        "fires, and the payload is the action. The backbone is frozen and only supplies the baseline.",
    ),
    (
        "A result just under a threshold differs in kind from one just over it",
        "Thresholds are governance devices, fixed so that a near miss cannot be argued away afterwards; 0.632 is not "
        "discontinuous from 0.650. Values, margins and intervals stand beside every decision.",
    ),
    (
        "Rates over sources estimate how often users or deployments would see them",
        "Four sources are a stress test of source variation, no population estimate.",
    ),
    (
        "Equal paths over several backbones replicate prospective memory in several models",
        "All backbones share one external trigger and one controller: equality is an orchestration property, not "
        "replication.",
    ),
    (
        "One trigger or device is faster than another",
        "Latencies of different devices, number types or cold starts are not comparable; they are never ranked.",
    ),
    (
        "Redesigns that looked well on opened cases would hold on new ones",
        "Development evidence was looked at repeatedly: it locates failures and estimates nothing independent.",
    ),
    (
        "The sealed holdout supports anything",
        "It is unopened by rule: no method met every eligibility criterion, and it carries no claim.",
    ),
    (
        "This was the first system of its kind",
        "The mapping of prior work is bounded by its corpus of 46 studies and its date; later work narrows it.",
    ),
)


def _read(criteria: Sequence[CriterionRow]) -> ClaimStatus:
    decisions = {c.decision for c in criteria}
    if Decided.NOT_MET in decisions:
        return ClaimStatus.REJECTED
    if not decisions or Decided.UNDEFINED in decisions:
        return ClaimStatus.NOT_TESTED
    return ClaimStatus.ESTABLISHED


def _controlled(text: str, outcome: Outcome | None, metrics: frozenset[str] | None, limit: str) -> Claim:
    chosen = [] if outcome is None else [c for c in outcome.criteria if metrics is None or c.metric in metrics]
    failed = [c.metric for c in chosen if c.decision is Decided.NOT_MET]
    detail = f" Not met: {', '.join(failed)}." if failed else ""
    run_id = outcome.manifest.run_id if outcome is not None else None
    return Claim(text, _read(chosen), EvidenceClass.CONTROLLED, run_id, limit + detail, tuple(c.metric for c in chosen))


def claims(controlled: Outcome | None, actuation: Outcome | None) -> tuple[Claim, ...]:
    """Return the table.

    Parameters
    ----------
    controlled : the latest complete controlled run, None without one.
    actuation : the model-actuation diagnostic of that run.

    Raises
    ------
    ValueError : a run of another evidence class was handed in.

    Source
    ------
    Paper sections 8 and 9, table 3.
    """
    for outcome in (controlled, actuation):
        if outcome is not None and outcome.manifest.evidence_class is not EvidenceClass.CONTROLLED:
            raise ValueError(f"run {outcome.manifest.run_id} is of class {outcome.manifest.evidence_class}")
    held = [] if controlled is None else [p for p in controlled.properties if p.holds is False]
    undefined = controlled is None or not controlled.properties or any(p.n == 0 for p in controlled.properties)
    six = ClaimStatus.REJECTED if held else ClaimStatus.NOT_TESTED if undefined else ClaimStatus.ESTABLISHED
    observed = actuation.criteria[0] if actuation is not None and actuation.criteria else None
    said = "No diagnostic run is stored."
    if observed is not None and observed.observed is not None:
        share = f"{observed.observed:.3f} of {observed.n} triggered episodes"
        said = f"Criterion {observed.decision}: {share} (required: {observed.threshold:.2f}); kept as it came out."
    rows = [
        _controlled(
            "Under controlled conditions the complete mechanism meets its frozen contract", controlled, None,
            GENERATOR_MATCHED,
        ),
        _controlled(
            "It is of use beyond no memory and beyond reactive retrieval", controlled,
            frozenset({"prospective_utility_margin"}), GENERATOR_MATCHED,
        ),
        _controlled(
            "It is selective where always-on memory is not", controlled, frozenset({"selectivity_gain"}),
            GENERATOR_MATCHED,
        ),
        _controlled(
            "Its benefit depends causally on the stored payload", controlled, frozenset({"causal_memory_dependence"}),
            GENERATOR_MATCHED,
        ),
        _controlled(
            "Silence is exact: where nothing fires the baseline path is taken byte for byte", controlled,
            frozenset({"null_path_equivalence"}), "Of this controller and backbone; audited on every null trial.",
        ),
        _controlled(
            "Memory survives the exit of the process that wrote it", controlled,
            frozenset({"restart_persistence_loss", "memory_write_success"}), "One real process exit per seed and arm.",
        ),
        Claim(
            "The six observable properties hold in every execution looked at", six, EvidenceClass.CONTROLLED,
            controlled.manifest.run_id if controlled else None,
            "Counted from stored rows." + (f" Not in all: {', '.join(p.item for p in held)}." if held else ""),
        ),
        Claim(
            "The unchanged trigger transfers to naturalistic wording", ClaimStatus.NOT_TESTED, EvidenceClass.TRANSFER,
            None, "No transfer run is stored. Controlled success is no evidence for it; the paper rejected it for its "
            "own trigger.",
        ),
        Claim(
            "A redesigned trigger is eligible for confirmation", ClaimStatus.NOT_TESTED, EvidenceClass.DEVELOPMENT,
            None, "No redesign run is stored.",
        ),
        Claim(
            "The backbone carries out an exposed payload by itself", ClaimStatus.NO_CLAIM, EvidenceClass.CONTROLLED,
            actuation.manifest.run_id if actuation else None, said,
        ),
    ]  # fmt: skip
    return (*rows, *(Claim(text, ClaimStatus.NO_CLAIM, None, None, limit) for text, limit in LIMITS))

"""A run and its manifest: what was run, under which contract, with which code, data and models (paper section 3.6)."""

from __future__ import annotations

from enum import StrEnum

from core.records.base import Instant, Noun
from core.records.trace import EvidenceClass, Origin


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    """Shards are still missing."""
    COMPLETE = "complete"
    """Every planned execution is stored."""
    PARTIAL = "partial"
    """Limited on purpose; class demo, enters no criterion."""
    FAILED = "failed"
    """It stopped on an error, or its criterion was not met; kept."""
    AMENDED = "amended"
    """Replaced by a technical amendment; kept."""


class Manifest(Noun):
    """Everything a result depends on."""

    run_id: str
    """UUIDv7."""
    kind: str
    """controlled, transfer, redesign, factorized, followthrough, actuation."""
    evidence_class: EvidenceClass
    """What its rows may be used for."""
    origin: Origin
    """Who produced it."""
    status: RunStatus
    """Where it stands."""
    contract: str | None
    """Name of the contract."""
    contract_sha256: str | None
    """Hash of the contract's bytes."""
    code_commit: str | None
    """Commit of the checkout; NULL where git is not there."""
    code_hash: str
    """Hash of the sorted file hashes of core/ and models/."""
    evaluator_hash: str
    """The same over core/evaluation, core/controller and core/triggers: the decision logic."""
    data_hash: str
    """The same over the case data that was run."""
    model_hash: str
    """Hash of the trigger's lock and weights."""
    backbone: str
    """Name and revision."""
    backbone_sha256: str
    """Hash over all weights."""
    packages: dict[str, str]
    """Installed versions that matter."""
    seeds: tuple[int, ...]
    """Generator seeds."""
    planned: int
    """Executions planned."""
    stored: int
    """Executions stored."""
    started_at: Instant
    """When it began."""
    finished_at: Instant | None
    """When it ended."""
    device: str
    """Where it ran."""
    note: str = ""
    """Limits, or the reason of a failure, in words."""
    amends: str | None = None
    """The run it replaces."""


class Decided(StrEnum):
    """The outcome of one criterion."""

    MET = "met"
    """On the allowed side."""
    NOT_MET = "not met"
    """On the other side."""
    UNDEFINED = "undefined"
    """Not computable here; never 0."""


class CriterionRow(Noun):
    """One criterion of one contract, observed in one run."""

    contract: str
    """The contract's name."""
    run_id: str | None
    """The run; NULL for published values."""
    method: str
    """The system evaluated: `C3`, or a redesign's name."""
    metric: str
    """The metric's name."""
    statistic: str
    """`point` or `ci_low`: what is compared with the threshold."""
    observed: float | None
    """The point value."""
    direction: str
    """>=, <= or =."""
    threshold: float
    """The frozen threshold."""
    margin: float | None
    """Distance to the threshold; above 0 on the allowed side."""
    ci_low: float | None
    """95% interval."""
    ci_high: float | None
    """95% interval."""
    n: int
    """Independent episodes or cases."""
    decision: Decided
    """met, not met, undefined."""

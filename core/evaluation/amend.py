"""A technical amendment: the same evaluation run again by corrected code, never by another method.

Promise: the old run stays, marked; both results and every changed row are shown. Refused: any difference in decision
logic, data, models, splits, criteria, backbone or seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from core.config import Config
from core.errors import CheckFailed, InputError, quoted
from core.evaluation import rerun, ship, summary
from core.evaluation.frozen import EVIDENCE
from core.evaluation.plan import Plan, Report, Setup
from core.evaluation.rerun import ChangedRow
from core.evaluation.runs import draft, evaluate
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, RunAmended
from core.ledger.run_store import amend_run, get_run, runs
from core.ledger.store import open_workspace
from core.records.base import text_problem
from core.records.run import CriterionRow, Manifest, RunStatus

EQUAL = (
    "evaluator_hash", "data_hash", "model_hash", "contract_sha256", "backbone", "backbone_sha256", "seeds", "planned",
)  # fmt: skip
"""Methods, data, models, splits, criteria and decision logic."""


class AmendRefused(CheckFailed):
    """An amendment that would change more than the code around the decisions."""

    code = "amend_refused"


@dataclass(frozen=True)
class Amendment:
    """Two runs of the same evaluation."""

    old: Manifest
    new: Manifest
    reason: str
    criteria_before: tuple[CriterionRow, ...]
    criteria_after: tuple[CriterionRow, ...]
    changed: tuple[ChangedRow, ...]


def amend(
    config: Config,
    run_id: str,
    reason: str,
    *,
    plan: Plan | None = None,
    report: Report = lambda _: None,
    setup: Setup | None = None,
    evidence: Path = EVIDENCE,
) -> Amendment:
    """Run an amendment of a complete run.

    Raises
    ------
    InputError : no reason, no such run, or one that is not complete.
    AmendRefused : something other than technical code differs.
    """
    if not reason.strip():
        raise InputError("An amendment needs its reason.", next_step="Give --reason.")
    if (problem := text_problem(reason)) is not None:  # said now, not when a quarter of an hour has been spent
        raise InputError(f"The reason {problem}.", next_step="Give a readable --reason.")
    setup = setup or Setup()
    plan = replace(plan or Plan(), amends=run_id)
    old = _old(config, run_id)
    drafted = draft(config, plan, setup)
    if differ := [n.replace("_", " ") for n in EQUAL if getattr(old, n) != getattr(drafted, n)]:
        raise AmendRefused(
            f"Run {run_id} cannot be amended: {', '.join(differ)} differ. That would be another experiment.",
            next_step="Run it as a new one.",
        )
    new = _done_before(config, run_id) or evaluate(config, plan, report, setup).manifest
    rows = [summary.rows_of(config, m) for m in (old, new)]
    before, after = (summary.criteria(m, r) for m, r in zip((old, new), rows, strict=True))
    folders = [summary.folder_of(config, m, evidence) for m in (old, new)]
    changed = rerun.compare(*(rerun.by_key(f) for f in folders))
    with open_workspace(config) as store, store.write() as tx:
        amend_run(tx, run_id, new.run_id, reason)
    if run_id in ship.shipped_runs(evidence):
        body = RunAmended(run_id=run_id, replaced_by=new.run_id, reason=reason)
        EvidenceLedger(evidence).append(EntryKind.RUN_AMENDED, body, f"run:{run_id}", f"person:{config.user}")
    return Amendment(old, new, reason, before, after, tuple(changed))


def _old(config: Config, run_id: str) -> Manifest:
    with open_workspace(config) as store, store.read() as conn:
        found = get_run(conn, run_id)
    if found is None:
        raise InputError(f"There is no run {quoted(run_id)} in this workspace.")
    if found.status is not RunStatus.COMPLETE or found.kind != summary.KIND:
        raise InputError(
            f"Run {run_id} is {found.status} and of kind {found.kind}: a complete controlled run is amended."
        )
    return found


def _done_before(config: Config, run_id: str) -> Manifest | None:
    """Return the amending run that an earlier, killed amendment finished."""
    with open_workspace(config) as store, store.read() as conn:
        listed = runs(conn, summary.KIND)
    return next((m for m in listed if m.amends == run_id and m.status is RunStatus.COMPLETE), None)

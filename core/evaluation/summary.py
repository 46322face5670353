"""What a stored run comes to, counted anew from its rows: criteria, properties, arms, the model-actuation diagnostic.

Promise: nothing is read off an earlier answer; only a complete run enters a criterion, and always one run alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from core import clock
from core.config import DATA, Config
from core.errors import CheckFailed, DuebookError, EvidenceMissing, InputError, quoted
from core.evaluation import contract as contracts
from core.evaluation import metrics, run_files
from core.evaluation.actuation import agreement
from core.evaluation.claims import Claim, Outcome, claims
from core.evaluation.estimate import Estimate
from core.evaluation.metrics import ArmRow, Disagreement
from core.evaluation.properties import EvidenceRow, PropertyRow, evidence_row, properties
from core.ledger.run_store import get_run, latest_complete, runs
from core.ledger.store import open_workspace
from core.ledger.trace_tail import segments
from core.records.run import CriterionRow, Decided, Manifest, RunStatus
from core.traces.writer import partition

EVIDENCE = DATA / "evidence"
KIND, ACTUATION = "controlled", "actuation"


@dataclass(frozen=True)
class Summary:
    """A run, counted."""

    manifest: Manifest
    criteria: tuple[CriterionRow, ...]
    """Empty where the run enters no criterion."""
    properties: tuple[PropertyRow, ...]
    evidence_row: EvidenceRow
    arms: tuple[ArmRow, ...]
    disagreements: tuple[Disagreement, ...]
    """Boundaries that differ where no metric compares them; an error to show."""


def summarise(manifest: Manifest, rows: pd.DataFrame) -> Summary:
    """Count a run's rows.

    Raises
    ------
    CheckFailed : repeats of an execution disagree.
    """
    enters = manifest.status in (RunStatus.COMPLETE, RunStatus.AMENDED)
    decided = criteria(manifest, rows) if enters else ()
    return Summary(
        manifest=manifest,
        criteria=decided,
        properties=properties(rows),
        evidence_row=evidence_row(rows, decided, manifest.planned),
        arms=tuple(metrics.arms(rows)),
        disagreements=tuple(metrics.disagreements(rows)),
    )


def criteria(
    manifest: Manifest,
    rows: pd.DataFrame,
    folder: Path = contracts.CONTRACTS,
    *,
    estimates: Mapping[str, Estimate] | None = None,
) -> tuple[CriterionRow, ...]:
    """Hold a run to the contract it was run under.

    Parameters
    ----------
    estimates : the rows' metrics where the caller has counted them already; None: they are counted here.

    Raises
    ------
    CheckFailed : the contract's bytes are not those of the run.
    """
    contract = contracts.load(manifest.contract or KIND, folder)
    if contract.sha256 != manifest.contract_sha256:
        raise CheckFailed(
            f"The contract {contract.name} is not the one run {manifest.run_id} was run under: "
            f"{contract.sha256} instead of {manifest.contract_sha256}.",
            where=str(folder / f"{contract.name}.csv"),
        )
    return contracts.decide(contract, estimates or metrics.controlled(rows), run_id=manifest.run_id)


def folder_of(config: Config, manifest: Manifest, evidence: Path = EVIDENCE) -> Path:
    """Return where a run's files lie: in the workspace that made it, else with the shipped evidence."""
    own = partition(config.traces, manifest.evidence_class, manifest.run_id)
    if (own / run_files.MANIFEST).is_file():
        return own
    # A workspace that took over a shipped run lists its parts, and leaves what describes them with the evidence.
    shipped = evidence / "runs" / manifest.run_id
    return shipped if (shipped / run_files.MANIFEST).is_file() else own


def stored_run(config: Config, run_id: str | None) -> Manifest:
    """Return a controlled run of the workspace: the one named, else the latest complete one.

    Raises
    ------
    InputError : no such run, of another kind, or one that enters no criterion.
    EvidenceMissing : there is no complete run.
    """
    with open_workspace(config) as store, store.read() as conn:
        if run_id is None:
            if (found := latest_complete(conn, KIND)) is None:
                raise EvidenceMissing(
                    "There is no complete controlled run here.", next_step="Run `python -m core evaluate controlled`."
                )
            return found
        found = get_run(conn, run_id)
    if found is None:
        raise InputError(f"There is no run {quoted(run_id)} in this workspace.")
    if found.kind != KIND:
        raise InputError(f"Run {run_id} is of kind {found.kind}, not {KIND}.")
    if found.status not in (RunStatus.COMPLETE, RunStatus.AMENDED):
        raise InputError(f"Run {run_id} is {found.status}: it enters no criterion.")
    return found


def rows_of(config: Config, manifest: Manifest, evidence: Path = EVIDENCE) -> pd.DataFrame:
    """Return a run's executions: those the store lists for it and no other, parts and rows checked.

    Raises
    ------
    EvidenceMissing : files are missing, damaged or not the listed ones; nothing may be counted from them.
    """
    with open_workspace(config) as store, store.read() as conn:
        listed = [s for s in segments(conn) if s.run_id == manifest.run_id]
    listed_in = partition(config.traces, manifest.evidence_class, manifest.run_id).relative_to(config.home).as_posix()
    return run_files.read_listed_rows(folder_of(config, manifest, evidence), manifest, listed, listed_in)


# -- the diagnostic ----------------------------------------------------------------------------------------------------


def actuation(source: Manifest, rows: pd.DataFrame) -> tuple[Manifest, tuple[CriterionRow, ...]]:
    """Return the model-actuation run over a controlled run's triggered C3 executions: failed where it fails.

    Source
    ------
    Paper section 3.5.
    """
    began = clock.now()
    contract = contracts.load(ACTUATION)
    run_id = clock.new_id()
    seen = int((rows["arm"].eq("C3") & rows["fired"].astype(bool)).sum())
    reads = f"Reads the triggered C3 executions of run {source.run_id}"
    try:
        decided = contracts.decide(
            contract, {contract.criteria[0].metric: agreement(rows)}, run_id=run_id, method="backbone"
        )
        row = decided[0]
        share = "undefined" if row.observed is None else f"{row.observed:.3f} of {row.n} episodes"
        note = f"{reads}. Agreement {share}, required {row.threshold:.2f}: {row.decision}. No claim rests on it."
        status = RunStatus.COMPLETE if row.decision is Decided.MET else RunStatus.FAILED
    except CheckFailed as e:
        decided, status, note = (), RunStatus.FAILED, f"{reads}. {e.message}"
    manifest = source.model_copy(
        update={
            "run_id": run_id,
            "kind": ACTUATION,
            "status": status,
            "contract": contract.name,
            "contract_sha256": contract.sha256,
            "planned": seen,
            "stored": seen,
            "started_at": began,
            "finished_at": clock.now(),
            "note": note,
            "amends": None,
        }
    )
    return manifest, decided


def write_actuation(folder: Path, manifest: Manifest, source: Manifest) -> None:
    """Write the diagnostic's folder: its manifest, and which run it reads."""
    run_files.write_reads(folder, source.run_id)
    run_files.write_manifest(folder, manifest)


def actuation_of(config: Config, source: Manifest) -> Manifest | None:
    """Return the diagnostic that reads a run, or None."""
    with open_workspace(config) as store, store.read() as conn:
        listed = runs(conn, ACTUATION)
    return next((m for m in listed if run_files.read_reads(folder_of(config, m)) == source.run_id), None)


def actuation_criteria(manifest: Manifest, rows: pd.DataFrame) -> tuple[CriterionRow, ...]:
    """Count the diagnostic anew from the rows it reads."""
    contract = contracts.load(ACTUATION)
    return contracts.decide(
        contract, {contract.criteria[0].metric: agreement(rows)}, run_id=manifest.run_id, method="backbone"
    )


def claims_table(config: Config) -> tuple[Claim, ...]:
    """Return the claims table from the workspace's latest complete run.

    Raises
    ------
    EvidenceMissing : its files are missing or damaged.
    """
    try:
        manifest = stored_run(config, None)
    except EvidenceMissing:
        return claims(None, None)
    rows = rows_of(config, manifest)
    controlled = Outcome(manifest, criteria(manifest, rows), properties(rows))
    diagnostic = actuation_of(config, manifest)
    if diagnostic is None:
        return claims(controlled, None)
    try:
        outcome = Outcome(diagnostic, actuation_criteria(diagnostic, rows))
    except DuebookError:
        outcome = Outcome(diagnostic, ())
    return claims(controlled, outcome)

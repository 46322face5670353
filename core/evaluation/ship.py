"""Makes a complete run part of the project's evidence: its files under `data/evidence/runs/<run>`, one ledger entry.

Promise: the ledger entry comes last, and only a run that it names is evidence; a shipping killed before it leaves
files that nothing reads and that the next one replaces. Refused: a run that is not complete, or was made by code that
differs from its commit.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from core.config import ROOT, Config
from core.errors import CheckFailed, EvidenceMissing
from core.evaluation import run_files, summary
from core.evaluation.frozen import EVIDENCE
from core.evaluation.manifest import BASELINE_CACHE
from core.evaluation.shard import MakeTools, make_tools
from core.evaluation.summary import Summary
from core.files import sync_folder
from core.hashing import sha256_file
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, RunShipped
from core.records.run import Manifest, RunStatus
from core.records.trace import EvidenceClass

CRITERIA = "criteria.json"
"""What the run came to when it was shipped; verification counts it anew."""


class ShipRefused(CheckFailed):
    """A run that may not become evidence."""

    code = "ship_refused"


@dataclass(frozen=True)
class Shipped:
    """A run that became evidence."""

    run_id: str
    folder: Path
    files: dict[str, str]
    """Path in the project -> SHA-256."""
    cached: int
    """Outputs in the shipped baseline cache; 0 where the backbone keeps none."""


def shipped_runs(evidence: Path = EVIDENCE) -> dict[str, dict[str, Any]]:
    """Return the shipped runs, oldest first: run id -> the body of its entry.

    Raises
    ------
    LedgerCorrupt : the evidence ledger does not verify.
    """
    entries = EvidenceLedger(evidence).entries()
    return {body["run_id"]: body for e, body in entries if e.kind == EntryKind.RUN_SHIPPED.value}


def ship(
    config: Config,
    manifest: Manifest,
    *,
    evidence: Path = EVIDENCE,
    root: Path = ROOT,
    tools: MakeTools = make_tools,
) -> Shipped:
    """Ship a complete controlled run with its diagnostic and the outputs it was made from.

    Raises
    ------
    ShipRefused : see the module's refusals; the run is evidence already.
    EvidenceMissing : one of its files is missing or damaged.
    """
    EvidenceLedger(evidence).mend()
    _check(manifest, evidence)
    source = summary.folder_of(config, manifest, evidence)
    rows = summary.rows_of(config, manifest, evidence)
    files = _place(evidence, source, manifest, document(summary.summarise(manifest, rows)))
    diagnostic = summary.actuation_of(config, manifest)
    if diagnostic is not None:
        files |= _place(evidence, summary.folder_of(config, diagnostic, evidence), diagnostic, None)
    cached = _export_cache(config, rows, root, tools)
    if cached:
        files[root / BASELINE_CACHE] = sha256_file(root / BASELINE_CACHE)
    named = {p.relative_to(root).as_posix() if p.is_relative_to(root) else str(p): h for p, h in files.items()}
    ledger = EvidenceLedger(evidence)
    for run in (diagnostic, manifest):  # the run last: once it is named, everything it rests on is
        if run is not None:
            own = named if run is manifest else {p: h for p, h in named.items() if f"/{run.run_id}/" in p}
            ledger.append(EntryKind.RUN_SHIPPED, _body(run, own), f"run:{run.run_id}", f"person:{config.user}")
    return Shipped(manifest.run_id, evidence / "runs" / manifest.run_id, named, cached)


def document(counted: Summary) -> dict[str, Any]:
    """Return criteria and properties as JSON, the form they are shipped in."""
    return {
        "criteria": [c.model_dump(mode="json") for c in counted.criteria],
        "properties": [{"item": p.item, "k": p.k, "n": p.n} for p in counted.properties],
    }


def _check(manifest: Manifest, evidence: Path) -> None:
    if manifest.status is not RunStatus.COMPLETE or manifest.evidence_class is not EvidenceClass.CONTROLLED:
        raise ShipRefused(
            f"Run {manifest.run_id} is {manifest.status} and of class {manifest.evidence_class}: "
            "only a complete controlled run is shipped."
        )
    if (manifest.code_commit or "").endswith("-dirty"):
        raise ShipRefused(
            f"Run {manifest.run_id} was made by code, models or data that differ from commit "
            f"{(manifest.code_commit or '').removesuffix('-dirty')}.",
            next_step="Commit, run it again, and ship that run.",
        )
    if manifest.run_id in shipped_runs(evidence):
        raise ShipRefused(f"Run {manifest.run_id} is evidence already.")


def _place(evidence: Path, source: Path, manifest: Manifest, counted: dict[str, Any] | None) -> dict[Path, str]:
    """Copy a run's files into the evidence under their final names; returns them with their hashes."""
    target, staging = evidence / "runs" / manifest.run_id, evidence / f".shipping-{manifest.run_id}.tmp"
    wanted = [run_files.MANIFEST, run_files.HASHES, run_files.PARTS, run_files.READS]
    wanted += [f"{name}.parquet" for name in run_files.read_parts(source)]
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        for name in wanted:
            if (source / name).is_file():
                _copy(source / name, staging / name)
        if counted is not None:
            run_files.write_json(staging / CRITERIA, counted)
        if wrong := run_files.problems(staging, run_files.read_parts(staging)):
            raise EvidenceMissing(" ".join(wrong), where=str(source))
        sync_folder(staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # what a killed shipping left
        staging.replace(target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return {p: sha256_file(p) for p in sorted(target.iterdir())}


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written)
        written.flush()
        os.fsync(written.fileno())


def _export_cache(config: Config, rows: pd.DataFrame, root: Path, tools: MakeTools) -> int:
    """Write every output the run was made from as the shipped baseline cache."""
    backbone: Any = tools(config).backbone
    if not hasattr(backbone, "cache"):
        return 0
    prompts = {backbone.prompt(text) for text in rows["event_text"].unique()}
    proposed = rows[rows["model_action"].notna() & rows["fired"].astype(bool)]
    pairs = proposed[["event_text", "payload_bound"]].drop_duplicates()
    prompts |= {
        backbone.prompt(e, memory=[p]) for e, p in zip(pairs["event_text"], pairs["payload_bound"], strict=True)
    }
    keys: Iterable[str] = {backbone.key(p) for p in prompts}
    return int(backbone.cache.export(root / BASELINE_CACHE, keys))


def _body(manifest: Manifest, files: dict[str, str]) -> RunShipped:
    return RunShipped(
        run_id=manifest.run_id,
        run_kind=manifest.kind,
        evidence_class=manifest.evidence_class.value,
        origin=manifest.origin.value,
        contract=manifest.contract,
        contract_sha256=manifest.contract_sha256,
        code_hash=manifest.code_hash,
        evaluator_hash=manifest.evaluator_hash,
        data_hash=manifest.data_hash,
        model_hash=manifest.model_hash,
        backbone_sha256=manifest.backbone_sha256,
        rows=manifest.stored,
        files=files,
    )

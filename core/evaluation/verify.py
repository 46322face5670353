"""Re-derives the shipped evidence: chain, files, contract, data, criteria counted anew, a slice executed anew.

Promise: every check is a sentence that says what was compared; a difference is named. Code that has moved on since a
run was shipped is said and is no failure: what fails is a number or a row that does not come out again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.config import ROOT, Config
from core.errors import DuebookError
from core.evaluation import frozen, manifest, rerun, run_files, ship, summary
from core.evaluation.frozen import EVIDENCE
from core.evaluation.plan import Report, Setup
from core.hashing import sha256_file
from core.ledger.evidence_ledger import EvidenceLedger
from core.records.run import Manifest

RERUN = 10
"""Executions run again: one of each arm and boundary."""
NAMED = 5


@dataclass(frozen=True)
class Check:
    """One thing that was compared."""

    check: str
    ok: bool | None
    """None: said, not judged."""
    sentence: str


@dataclass(frozen=True)
class Verification:
    """What verifying the evidence found."""

    checks: tuple[Check, ...]
    again: int = 0
    """Executions that were run again and came out equal."""
    stored: int = 0
    """Executions of the run they were taken from."""

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(c.ok is not False for c in self.checks)

    @property
    def sentence(self) -> str:
        """What all checks together say, and of how much."""
        if not self.ok:
            return "The evidence does NOT verify."
        if not self.stored:
            return "The evidence verifies: chain and frozen files. No controlled run has been shipped."
        some = f"{self.again:,} of {self.stored:,} executions run again are equal"
        again = some if self.again else "no execution was run again"
        return f"The evidence verifies: chain, frozen files, shipped files, criteria counted anew; {again}."


def verify(
    config: Config,
    count: int = RERUN,
    *,
    evidence: Path = EVIDENCE,
    root: Path = ROOT,
    setup: Setup | None = None,
    report: Report = lambda _: None,
) -> Verification:
    """Verify everything that was shipped.

    Parameters
    ----------
    count : executions of the latest run that are run again; 0: none, more than it has: all.
    report : told what is being looked at.
    """
    report("Walking the evidence ledger ...")
    chain = EvidenceLedger(evidence).verify()
    if not chain.ok:
        return Verification((Check("ledger", False, chain.findings[0].sentence),))
    head = f"{chain.count} entries, head {chain.hash}"
    checks = [Check("ledger", True, f"The evidence ledger's chain verifies: {head}.")]
    checks += [Check("ledger", None, note) for note in chain.notes]
    checks.append(_freezes(evidence, root))
    shipped = ship.shipped_runs(evidence)
    checks += _leftovers(evidence, shipped)
    if not shipped:
        return Verification((*checks, Check("runs", None, "No run has been shipped.")))
    again = stored = 0
    latest = max((r for r in shipped if shipped[r]["run_kind"] == summary.KIND), default=None)
    for number, (run_id, body) in enumerate(shipped.items(), 1):
        report(f"Counting run {run_id} anew ({number} of {len(shipped)}, {body['rows']:,} executions) ...")
        checks += _run(run_id, body, evidence, root, run_id == latest)
    if latest is not None:
        stored = int(shipped[latest]["rows"])
    if latest is not None and count > 0 and all(c.ok is not False for c in checks):
        if count > stored:
            checks.append(Check("slice", None, f"Run {latest} has {stored:,} executions, so no more are run again."))
        report(f"Running {min(count, stored):,} executions again, past the cache ...")
        checks.append(_slice(config, evidence / "runs" / latest, min(count, stored), setup or Setup()))
        again = min(count, stored) if checks[-1].ok else 0
    return Verification(tuple(checks), again, stored)


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _freezes(evidence: Path, root: Path) -> Check:
    known = frozen.frozen_files(evidence)
    moved = [n for n, h in known.items() if not (root / n).is_file() or sha256_file(root / n) != h]
    if moved:
        return Check("frozen", False, f"Frozen files are missing or were changed: {_some(moved)}.")
    return Check("frozen", True, f"{len(known)} frozen files hash to what they were frozen with.")


def _leftovers(evidence: Path, shipped: dict[str, dict[str, Any]]) -> list[Check]:
    folders = sorted((evidence / "runs").glob("*"))
    loose = [p.name for p in folders if p.name not in shipped]
    sentence = "was not shipped to the end: no entry names it, nothing reads it"
    return [Check("runs", None, f"The folder {name} {sentence}.") for name in loose]


def _run(run_id: str, body: dict[str, Any], evidence: Path, root: Path, latest: bool) -> list[Check]:
    folder, own = evidence / "runs" / run_id, f"/{run_id}/"
    # A later shipping may have rewritten what lies outside a run's own folder (the baseline cache).
    files = {p: h for p, h in body["files"].items() if latest or own in p}
    wrong = [p for p, h in files.items() if not (root / p).is_file() or sha256_file(root / p) != h]
    if wrong:
        return [Check("files", False, f"Files of run {run_id} are missing or were changed: {_some(wrong)}.")]
    checks = [Check("files", True, f"{len(files)} files of run {run_id} hash to what they were shipped with.")]
    try:
        told = run_files.read_manifest(folder)
        checks.append(_manifest(told, body))
        if told.kind == summary.KIND:
            checks += _dependencies(told, folder, root)
            checks.append(_counted(told, folder, root))
    except DuebookError as e:
        checks.append(Check("run", False, f"Run {run_id}: {e.message}"))
    return checks


def _manifest(told: Manifest, body: dict[str, Any]) -> Check:
    same = ("contract", "contract_sha256", "code_hash", "evaluator_hash", "data_hash", "model_hash", "backbone_sha256")
    differ = [n for n in same if getattr(told, n) != body[n]]
    if differ:
        return Check("manifest", False, f"The manifest of run {told.run_id} is not its entry's: {_some(differ)}.")
    return Check("manifest", True, f"The manifest of run {told.run_id} says what its ledger entry says.")


def _dependencies(told: Manifest, folder: Path, root: Path) -> list[Check]:
    before, now = run_files.read_hashes(folder), manifest.take(told.contract or "", root)
    recorded = (before.code_hash, before.data_hash, before.evaluator_hash, before.model_hash)
    if recorded != (told.code_hash, told.data_hash, told.evaluator_hash, told.model_hash):
        return [Check("hashes", False, f"The file hashes of run {told.run_id} do not add up to its manifest.")]
    checks = []
    for name, ok, a, b in (
        ("contract", False, before.contract, now.contract),
        ("data", False, before.data, now.data),
        ("code", None, before.code, now.code),
    ):
        moved = manifest.changed(a, b)
        if not moved:
            checks.append(Check(name, True, f"The {name} files are those of run {told.run_id}."))
        elif name == "code":
            decides = "" if now.evaluator_hash != told.evaluator_hash else " The decision logic is unchanged."
            model = "" if now.model_hash == told.model_hash else " The trigger's lock or weights are among them."
            checks.append(
                Check(
                    name,
                    ok,
                    f"{len(moved)} code files differ from those that made run {told.run_id}: {_some(moved)}."
                    f"{decides}{model} Whether its rows still come out is what the slice shows.",
                )
            )
        else:
            checks.append(Check(name, ok, f"The {name} is not that of run {told.run_id}: {_some(moved)}."))
    return checks


def _counted(told: Manifest, folder: Path, root: Path) -> Check:
    rows = run_files.read_rows(folder)
    stated = json.loads((folder / ship.CRITERIA).read_bytes())
    decided = summary.criteria(told, rows, root / "data" / "contracts")
    found = ship.document(summary.summarise(told, rows)) | {"criteria": [c.model_dump(mode="json") for c in decided]}
    if found != json.loads(json.dumps(stated)):
        differ = [a["metric"] for a, b in zip(found["criteria"], stated["criteria"], strict=False) if a != b]
        return Check("criteria", False, f"Counted anew, run {told.run_id} comes to other results: {_some(differ)}.")
    met = sum(c.decision == "met" for c in decided)
    return Check(
        "criteria",
        True,
        f"Counted anew from {len(rows):,} rows, run {told.run_id} comes to the same: {met} of {len(decided)} criteria"
        " met.",
    )


def _slice(config: Config, folder: Path, count: int, setup: Setup) -> Check:
    told, old = run_files.read_manifest(folder), rerun.by_key(folder)
    keys = rerun.choose(old, count)
    try:
        backbone = setup.tools(config).backbone
        if (backbone.name, backbone.weights_sha256) != (told.backbone, told.backbone_sha256):
            return Check("slice", None, f"Not run again: the backbone here is {backbone.name}, not {told.backbone}.")
        changed = rerun.rerun(config, told, old, keys, setup)
    except DuebookError as e:
        return Check("slice", None, f"{len(keys)} executions could not be run again here: {e}")
    if changed:
        words = [f"{c.episode_id} in {c.arm} ({c.boundary}): {', '.join(c.columns) or 'missing'}" for c in changed]
        return Check("slice", False, f"{len(changed)} of {len(keys)} executions came out otherwise: {_some(words)}.")
    return Check("slice", True, f"{len(keys)} executions, run again past the cache, came out equal in every column.")

"""`ledger`: verify the workspace's ledger and the project's evidence ledger; take a head to keep elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from core.cli.base import Result, Subparsers
from core.config import Config
from core.errors import InputError
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.ledger import HeadFile, VerifyReport, damaged, head, read_head, verify
from core.ledger.store import StoreDamaged, open_workspace


def register(subparsers: Subparsers) -> None:
    """Add the command and its two parts."""
    parser = subparsers.add_parser("ledger", help="verify the ledger, or take its head", description=__doc__)
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    checking = parts.add_parser("verify", help="walk the chain and compare tables and texts; exit 1 when they differ")
    checking.add_argument("--head", type=Path, metavar="FILE", help="an exported head to hold the chain against")
    checking.set_defaults(run=run_verify)
    taking = parts.add_parser(
        "head", help="count and hash of the chain, keyed under DUEBOOK_LEDGER_KEY where it is set"
    )
    taking.add_argument("--evidence", action="store_true", help="of the evidence ledger instead of the workspace's")
    taking.set_defaults(run=run_head)


def run_verify(args: argparse.Namespace, config: Config) -> Result:
    """Verify both ledgers; a head given is held against the one it was taken of."""
    given = read_head(args.head) if args.head is not None else None
    evidence = EvidenceLedger()
    for_evidence = given is not None and given.ledger_id == evidence.ledger_id()
    own = _own(config, None if for_evidence else given)
    reports = (own, evidence.verify(head=given if for_evidence else None, key=config.ledger_key))
    document = {"ok": all(r.ok for r in reports), "ledgers": [r.as_dict() for r in reports]}
    return Result(document, "\n".join(_said(r) for r in reports), 0 if document["ok"] else 1)


def _own(config: Config, given: HeadFile | None) -> VerifyReport:
    try:
        with open_workspace(config) as store:
            return verify(store, head=given, key=config.ledger_key)
    except StoreDamaged as e:  # it could not even be opened
        return damaged("workspace", e)


def run_head(args: argparse.Namespace, config: Config) -> Result:
    """Take a head."""
    if args.evidence:
        found = EvidenceLedger().head()
        if found is None:
            raise InputError("There is no evidence ledger yet.", next_step="Freeze something with `evidence freeze`.")
        taken: HeadFile = found.keyed(config.ledger_key)
    else:
        with open_workspace(config) as store:
            taken = head(store, config.ledger_key)
    keyed = "keyed" if taken.hmac else "not keyed"
    return Result(taken.model_dump(mode="json"), f"{taken.count} entries, {taken.hash}, {keyed}")


def _said(report: VerifyReport) -> str:
    state = "verifies" if report.ok else "DOES NOT VERIFY"
    lines = [f"{report.ledger} ledger: {state}, {report.count:,} entries, {report.hash[:16]}"]
    lines += [f"  {f.sentence}" for f in report.findings]
    if report.found > len(report.findings):
        lines.append(f"  ... and {report.found - len(report.findings):,} more")
    if report.first_bad is not None:
        lines.append(f"  first bad entry: {report.first_bad}")
    lines += [f"  note: {n}" for n in report.notes]
    return "\n".join(lines)

"""`ledger`: verify the workspace's ledger, the trace files it lists, and the project's evidence ledger; take a head."""

from __future__ import annotations

import argparse
from pathlib import Path

from core.cli.base import Needs, Result, Subparsers, refuse_missing
from core.config import Config
from core.errors import InputError, StoreError
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.ledger import HeadFile, VerifyReport, damaged, head, read_head, verify
from core.ledger.store import StoreDamaged, open_workspace
from core.views.segments import ListedFiles, verify_files


def register(subparsers: Subparsers) -> None:
    """Add the command and its two parts."""
    parser = subparsers.add_parser("ledger", help="verify the ledger, or take its head", description=__doc__)
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    checking = parts.add_parser(
        "verify", help="walk the chain, compare tables, texts and trace files; exit 1 if one differs"
    )
    checking.add_argument("--head", type=Path, metavar="FILE", help="an exported head to hold the chain against")
    checking.set_defaults(run=run_verify)
    taking = parts.add_parser(
        "head", help="count and hash of the chain, keyed under DUEBOOK_LEDGER_KEY where it is set"
    )
    taking.add_argument("--evidence", action="store_true", help="of the evidence ledger instead of the workspace's")
    taking.set_defaults(run=run_head, needs=Needs.NOTHING)  # the evidence ledger's needs no workspace


def run_verify(args: argparse.Namespace, config: Config) -> Result:
    """Verify both ledgers and the listed trace files; a head given is held against the ledger it was taken of."""
    given = read_head(args.head) if args.head is not None else None
    evidence = EvidenceLedger()
    for_evidence = given is not None and given.ledger_id == evidence.ledger_id()
    own = _own(config, None if for_evidence else given)
    reports = (own, evidence.verify(head=given if for_evidence else None, key=config.ledger_key))
    files = _trace_files(config)
    document = {
        "ok": all(r.ok for r in reports) and files is not None and not files.problems,
        "ledgers": [r.as_dict() for r in reports],
        "trace_files": None if files is None else {"listed": files.listed, "problems": list(files.problems)},
    }
    lines = [*(_said(r) for r in reports), *_said_of_files(files)]
    return Result(document, "\n".join(lines), 0 if document["ok"] else 1)


def _own(config: Config, given: HeadFile | None) -> VerifyReport:
    try:
        with open_workspace(config) as store:
            return verify(store, head=given, key=config.ledger_key)
    except StoreDamaged as e:  # it could not even be opened
        return damaged("workspace", e)


def _trace_files(config: Config) -> ListedFiles | None:
    try:
        return verify_files(config)
    except StoreError:  # the ledger's own report says what is wrong with the store
        return None


def run_head(args: argparse.Namespace, config: Config) -> Result:
    """Take a head."""
    if args.evidence:
        found = EvidenceLedger().head()
        if found is None:
            raise InputError("There is no evidence ledger yet.", next_step="Freeze something with `evidence freeze`.")
        taken: HeadFile = found.keyed(config.ledger_key)
    else:
        refuse_missing(config)
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


def _said_of_files(files: ListedFiles | None) -> list[str]:
    if files is None:
        return ["trace files: not looked at, the store that lists them cannot be read"]
    if files.problems:
        bad = f"{len(files.problems):,} of {files.listed:,} listed"
        return [f"trace files: DO NOT VERIFY, {bad}", *(f"  {p}" for p in files.problems)]
    return [f"trace files: verify, {files.listed:,} listed"]

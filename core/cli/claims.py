"""`claims`: what is established, what is rejected, what nobody tested, what is not claimed."""

from __future__ import annotations

import argparse

from core.cli.base import Result, Subparsers
from core.config import Config


def register(subparsers: Subparsers) -> None:
    """Add `claims`."""
    parser = subparsers.add_parser("claims", help="what is established, rejected, not tested, not claimed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, config: Config) -> Result:
    """Answer with the claims table: claim, status, class, run, limit."""
    from core.evaluation import summary

    table = summary.claims_table(config)
    lines = []
    for c in table:
        of = f" [{c.evidence_class}{', run ' + c.run_id if c.run_id else ''}]" if c.evidence_class else ""
        lines += [f"{c.status.upper()}: {c.claim}.{of}", f"    {c.limit}"]
    return Result([c.as_dict() for c in table], "\n".join(lines))

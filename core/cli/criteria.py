"""`criteria controlled`: the frozen criteria of a contract against one run, counted from its stored rows."""

from __future__ import annotations

import argparse

from core.cli.base import Result, Subparsers
from core.cli.tables import criteria_lines
from core.config import Config


def register(subparsers: Subparsers) -> None:
    """Add `criteria`."""
    parser = subparsers.add_parser("criteria", help="the frozen criteria of a contract against a run")
    contracts = parser.add_subparsers(dest="contract", metavar="CONTRACT", required=True)
    controlled = contracts.add_parser("controlled", help="the eleven criteria of the controlled evaluation")
    controlled.add_argument("--run", dest="run_id", metavar="ID", help="this run (default: the latest complete one)")
    controlled.set_defaults(run=run)


def run(args: argparse.Namespace, config: Config) -> Result:
    """Answer with one row a criterion; a criterion that is not met is an answer, not a failure."""
    from core.evaluation import summary

    manifest = summary.stored_run(config, args.run_id)
    rows = summary.criteria(manifest, summary.rows_of(config, manifest))
    head = f"Contract {manifest.contract}, run {manifest.run_id} ({manifest.status}), class {manifest.evidence_class}"
    return Result(rows, "\n".join([head, "", *criteria_lines(rows)]))

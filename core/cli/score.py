"""`score --cases F --trigger NAME|all --out F`: any case file; lifecycle rules first."""

from __future__ import annotations

import argparse
from pathlib import Path

from core.cli.base import Result, Subparsers, progress
from core.config import Config
from core.evaluation.score import Tally, score_file
from core.triggers import registry
from core.triggers.base import Trigger


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "score",
        help="score a case file with a trigger",
        description="Score every case of a JSON Lines file. Lifecycle rules come first: a record that is replaced, "
        "cancelled or expired is never judged. A file with a bad line is refused whole, every bad line named.",
    )
    parser.add_argument("--cases", type=Path, required=True, metavar="F", help="the case file")
    parser.add_argument(
        "--trigger", required=True, metavar="NAME", help=f"{', '.join(registry.NAMES)}, or all that can be used here"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="F", help="where the score lines go")


def run(args: argparse.Namespace, config: Config) -> Result:
    """Score the file."""
    triggers, missing = _triggers(args.trigger)
    for info in missing:
        progress(f"Left out: {info.name}. {info.why_not}")
    tallies = score_file(args.cases, triggers, args.out, progress)
    document = {
        "cases": tallies[0].cases,
        "out": str(args.out),
        "triggers": tallies,
        "left_out": [{"trigger": info.name, "why_not": info.why_not} for info in missing],
    }
    return Result(document, "\n".join([*(_row(t) for t in tallies), f"Written: {args.out}"]))


def _triggers(name: str) -> tuple[list[Trigger], list[registry.TriggerInfo]]:
    if name != "all":
        return [registry.get(name)], []
    found = registry.installed()
    return [registry.get(i.name) for i in found if i.available], [i for i in found if not i.available]


def _row(tally: Tally) -> str:
    silent = ", ".join(f"{reason} {n}" for reason, n in sorted(tally.null_reasons.items())) or "none"
    return (
        f"{tally.trigger}: {tally.fired} of {tally.cases} cases fired at {tally.threshold:g}; silent: {silent}; "
        f"distractor decisions that fired: {tally.distractor_fires}"
    )

"""`score --cases F --trigger NAME|all --out F`: any case file, to a file or to standard output (`-`)."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from core.cli.base import Result, Subparsers, progress
from core.config import Config
from core.errors import InputError
from core.evaluation.score import Tally, score_file, score_into
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
    parser.add_argument("--out", required=True, metavar="F", help="a file, or - for standard output")


def run(args: argparse.Namespace, config: Config) -> Result:
    """Score the file."""
    to_stdout = args.out == "-"
    if to_stdout and getattr(args, "json", False):
        raise InputError("--json answers on standard output, where --out - writes the scores: give a file.")
    triggers, missing = _triggers(args.trigger)
    for info in missing:
        progress(f"Left out: {info.name}. {info.why_not}")
    if to_stdout:
        with tempfile.TemporaryFile() as whole:  # a file with a bad line gives no scores at all, here neither
            score_into(whole, args.cases, triggers, progress)
            whole.seek(0)
            shutil.copyfileobj(whole, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return Result(None, "")
    tallies = score_file(args.cases, triggers, Path(args.out), progress)
    document = {
        "cases": tallies[0].cases,
        "out": args.out,
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

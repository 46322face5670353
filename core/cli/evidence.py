"""`evidence verify | freeze | amend`: committed evidence, re-derived, fixed beforehand, corrected openly."""

from __future__ import annotations

import argparse
from pathlib import Path

from core.cli.base import Needs, Result, Subparsers, progress
from core.cli.tables import criteria_lines
from core.config import Config
from core.errors import InputError, quoted


def register(subparsers: Subparsers) -> None:
    """Add `evidence`."""
    parser = subparsers.add_parser("evidence", help="verify, freeze or amend evidence")
    does = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    verify = does.add_parser("verify", help="chain, files, criteria counted anew, a slice executed anew")
    verify.add_argument(
        "--rerun",
        type=int,
        default=10,
        metavar="N",
        help="executions run again, past the cache (default 10); at most all",
    )
    verify.set_defaults(run=_verify, needs=Needs.NOTHING)
    freeze = does.add_parser("freeze", help="fix contracts or case sets by hash before anything is scored on them")
    freeze.add_argument(
        "files", nargs="+", type=Path, metavar="F", help="files or folders of data/contracts and data/controlled"
    )
    freeze.set_defaults(run=_freeze, needs=Needs.NOTHING)
    amend = does.add_parser("amend", help="run a complete run again with technically corrected code; the old one stays")
    amend.add_argument("run_id", metavar="RUN")
    amend.add_argument("--reason", required=True, metavar="T", help="what was wrong, and that no outcome led to it")
    amend.add_argument("--jobs", type=int, default=0, metavar="N", help="worker processes (default: one a core)")
    amend.add_argument("--ship", action="store_true", help="make the amending run part of the project's evidence")
    amend.set_defaults(run=_amend)


def _verify(args: argparse.Namespace, config: Config) -> Result:
    from core.evaluation.verify import verify

    if args.rerun < 1:
        raise InputError(f"--rerun takes a number of executions, at least 1, not {quoted(args.rerun)}.")
    found = verify(config, args.rerun, report=progress)
    word = {True: "ok", False: "FAILED", None: "note"}
    lines = [f"{word[c.ok]:6}  {c.sentence}" for c in found.checks]
    lines.append(found.sentence)
    return Result({"ok": found.ok, "checks": found.checks}, "\n".join(lines), 0 if found.ok else 1)


def _freeze(args: argparse.Namespace, config: Config) -> Result:
    from core.evaluation.frozen import freeze

    done = freeze(args.files, f"person:{config.user}")
    lines = []
    for f in done:
        if not f.added:
            lines.append(f"{f.file} is frozen as it stands ({f.sha256}).")
        else:
            again = "" if f.before is None else f"; it was frozen before as {f.before}: this is a new set"
            lines.append(f"{f.file} frozen as {f.sha256}{again}.")
    return Result(done, "\n".join(lines))


def _amend(args: argparse.Namespace, config: Config) -> Result:
    from core.evaluation import ship
    from core.evaluation.amend import amend
    from core.evaluation.plan import Plan

    done = amend(config, args.run_id, args.reason, plan=Plan(jobs=args.jobs), report=progress)
    shipped = ship.ship(config, done.new) if args.ship else None
    lines = [
        f"Run {done.old.run_id} is amended by run {done.new.run_id}: {done.reason}",
        "",
        "Before:",
        *criteria_lines(done.criteria_before),
        "",
        "After:",
        *criteria_lines(done.criteria_after),
        "",
        f"{len(done.changed):,} executions changed.",
        *(f"  {c.episode_id} {c.arm} {c.boundary}: {', '.join(c.columns) or 'missing'}" for c in done.changed[:20]),
    ]
    if shipped is not None:
        lines += ["", f"Shipped as {shipped.folder}."]
    return Result({**vars(done), "shipped": shipped}, "\n".join(lines))

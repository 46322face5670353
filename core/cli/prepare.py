"""`prepare`: a workspace with the shipped evidence in it."""

from __future__ import annotations

import argparse

from core.acts.prepare import prepare
from core.cli.base import Result, Subparsers, progress
from core.config import Config


def register(subparsers: Subparsers) -> None:
    """Add `prepare`."""
    parser = subparsers.add_parser("prepare", help="make a workspace, with the shipped evidence in it")
    parser.add_argument("--demo", action="store_true", help="of class demo: times may be set freely")
    parser.add_argument("--force", action="store_true", help="make a demo workspace anew; all in it is lost")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, config: Config) -> Result:
    """Prepare the workspace; a backbone that cannot be made ready is said and is no failure."""
    done = prepare(config, demo=args.demo, force=args.force, models=True, report=progress)
    lines = [f"The workspace {done.home} (class {done.workspace_class}) is ready with {_runs(len(done.runs))}."]
    if done.backbone_failure:
        lines.append(f"The frozen backbone is not ready, the console works without it: {done.backbone_failure}")
    return Result(done, "\n".join(lines))


def _runs(count: int) -> str:
    return "no shipped run" if count == 0 else f"{count} shipped run" + ("s" if count > 1 else "")

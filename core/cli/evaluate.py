"""`evaluate controlled`: run an experiment, or go on with one that was interrupted."""

from __future__ import annotations

import argparse
from typing import Any

from core.cli.base import Result, Subparsers, progress
from core.cli.tables import criteria_lines, property_lines
from core.config import Config


def register(subparsers: Subparsers) -> None:
    """Add `evaluate`."""
    parser = subparsers.add_parser("evaluate", help="run an experiment; resumable")
    kinds = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    controlled = kinds.add_parser("controlled", help="7,200 executions: 3 seeds x 5 arms x 2 boundaries x 240 episodes")
    controlled.add_argument("--jobs", type=int, default=0, metavar="N", help="worker processes (default: one a core)")
    controlled.add_argument(
        "--limit", type=int, metavar="N", help="only N episodes, each in every arm and boundary; enters no criterion"
    )
    controlled.add_argument("--resume", "--run-id", metavar="RUN", help="go on with this unfinished run and no other")
    controlled.add_argument("--new", action="store_true", help="begin anew even where a run could be resumed")
    controlled.add_argument("--ship", action="store_true", help="make the finished run part of the project's evidence")
    controlled.set_defaults(run=run)


def run(args: argparse.Namespace, config: Config) -> Result:
    """Run it; whatever comes out is the answer, so a criterion that is not met is no failure of the command."""
    from core.evaluation import ship, summary
    from core.evaluation.plan import Plan
    from core.evaluation.runs import evaluate
    from core.evaluation.ship import ShipRefused

    if args.ship and args.limit is not None:
        raise ShipRefused("A limited run enters no criterion and is never shipped.", next_step="Leave out --limit.")
    plan = Plan(limit=args.limit, jobs=args.jobs, resume=args.resume, new=args.new)
    done = evaluate(config, plan, progress)
    rows = summary.rows_of(config, done.manifest)
    counted = summary.summarise(done.manifest, rows)
    diagnostic = summary.actuation_of(config, done.manifest)
    shipped = ship.ship(config, done.manifest) if args.ship else None
    document: dict[str, Any] = {
        "run": done.manifest,
        "folder": done.folder,
        "resumed": done.resumed,
        "ran": done.ran,
        "seconds": round(done.seconds, 1),
        "criteria": counted.criteria,
        "properties": counted.properties,
        "evidence_row": counted.evidence_row,
        "arms": counted.arms,
        "disagreements": counted.disagreements,
        "actuation": diagnostic,
        "shipped": shipped,
    }
    m = done.manifest
    lines = [
        f"Run {m.run_id} is {m.status}: {m.stored:,} of {m.planned:,} executions, class {m.evidence_class}, "
        f"{done.ran:,} run now in {done.seconds:.0f} s. {m.note}".rstrip(),
        "",
        *(criteria_lines(counted.criteria) if counted.criteria else ["It enters no criterion."]),
        "",
        *property_lines(counted.properties),
    ]
    if counted.disagreements:
        lines += ["", "Copies that disagree:", *(f"  {d}" for d in counted.disagreements[:10])]
    if diagnostic is not None:
        lines += ["", f"Model actuation, run {diagnostic.run_id}, {diagnostic.status}: {diagnostic.note}"]
    if shipped is not None:
        lines += ["", f"Shipped as {shipped.folder} ({len(shipped.files)} files, {shipped.cached:,} cached outputs)."]
    return Result(document, "\n".join(lines))

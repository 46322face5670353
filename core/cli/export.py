"""`export traces`: exactly the executions a filter selects, all columns, to a file or to standard output (`-`)."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from core.cli.base import Result, Subparsers, progress
from core.config import Config
from core.errors import InputError
from core.files import write_whole
from core.records.filter import Filter
from core.views.read.export import ExportFormat, export
from core.views.read.traces import field_names
from core.views.views import Views


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("export", help="write what a filter selects to a file", description=__doc__)
    topics = parser.add_subparsers(dest="topic", metavar="WHAT", required=True)
    traces = topics.add_parser("traces", help="executions", description=__doc__)
    traces.add_argument(
        "--filter", action="append", default=[], metavar="FIELD:OP:VALUE", help="as in a page's address; repeatable"
    )
    traces.add_argument("--format", choices=list(ExportFormat), default=ExportFormat.CSV.value)
    traces.add_argument("--out", required=True, metavar="F", help="a file, or - for standard output")


def run(args: argparse.Namespace, config: Config) -> Result:
    """Write the export."""
    # `f=field:op:value` is how the page's address spells it; both are taken.
    tokens = [t.removeprefix("f=") for t in args.filter]
    chosen = Filter.parse(tokens, field_names())
    to_stdout = args.out == "-"
    if to_stdout and getattr(args, "json", False):
        raise InputError("--json answers on standard output, where --out - writes the export: give a file.")
    with closing(Views(config)) as views, views.snapshot() as snapshot:
        for problem in snapshot.problems:
            progress(problem)
        if to_stdout:
            rows = export(snapshot, chosen, args.format, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            with write_whole(Path(args.out)) as file:
                rows = export(snapshot, chosen, args.format, file)
        document = {
            "out": args.out, "format": args.format, "rows": rows, "filter": chosen.tokens(), "as_of": snapshot.as_of,
            "left_out": list(snapshot.problems),
        }  # fmt: skip
    if to_stdout:
        return Result(document, "")
    return Result(document, f"{rows:,} executions written to {args.out} (as of entry {snapshot.as_of})")

"""`sql QUERY`: one SELECT over the views, at most 1,000 rows and 10 seconds.

`sql "DESCRIBE trace"` lists a view's columns; without a query the views are listed.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from core.cli.base import Result, Subparsers, progress
from core.cli.tables import aligned
from core.config import Config
from core.views.catalog import VIEW_NAMES, view_file
from core.views.query import run_query

CELL = 60
"""Characters of a cell on a terminal; `--json` cuts nothing."""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("sql", help="one SELECT over the views", description=__doc__)
    parser.add_argument("query", nargs="?", metavar="QUERY", help="one SELECT; left out: the views are listed")


def run(args: argparse.Namespace, config: Config) -> Result:
    """Run the query."""
    if args.query is None:
        files = [view_file(name) for name in VIEW_NAMES]
        listed = [(f.name, f.header["Title"], f.header["Grain"]) for f in files]
        document = {"columns": ["view", "title", "grain"], "rows": listed, "truncated": False, "left_out": []}
        return Result(document, "\n".join(aligned(("view", "title", "grain"), listed)))
    found = run_query(config, args.query)
    for problem in found.left_out:
        progress(problem)
    lines = aligned(found.columns, [[_cell(v) for v in row] for row in found.rows])
    lines.append(f"the first {len(found.rows):,} rows; there are more" if found.truncated else _rows(len(found.rows)))
    document = {
        "columns": list(found.columns), "rows": found.rows, "truncated": found.truncated,
        "left_out": list(found.left_out),
    }  # fmt: skip
    return Result(document, "\n".join(lines))


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _cell(value: Any) -> str:
    text = "NULL" if value is None else value if isinstance(value, str) else json.dumps(value)
    # A stored text must not move the cursor or recolour the terminal.
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"

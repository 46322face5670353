"""The view files: one view a file, its header parsed and its columns described.

Promise: a view without Title, Grain, Evidence class, Source or a described column does not load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.errors import ViewError, quoted
from core.records.trace import Trace

FOLDER = Path(__file__).parent / "sql"

VIEW_NAMES = (
    "trace",
    "run",
    "annotation",
    "record",
    "ledger_entry",
    "run_rows",
    "episode",
    "arm_summary",
    "score_histogram",
    "score_summary",
    "null_audit",
    "metric",
    "property",
)
"""Every view, in the order they are made: one may read those before it."""

HEADER = ("Title", "Grain", "Evidence class", "Source")


@dataclass(frozen=True)
class ViewFile:
    """One view: what its file says about it."""

    name: str
    """The view's and the file's name."""
    header: Mapping[str, str]
    """Title, Grain, Evidence class, Source."""
    columns: Mapping[str, str]
    """A sentence a column."""
    body: str
    """The SELECT."""


def parse(name: str, text: str) -> ViewFile:
    """Read a view file.

    Raises
    ------
    ViewError : the header lacks a line.
    """
    header: dict[str, str] = {}
    columns: dict[str, str] = {}
    lines = text.splitlines()
    comments = [line[3:].strip() for line in lines if line.startswith("-- ")]
    for line in comments:
        key, colon, value = line.partition(":")
        if colon and key in HEADER:
            header[key] = value.strip()
        elif m := re.fullmatch(r"Column ([a-z0-9_]+): (.+)", line):
            columns[m[1]] = m[2]
    if missing := [key for key in HEADER if not header.get(key)]:
        raise ViewError(f"The view file {name}.sql lacks {', '.join(missing)} in its header.")
    if name == "trace":
        columns = {f: i.description or "" for f, i in Trace.model_fields.items()} | columns
    body = "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
    return ViewFile(name, header, columns, body)


@cache
def view_file(name: str) -> ViewFile:
    """Return one view's file.

    Raises
    ------
    ViewError : no such view.
    """
    if name not in VIEW_NAMES:
        raise ViewError(f"There is no view {quoted(name)}; there are {', '.join(VIEW_NAMES)}.")
    return parse(name, (FOLDER / f"{name}.sql").read_text())

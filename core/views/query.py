"""One SELECT of a user's own over the views, with a limit of rows, time and memory.

It runs in a process of its own, which is ended at the limit: DuckDB looks at an interrupt between pieces of work only,
and `SELECT list_sum(range(400000000))` is one piece. What is refused: `query_check`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from core.config import ROOT, Config
from core.errors import StoreError, ViewError

ROWS = 1_000
SECONDS = 10.0


@dataclass(frozen=True)
class QueryResult:
    """What a query returned."""

    columns: tuple[str, ...]
    """Names, as asked for; they may repeat."""
    rows: tuple[tuple[Any, ...], ...]
    """At most 1,000, of values that JSON has; anything else is the text that DuckDB prints."""
    truncated: bool
    """Whether there were more."""
    left_out: tuple[str, ...] = ()
    """A sentence for each damaged segment whose rows are missing."""


def run_query(config: Config, sql: str, *, rows: int = ROWS, seconds: float = SECONDS) -> QueryResult:
    """Run one SELECT over the views.

    Parameters
    ----------
    sql : one statement; `SUMMARIZE trace` and `DESCRIBE trace` count as one.
    rows, seconds : the limits.

    Raises
    ------
    ViewError : not one SELECT, a table that is no view, a refused function, too slow, too large, wrong in itself.
    StoreError : the store cannot be read.
    """
    order = {"home": str(config.home), "sql": sql, "rows": rows, "seconds": seconds}
    done = subprocess.run(
        [sys.executable, "-m", "core.views.query_process"],
        input=json.dumps(order).encode(),
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode == -signal.SIGALRM:
        raise ViewError(f"The query took longer than {seconds:g} seconds and was stopped.", next_step="Ask for less.")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ViewError(
            f"The query's process was ended by {name}: it may need too much memory.", next_step="Ask for less."
        )
    if done.returncode:
        raise RuntimeError(f"The query's process ended with exit code {done.returncode}.\n{done.stderr.decode()}")
    answer = json.loads(done.stdout)
    if error := answer.get("error"):
        kind = StoreError if error["code"] == StoreError.code else ViewError
        raise kind(error["message"], where=error["where"], next_step=error["next"])
    return QueryResult(
        columns=tuple(answer["columns"]),
        rows=tuple(tuple(row) for row in answer["rows"]),
        truncated=answer["truncated"],
        left_out=tuple(answer["left_out"]),
    )

"""The process of one query: the order comes as JSON on standard input, the answer goes to standard output.

Promise: it ends itself at the limit of time, by a signal that nothing in it can delay, also when whoever asked is gone.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from typing import Any

import duckdb

from core import config
from core.clock import format_instant
from core.config import Config
from core.errors import DuebookError, ViewError
from core.views.query_check import check, first_line
from core.views.views import Views

MEMORY = "1GB"
"""What DuckDB may use."""
DATA_BYTES = 4 * 2**30
"""What the process may: DuckDB does not count the values that a function is at work on."""


def main() -> None:
    """Answer one order."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is answered by whoever asked
    order = json.load(sys.stdin)
    try:
        answer = json.dumps(_answer(config.load(order["home"]), order["sql"], order["rows"], order["seconds"]))
    except DuebookError as e:
        answer = json.dumps({"error": e.as_dict()})
    except MemoryError:
        answer = json.dumps({"error": _too_large().as_dict()})
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write(answer)


def _answer(settings: Config, sql: str, rows: int, seconds: float) -> dict[str, Any]:
    with closing(Views(settings, memory=MEMORY)) as views, views.snapshot() as snapshot:
        _limit(seconds)
        return answer_of(snapshot.cursor, sql, rows) | {"left_out": snapshot.problems}


def _limit(seconds: float) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    own = DATA_BYTES if most == resource.RLIM_INFINITY else min(DATA_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (own, most))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever it is busy with
    signal.setitimer(signal.ITIMER_REAL, seconds)


def answer_of(cursor: duckdb.DuckDBPyConnection, sql: str, limit: int) -> dict[str, Any]:
    """Return a query's columns, at most `limit` rows as values that JSON has, and whether there were more.

    Raises
    ------
    ViewError : the query is refused, needs too much memory, or is wrong in itself.
    """
    try:
        check(cursor, sql)
        return _run(cursor, sql, limit)
    except (duckdb.OutOfMemoryException, MemoryError) as e:
        raise _too_large() from e
    except duckdb.Error as e:
        raise ViewError(first_line(e)) from e


def _too_large() -> ViewError:
    return ViewError(f"The query needs more than {MEMORY} of memory.", next_step="Ask for less.")


def _run(cursor: duckdb.DuckDBPyConnection, sql: str, limit: int) -> dict[str, Any]:
    found = cursor.sql(sql)
    # As JSON, by DuckDB itself: Arrow and Python have no dates beyond the year 9999, no 24:00, no infinite instants.
    texts = found.project(", ".join(f"to_json(#{n})" for n in range(1, len(found.columns) + 1)))
    instants = [str(kind) == "TIMESTAMP WITH TIME ZONE" for kind in found.types]
    rows: list[list[Any]] = []
    for batch in texts.to_arrow_reader(limit + 1):
        columns = (column.to_pylist() for column in batch.columns)
        rows += ([_value(t, i) for t, i in zip(row, instants, strict=True)] for row in zip(*columns, strict=True))
        if len(rows) > limit:
            break
    return {"columns": found.columns, "rows": rows[:limit], "truncated": len(rows) > limit}


def _value(text: str | None, instant: bool) -> Any:
    if text is None:
        return None
    value = json.loads(text, parse_float=_number, parse_constant=str)
    return _instant(value) if instant and isinstance(value, str) else value


def _number(text: str) -> float | str:
    """Return a number as a float where it is the same number, otherwise as it is written."""
    return float(text) if Decimal(repr(float(text))) == Decimal(text) else text


def _instant(text: str) -> str:
    """Return an instant as every command writes it; one that Python has no value for stays as DuckDB prints it."""
    try:
        return format_instant(datetime.fromisoformat(text))
    except ValueError:
        return text


if __name__ == "__main__":
    main()

"""One SELECT of a user's own over the views, in an instance of its own, with a limit of rows, time and memory.

DuckDB's settings alone do not do it: a folder that may be read may also be written to (COPY) and read as text or as
other tables. So the parsed statement is walked, and every table and table function in it must be on a list.
Refused: more than one statement, anything but a SELECT, file and settings functions, tables that are no views.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from threading import Timer
from typing import Any
from uuid import UUID

import duckdb

from core.config import Config
from core.errors import ViewError
from core.views.catalog import VIEW_NAMES
from core.views.views import Views

ROWS = 1_000
SECONDS = 10.0
MEMORY = "1GB"
TEXT_BYTES = 100_000

TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})
"""Table functions that read nothing."""
_REFUSED = re.compile(
    r"(pg_|duckdb_|pragma_|__|read_|parquet_|has_).*"
    r"|current_setting|getenv|getvariable|write_log|sleep_ms|nextval|currval|glob|query|query_table|which_secret"
    r"|json_(de)?serialize_sql|json_execute_serialized_sql|in_search_path|current_query|version|create_sort_key"
)
_HARMLESS = frozenset({"pg_typeof"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class QueryResult:
    """What a query returned."""

    columns: tuple[str, ...]
    """Names, as asked for; they may repeat."""
    rows: tuple[tuple[Any, ...], ...]
    """At most 1,000, of JSON-able values."""
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
    """
    with closing(Views(config, memory=MEMORY)) as views, views.snapshot() as snapshot:
        check(snapshot.cursor, sql)
        timer = Timer(seconds, snapshot.cursor.interrupt)
        timer.start()
        try:
            return replace(_run(snapshot.cursor, sql, rows), left_out=snapshot.problems)
        except duckdb.InterruptException as e:
            raise ViewError(
                f"The query took longer than {seconds:g} seconds and was stopped.", next_step="Ask for less."
            ) from e
        except duckdb.OutOfMemoryException as e:
            raise ViewError(f"The query needs more than {MEMORY} of memory.", next_step="Ask for less.") from e
        except duckdb.Error as e:
            raise ViewError(_first_line(e)) from e
        finally:
            timer.cancel()


def _run(cursor: duckdb.DuckDBPyConnection, sql: str, limit: int) -> QueryResult:
    reader = cursor.sql(sql).to_arrow_reader(limit + 1)
    found: list[tuple[Any, ...]] = []
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        found += zip(*columns, strict=True)
        if len(found) > limit:
            break
    rows = tuple(tuple(jsonable(v) for v in row) for row in found[:limit])
    return QueryResult(tuple(reader.schema.names), rows, len(found) > limit)


def jsonable(value: Any) -> Any:
    """Return a value of any DuckDB type as one that JSON has."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, timedelta | UUID):
        return str(value)
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one SELECT over views.

    Raises
    ------
    ViewError : says which part is refused.
    """
    if "\x00" in sql or len(sql.encode(errors="replace")) > TEXT_BYTES:
        raise ViewError(f"A query is at most {TEXT_BYTES:,} bytes and holds no NUL character.")
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as e:
        raise ViewError(_first_line(e)) from e
    if len(statements) != 1:
        raise ViewError(f"One SELECT is taken, not {len(statements)} statements.")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise ViewError(f"Only a SELECT is taken, not {statements[0].type.name.replace('_', ' ')}.")
    try:
        serialised = connection.sql("SELECT json_serialize_sql(?::VARCHAR) AS tree", params=[sql]).to_arrow_table()
        tree = json.loads(serialised["tree"][0].as_py())
        nodes = list(_nodes(tree))
    except (duckdb.Error, RecursionError) as e:
        raise ViewError("The query cannot be checked: it is nested too deeply.") from e
    if tree["error"]:
        raise ViewError(f"The query is not a plain SELECT: {tree.get('error_message', '')}")
    named = {str(entry["key"]) for n in nodes for entry in (n.get("cte_map") or {}).get("map", [])}
    # A WITH name is one only inside its query; outside it might be a file's.
    if odd := sorted(n for n in named if not _NAME.fullmatch(n)):
        raise ViewError(f"The WITH name {odd[0]!r} is not a plain word.")
    allowed = {n.lower() for n in named} | set(VIEW_NAMES)
    for node in nodes:
        _check_node(node, allowed)


def _check_node(node: dict[str, Any], allowed: set[str]) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        path = [str(p) for p in (node.get("qualified_name") or {}).get("path", [])] or [str(node.get("table_name"))]
        if path[-1].lower() not in allowed or not {p.lower() for p in path[:-1]} <= {"main", "memory"}:
            raise ViewError(f"There is no view {'.'.join(path)!r}; there are {', '.join(VIEW_NAMES)}.")
    elif kind == "TABLE_FUNCTION":
        name = str(node["function"].get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise ViewError(f"The table function {name} is not allowed here; the views are {', '.join(VIEW_NAMES)}.")
    elif kind == "SHOW_REF" and node.get("query") is None:
        raise ViewError(f"Only a SELECT is taken; the views are {', '.join(VIEW_NAMES)}.")
    elif kind in ("COLUMN_DATA", "BOUND_TABLE_REF", "DELIM_GET"):
        raise ViewError("The query is not a plain SELECT.")
    name = str(node.get("function_name") or "").lower()
    if name and name not in _HARMLESS and _REFUSED.fullmatch(name):
        raise ViewError(f"The function {name} is not allowed here.")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _first_line(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "The query failed")
    return text if text.endswith((".", "!", "?")) else f"{text}."

"""What a user's own query may be: one SELECT over the views.

DuckDB's settings alone do not hold it to that: a folder that may be read may also be written to (COPY) and read as text
or as other tables. So the parsed statement is walked, and every table and table function in it must be on a list.
Refused: more than one statement, anything but a SELECT, file and settings functions, tables that are no views.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

from core.errors import ViewError, quoted, shortened
from core.records.base import text_problem
from core.views.catalog import VIEW_NAMES

TEXT_BYTES = 100_000
SAID = 400
"""Characters of what DuckDB says; it repeats the query where that is one long word."""

TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})
"""Table functions that read nothing."""
_REFUSED = re.compile(
    r"(pg_|duckdb_|pragma_|__|read_|parquet_|has_).*"
    r"|current_setting|getenv|getvariable|write_log|sleep_ms|nextval|currval|glob|query|query_table|which_secret"
    r"|json_(de)?serialize_sql|json_execute_serialized_sql|in_search_path|current_query|version|create_sort_key"
)
_HARMLESS = frozenset({"pg_typeof"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one SELECT over views.

    Raises
    ------
    ViewError : says which part is refused.
    """
    if (problem := text_problem(sql, TEXT_BYTES)) is not None:
        raise ViewError(f"The query {problem}.")
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as e:
        raise ViewError(first_line(e)) from e
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
        raise ViewError(f"The query is not a plain SELECT: {shortened(str(tree.get('error_message', '')), SAID)}")
    named = {str(entry["key"]) for n in nodes for entry in (n.get("cte_map") or {}).get("map", [])}
    # A WITH name is one only inside its query; outside it might be a file's or a table's.
    if odd := sorted(n for n in named if not _NAME.fullmatch(n)):
        raise ViewError(f"The WITH name {quoted(odd[0])} is not a plain word.")
    if taken := sorted(n for n in named if n.lower() in _tables(connection)):
        raise ViewError(f"The WITH name {quoted(taken[0])} is the name of a table; take another.")
    allowed = {n.lower() for n in named} | set(VIEW_NAMES)
    for node in nodes:
        _check_node(node, allowed)


def _check_node(node: dict[str, Any], allowed: set[str]) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        path = [str(p) for p in (node.get("qualified_name") or {}).get("path", [])] or [str(node.get("table_name"))]
        if path[-1].lower() not in allowed or not {p.lower() for p in path[:-1]} <= {"main", "memory"}:
            raise ViewError(f"There is no view {quoted('.'.join(path))}; there are {', '.join(VIEW_NAMES)}.")
    elif kind == "TABLE_FUNCTION":
        name = str(node["function"].get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise ViewError(
                f"The table function {shortened(name, 80)} is not allowed here; the views are {', '.join(VIEW_NAMES)}."
            )
    elif kind == "SHOW_REF" and node.get("query") is None:
        raise ViewError(f"Only a SELECT is taken; the views are {', '.join(VIEW_NAMES)}.")
    elif kind in ("COLUMN_DATA", "BOUND_TABLE_REF", "DELIM_GET"):
        raise ViewError("The query is not a plain SELECT.")
    name = str(node.get("function_name") or "").lower()
    if name and name not in _HARMLESS and _REFUSED.fullmatch(name):
        raise ViewError(f"The function {shortened(name, 80)} is not allowed here.")


def _tables(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the names, in lower case, of all tables but the views: DuckDB's own, and ours below the views."""
    rows = connection.execute("SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views()")
    return {str(name).lower() for (name,) in rows.fetchall()} - set(VIEW_NAMES)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def first_line(error: Exception) -> str:
    """Return an error's first line as a sentence, its middle left out where it is long."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "The query failed")
    text = shortened(text, SAID)
    return text if text.endswith((".", "!", "?")) else f"{text}."

"""One in-memory DuckDB a process: the view files over listed Parquet segments and over tables copied from the store.

Promise: one cursor and one transaction a rerun, so list, totals, chart and export come from one snapshot, as of one
ledger entry; any number of threads at once. Nothing is downloaded, nothing is written, no file outside the trace
folders is opened. A segment that is missing, altered or damaged is left out, and every snapshot says so; it is never
silently missing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from core.config import Config
from core.errors import ViewError
from core.hashing import sha256_hex
from core.traces.dataset import ARROW_SCHEMA, rows_from_json
from core.views.answer import Answer, with_values
from core.views.catalog import VIEW_NAMES, view_file
from core.views.query_check import first_line
from core.views.segments import Files, Mark, Segments, read, trace_folders
from core.views.tables import TABLES, StoreReader, StoreReading

log = logging.getLogger(__name__)

MEMORY = "2GB"
LEFT_OUT = pa.schema([("path", pa.string()), ("run_id", pa.string())])
"""The listed segments whose rows cannot be read, and of which run they are; NULL: of several."""


@dataclass(frozen=True)
class Snapshot:
    """One consistent look at everything, for one rerun of one thread."""

    cursor: duckdb.DuckDBPyConnection
    """Its own cursor, in its own transaction."""
    as_of: int
    """The last ledger entry it knows of; 0 on an empty store."""
    problems: tuple[str, ...]
    """A sentence for each segment that is left out because it is missing, altered or damaged."""
    stamp: str
    """Equal stamps: equal answers. It changes with every commit to the store, and with every listed file that appears,
    vanishes, is written to, or is left out or read again; so what was counted may be kept under it."""
    views: Views
    """Where it came from."""

    def ask(self, view: str, sql: str, values: Sequence[Any] = ()) -> Answer:
        """Run one query with bound values and return its rows as Arrow.

        Raises
        ------
        ViewError : the query fails, or a segment changed since the snapshot was taken.
        """
        return Answer(self._table(sql, values), view, with_values(sql, values), self.as_of)

    def shown(self, sql: str, values: Sequence[Any] = ()) -> str:
        """Return a query with its values in place, to be copied."""
        return with_values(sql, values)

    def batches(self, sql: str, values: Sequence[Any] = (), rows: int = 20_000) -> Iterator[pa.RecordBatch]:
        """Run one query and yield its rows piece by piece, for exports."""
        try:
            yield from self._run(sql, values).to_arrow_reader(rows)
        except (duckdb.Error, OSError) as e:
            raise self.views.explain(e) from e

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query."""
        return self._table(sql, ()).schema

    def _table(self, sql: str, values: Sequence[Any]) -> pa.Table:
        try:
            table: pa.Table = self._run(sql, values).to_arrow_table()
        except (duckdb.Error, OSError) as e:
            raise self.views.explain(e) from e
        return table

    def _run(self, sql: str, values: Sequence[Any]) -> duckdb.DuckDBPyRelation:
        try:
            "".join(v for v in values if isinstance(v, str)).encode()
        except UnicodeEncodeError as e:
            raise ViewError("The question holds text that is not valid Unicode (a lone surrogate).") from e
        # Not `execute`: its result is copied once more on the way to Arrow.
        return self.cursor.sql(sql, params=list(values))


class Views:
    """The views of one workspace, shared by all threads of a process.

    Parameters
    ----------
    config : names the workspace.
    memory : the most that DuckDB may use.
    """

    def __init__(self, config: Config, *, memory: str = MEMORY) -> None:
        self._lock = Lock()
        self._home = str(config.home)
        self._reader = StoreReader(config.store)
        self._segments = Segments(config)
        self._seen: tuple[Any, ...] | None = None
        self._tail: tuple[str, ...] = ()
        self._resident: tuple[tuple[Path, Mark | None], ...] = ()
        self._entries = 0
        self._as_of = 0
        self._stamp = ""
        self._connection = open_duckdb(trace_folders(config), memory)
        _make_schema(self._connection)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Give one cursor and one transaction over the newest state.

        Raises
        ------
        StoreError : the store cannot be read.
        ViewError : a trace file was changed while it was read.
        """
        with self._lock:
            self._refresh()
            cursor = self._connection.cursor()
            cursor.execute("BEGIN TRANSACTION")
            # A transaction's snapshot begins with its first read, which must happen before the next refresh.
            cursor.execute("SELECT count(*) FROM store_run").fetchall()
            snapshot = Snapshot(cursor, self._as_of, self._segments.problems, self._stamp, self)
        try:
            yield snapshot
        finally:
            cursor.close()

    def close(self) -> None:
        """Close the database and the store's connection."""
        with self._lock:
            self._reader.close()
            self._connection.close()

    def explain(self, error: Exception) -> ViewError:
        """Return a failed query's error as one sentence; the next snapshot checks every file again."""
        with self._lock:
            self._segments.forget()
            self._seen = None
        log.warning("a query failed: %s", error)
        return ViewError(
            f"The question could not be answered: {first_line(error)}",
            next_step="Ask again: a trace file that changed meanwhile is then named and left out.",
        )

    def _refresh(self) -> None:
        stamp = self._reader.stamp()
        seen = (stamp, self._segments.stamp())
        if seen == self._seen:
            return
        first = self._seen is None or self._seen[0][0] != stamp[0]
        reading = self._reader.read(after_seq=0 if first else self._entries)
        self._segments.use(reading.segments)
        files, newest = self._newest()
        cursor = self._connection.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION")
            self._copy(cursor, reading, first)
            if newest is not None:
                _replace(cursor, "newest_trace", newest)
            lost = [{"path": s.path, "run_id": s.run_id} for s in self._segments.lost]
            _replace(cursor, "left_out_segment", pa.Table.from_pylist(lost, schema=LEFT_OUT))
            tail = bool(reading.tail)
            cursor.execute(f"CREATE OR REPLACE VIEW stored_trace AS {stored_trace_sql(files, tail=tail)}")
            cursor.execute("COMMIT")
        finally:
            cursor.close()
        self._tail, self._as_of, self._resident = reading.tail, reading.as_of, files.resident
        entries = reading.tables["entry"]
        if entries.num_rows:
            self._entries = entries["seq"][-1].as_py()
        elif first:
            self._entries = 0
        self._seen = (stamp, self._segments.checked())
        self._stamp = sha256_hex(repr((self._home, stamp, reading.as_of, self._segments.state)).encode())

    def _newest(self) -> tuple[Files, pa.Table | None]:
        """Return how files are read, and the newest ones as a table if they are others than before."""
        files = self._segments.files()
        if files.resident == self._resident:
            return files, None
        try:
            return files, pa.concat_tables([ARROW_SCHEMA.empty_table(), *(read(p) for p, _ in files.resident)])
        except (pa.ArrowException, OSError) as e:
            self._segments.forget()
            self._seen = None
            raise ViewError(
                f"The newest trace files cannot be read: {first_line(e)}",
                next_step="Ask again: a trace file that changed meanwhile is then named and left out.",
            ) from e

    def _copy(self, cursor: duckdb.DuckDBPyConnection, reading: StoreReading, first: bool) -> None:
        for name, table in reading.tables.items():
            if name == "entry" and not first:
                _append(cursor, "store_entry", table)
            else:
                _replace(cursor, f"store_{name}", table)
        known = len(self._tail)
        if first or reading.tail[:known] != self._tail:
            _replace(cursor, "trace_tail", rows_from_json(reading.tail))
        elif len(reading.tail) > known:  # parsing a full tail takes seconds; a new trace is one row
            _append(cursor, "trace_tail", rows_from_json(reading.tail[known:]))


def _append(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    cursor.register("incoming", table)
    cursor.execute(f"INSERT INTO {name} SELECT * FROM incoming")
    cursor.unregister("incoming")


def _replace(cursor: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    cursor.register("incoming", table)
    cursor.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")
    cursor.unregister("incoming")


def open_duckdb(folders: Sequence[Path], memory: str) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that may read files below these folders and nothing else.

    Nothing is spilled to disk: a temporary folder would be one more place a query may write to.
    """
    connection = duckdb.connect(  # noqa: TID251 - here is where it is opened
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "memory_limit": memory,
            "temp_directory": "",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    # Listed files do not change under their name; DuckDB looks at their times before it trusts its cache.
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute(f"SET allowed_directories = [{', '.join(quoted(f'{f.resolve()}/') for f in folders)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def quoted(text: str) -> str:
    """Return a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def stored_trace_sql(files: Files, *, tail: bool = True) -> str:
    """Return the query over the listed files and the tail.

    Files of exactly our columns are read as they are: uniting columns by name reads every footer on every query
    (139 files: 900 ms against 70). Files that lack a newer column are united; the tail's types then hold.

    Parameters
    ----------
    tail : whether the tail has rows.
    """

    def read_parquet(paths: Sequence[Path], options: str = "") -> str:
        # The newest first: a list of the newest rows then skips the other files by their statistics.
        names = ", ".join(quoted(str(p)) for p in reversed(paths))
        return f"SELECT * FROM read_parquet([{names}], hive_partitioning = false{options})"

    parts = ["SELECT * FROM newest_trace"] if files.resident or not files.exact else []
    if tail or files.older:
        parts.append("SELECT * FROM trace_tail")
    if files.exact:
        parts.append(read_parquet(files.exact))
    if files.older:
        parts.append(read_parquet(files.older, ", union_by_name = true"))
    return " UNION ALL BY NAME ".join(parts)


def _make_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Make empty tables and all views over them; a refresh replaces what is below the views."""
    empty = {f"store_{t.name}": t.schema.empty_table() for t in TABLES}
    empty["left_out_segment"] = LEFT_OUT.empty_table()
    for name, table in (empty | dict.fromkeys(("trace_tail", "newest_trace"), ARROW_SCHEMA.empty_table())).items():
        _replace(connection, name, table)
    connection.execute(f"CREATE VIEW stored_trace AS {stored_trace_sql(Files())}")
    make_views(connection)


def make_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every view of the catalog."""
    for name in VIEW_NAMES:
        connection.execute(f"CREATE VIEW {name} AS {view_file(name).body}")

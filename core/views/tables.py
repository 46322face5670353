"""The store's tables as Arrow: read with the stdlib's sqlite3 and an explicit schema.

Promise: one read transaction, nothing written; a store that does not exist yet gives empty tables. A second SQLite
library in the process would cancel the locks of the first, so DuckDB never opens the store.
"""

from __future__ import annotations

import errno
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.clock import parse_instant
from core.errors import InputError, StoreError
from core.ledger.lost import refuse_lost_file

INSTANT = pa.timestamp("us", tz="UTC")
DISK = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
"""What the system says of a disk that is full or failing."""


@dataclass(frozen=True)
class StoreTable:
    """What is copied of one table."""

    name: str
    """Its name in the store; the copy is called `store_<name>`."""
    sql: str
    """The SELECT that SQLite runs, its columns in the schema's order."""
    schema: pa.Schema
    """The copy's columns."""


def _fields(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


_S, _I = pa.string(), pa.int64()

TABLES = (
    StoreTable(
        "run",
        "SELECT run_id, kind, evidence_class, origin, status, contract, contract_sha256, code_commit, code_hash,"
        " evaluator_hash, data_hash, model_hash, backbone, backbone_sha256, packages, seeds, planned, stored,"
        " started_at, finished_at, device, text.text, amends, last_seq FROM run LEFT JOIN text ON text.id = note_id"
        " ORDER BY run_id",
        _fields(
            run_id=_S, kind=_S, evidence_class=_S, origin=_S, status=_S, contract=_S, contract_sha256=_S,
            code_commit=_S, code_hash=_S, evaluator_hash=_S, data_hash=_S, model_hash=_S, backbone=_S,
            backbone_sha256=_S, packages=_S, seeds=_S, planned=_I, stored=_I, started_at=INSTANT, finished_at=INSTANT,
            device=_S, note=_S, amends=_S, last_seq=_I,
        ),
    ),
    StoreTable(
        "annotation",
        "SELECT a.id, target_kind, target_id, label, text.text, author, at, replaces, last_seq FROM annotation AS a"
        " LEFT JOIN text ON text.id = text_id ORDER BY a.id",
        _fields(
            id=_S, target_kind=_S, target_id=_S, label=_S, text=_S, author=_S, at=INSTANT, replaces=_S, last_seq=_I
        ),
    ),
    StoreTable(
        "record",
        "SELECT record.id, namespace, record_id, c.text, p.text, state, expires_at, supersedes, intention_id,"
        " written_step, ended_step, last_seq FROM record LEFT JOIN text AS c ON c.id = condition_id"
        " LEFT JOIN text AS p ON p.id = payload_id ORDER BY record.id",
        _fields(
            row_id=_I, namespace=_S, record_id=_S, condition=_S, payload=_S, state=_S, expires_at=INSTANT,
            supersedes=_S, intention_id=_S, written_step=_I, ended_step=_I, last_seq=_I,
        ),
    ),
    StoreTable(
        "entry",
        "SELECT seq, at, as_of, kind, actor, identity, subject, body, prev, hash FROM entry WHERE seq > ? ORDER BY seq",
        _fields(
            seq=_I, at=INSTANT, as_of=INSTANT, kind=_S, actor=_S, identity=_S, subject=_S, body=_S, prev=_S, hash=_S
        ),
    ),
)  # fmt: skip
"""The tables copied whole; `entry` only beyond the last copied sequence, since it never changes."""


@dataclass(frozen=True)
class Segment:
    """One listed Parquet file."""

    path: str
    """Relative to the home, as listed."""
    rows: int
    """How many traces it was listed with."""
    sha256: str
    """Hash of its bytes."""
    min_id: str
    """Its first trace id."""
    run_id: str | None
    """The run whose traces it holds; None: of several."""


@dataclass(frozen=True)
class StoreReading:
    """What one read transaction saw."""

    as_of: int
    """Sequence of the last ledger entry; 0 where there is none."""
    tables: dict[str, pa.Table]
    """The copies, by name."""
    segments: tuple[Segment, ...]
    """The listed files, by path."""
    tail: tuple[str, ...]
    """The tail's traces as JSON, by id."""


class StoreReader:
    """A read-only connection to the store file that says cheaply whether anything was committed since.

    Used under a lock: a reader belongs to one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._opened = 0

    def stamp(self) -> tuple[int, int]:
        """Return a value that changes with every commit of any process; (0, 0) where there is no store."""
        with self._errors():
            connection = self._open()
            if connection is None:
                return 0, 0
            return self._opened, int(connection.execute("PRAGMA data_version").fetchone()[0])

    def read(self, after_seq: int = 0) -> StoreReading:
        """Return everything the views need, from one read transaction.

        Parameters
        ----------
        after_seq : ledger entries up to this one are left out.

        Raises
        ------
        StoreError : the file is not a readable store.
        """
        with self._errors():
            connection = self._open()
            if connection is None or _has_no_tables(connection):
                return StoreReading(0, {t.name: t.schema.empty_table() for t in TABLES}, (), ())
            connection.execute("BEGIN")
            try:
                return self._read(connection, after_seq)
            finally:
                connection.rollback()

    def segments(self) -> tuple[Segment, ...]:
        """Return the listed files alone.

        Raises
        ------
        StoreError : the file is not a readable store.
        """
        with self._errors():
            connection = self._open()
            return () if connection is None or _has_no_tables(connection) else _segments(connection)

    def _read(self, connection: sqlite3.Connection, after_seq: int) -> StoreReading:
        head = connection.execute("SELECT seq FROM ledger_head").fetchone()
        tables = {
            t.name: _to_arrow(connection.execute(t.sql, (after_seq,) if t.name == "entry" else ()), t.schema)
            for t in TABLES
        }
        tail = connection.execute("SELECT trace FROM trace_tail ORDER BY trace_id")
        return StoreReading(int(head[0]) if head else 0, tables, _segments(connection), tuple(t for (t,) in tail))

    def _open(self) -> sqlite3.Connection | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            inode = None
        else:
            if not stat.S_ISREG(found.st_mode):
                raise StoreError("The store is not a file.", where=str(self.path))
            inode = found.st_ino
        if inode is None or found.st_size == 0:
            refuse_lost_file(self.path)
        if inode != self._inode:  # the workspace was reset
            self.close()
        if inode is not None and self._connection is None:
            # The threads of one process share this connection, one at a time.
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
            )
            self._inode, self._opened = inode, self._opened + 1
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, InputError, UnicodeDecodeError, OSError) as e:
            self.close()
            raise _unreadable(e, self.path) from e

    def close(self) -> None:
        """Close the connection; the next question opens it anew."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._inode = None, None


def _unreadable(error: Exception, path: Path) -> StoreError:
    """Return what is wrong, and what helps: `ledger verify` tells of a damaged store, not of a full disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says where in SQLite it happened
    reason = str(error)
    if isinstance(error, OSError):
        reason = error.strerror or reason
    elif isinstance(error, InputError):
        reason = error.message.rstrip(".")
    elif isinstance(error, UnicodeDecodeError):  # of SQLite's own message, which names what is no text in the schema
        reason = "a name in its schema is no text"
    next_step = "Run `python -m core ledger verify`."
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or getattr(error, "errno", None) in DISK:
        reason, next_step = f"the disk is full or failing ({reason})", "Free some space and do it again."
    elif code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY) or isinstance(error, OSError):
        next_step = "Give yourself the right to read it and to write in its folder, or copy the workspace."
    return StoreError(f"The workspace's store cannot be read: {reason}.", where=str(path), next_step=next_step)


def _has_no_tables(connection: sqlite3.Connection) -> bool:
    """Return whether the store is just being created."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == 0)


def _segments(connection: sqlite3.Connection) -> tuple[Segment, ...]:
    rows = connection.execute("SELECT path, rows, sha256, min_id, run_id FROM segment ORDER BY path")
    return tuple(Segment(*row) for row in rows)


def _to_arrow(cursor: sqlite3.Cursor, schema: pa.Schema) -> pa.Table:
    rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        cells = [None if v is None else parse_instant(v) for v in values] if field.type == INSTANT else values
        try:
            arrays.append(pa.array(cells, field.type))
        except pa.ArrowException as e:
            raise InputError(f"its column {field.name} holds something that is no {field.type}: {e}") from e
    return pa.Table.from_arrays(arrays, schema=schema)

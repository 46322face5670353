"""The operational store: one SQLite file, several processes, every act one transaction with its ledger entry.

Promise: an acknowledged write survives kill -9 (WAL, synchronous=FULL); a failed or killed one leaves nothing; two
processes may open a fresh store at once. State row and entry are written together by `Tx.put`; sequence and previous
hash are taken from `ledger_head` last before commit. Refused, in one sentence: a file that is not ours, damaged, or
written by a newer version. Nothing but the standard library's SQLite opens the file.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    FromClause,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    create_engine,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from core.clock import format_instant, now
from core.config import Config
from core.errors import LedgerCorrupt, StoreError
from core.hashing import GENESIS_HASH, text_hash
from core.ledger import schema
from core.ledger.chain import Entry, canonical, entry_hash
from core.ledger.kinds import Body, EntryKind, Genesis, LedgerClass, body_json
from core.ledger.rows import ActorRow, StateRow, TextRef, from_columns, text_fields, to_columns

BUSY_SECONDS = 30
"""How long a writer waits for another."""

EVERY_AUTHORITY = (
    "ack",
    "admin",
    "annotate",
    "cancel",
    "commit-for *",
    "evidence",
    "holdout-open",
    "import",
    "propose",
    "redact",
    "register",
)
"""What the first actor of a workspace holds."""

RowT = TypeVar("RowT", bound=StateRow)

# Statements are built once: building one costs more than running it.
_HEAD_SEQ = select(schema.ledger_head.c.seq)
_HEAD = select(
    schema.ledger_head, schema.entry.c.as_of.label("last_as_of"), schema.entry.c.hash.label("last_hash")
).outerjoin(schema.entry, schema.entry.c.seq == schema.ledger_head.c.seq)
_MOVE_HEAD = update(schema.ledger_head).values(seq=bindparam("new_seq"), hash=bindparam("new_hash"))
_LAST_TEXT = select(func.max(schema.text.c.id))


@cache
def _insert(table: Table) -> Insert:
    return insert(table)


@cache
def _update(table: Table, key_columns: tuple[str, ...], columns: tuple[str, ...]) -> Update:
    where = [table.c[k] == bindparam(f"key_{k}") for k in key_columns]
    return update(table).where(*where).values({name: bindparam(f"new_{name}") for name in columns})


@cache
def _fetch(row_type: type[StateRow]) -> Select[Any]:
    """Return the query for one row by its key, with the hash of each text it points to."""
    table = row_type.TABLE
    joined: FromClause = table
    hashes = []
    for field in sorted(text_fields(row_type)):
        one = schema.text.alias()
        joined = joined.outerjoin(one, table.c[f"{field}_id"] == one.c.id)
        hashes.append(one.c.sha256.label(f"{field}_sha256"))
    where = [table.c[k] == bindparam(f"key_{k}") for k in row_type.KEY]
    return select(table, *hashes).select_from(joined).where(*where)


def _keyed(key_columns: tuple[str, ...], key: tuple[Any, ...]) -> dict[str, Any]:
    return {f"key_{k}": v for k, v in zip(key_columns, key, strict=True)}


class StoreDamaged(StoreError):
    """The store's file is not a readable database any more."""

    code = "store_damaged"


@dataclass
class Pending:
    """An entry on its way: `seq` and `hash` are known once the transaction is sealed."""

    kind: EntryKind
    subject: str
    body: str
    actor: str
    identity: str
    seq: int = 0
    hash: str = ""


class Tx:
    """One write transaction; every statement through `conn` belongs to it.

    Parameters
    ----------
    conn : the connection, inside BEGIN IMMEDIATE.
    actor, identity : who acts, unless an entry says otherwise.
    as_of : the instant the act is judged at; None: now.
    """

    def __init__(
        self, conn: Connection, ledger_class: LedgerClass, actor: str, identity: str, as_of: datetime | None
    ) -> None:
        self.conn = conn
        self.at = now()
        self.as_of = as_of
        self.actor = actor
        self.identity = identity
        self._ledger_class = ledger_class
        self._pending: list[Pending] = []
        self._last_text: int | None = None
        self._stamps: dict[tuple[Table, tuple[str, ...]], dict[tuple[Any, ...], Pending]] = {}

    def append(
        self, kind: EntryKind, body: Body, subject: str, actor: str | None = None, identity: str | None = None
    ) -> Pending:
        """Add an entry to the transaction; it gets its sequence last before commit.

        Returns
        -------
        The pending entry; its `seq` is 0 until the `with` block of `Store.write` has ended.

        Raises
        ------
        StoreError : the body is not of this kind, or holds a float.
        """
        pending = Pending(
            kind=kind,
            subject=subject,
            body=canonical(body_json(kind, body)).decode(),
            actor=actor or self.actor,
            identity=identity or self.identity,
        )
        self._pending.append(pending)
        return pending

    def put(
        self,
        kind: EntryKind,
        body: Body,
        row: StateRow,
        actor: str | None = None,
        identity: str | None = None,
        *,
        new: bool,
    ) -> Pending:
        """Write a state row (`new`: insert, else update by its key) and the entry that says so.

        Raises
        ------
        StoreError : a new row's key is taken; another row's is not there.
        """
        if new:
            return self.put_new(kind, [(body, row)], actor, identity)[0]
        columns = to_columns(row)
        key = tuple(columns[k] for k in row.KEY)
        values = {f"new_{name}": value for name, value in columns.items()} | _keyed(row.KEY, key)
        if self.conn.execute(_update(row.TABLE, row.KEY, tuple(columns)), values).rowcount != 1:
            raise StoreError(f"{row.subject} is not in the store.")
        pending = self.append(kind, body, row.subject, actor, identity)
        self.stamp(row.TABLE, row.KEY, key, pending)
        return pending

    def put_new(
        self,
        kind: EntryKind,
        changes: Sequence[tuple[Body, StateRow]],
        actor: str | None = None,
        identity: str | None = None,
    ) -> list[Pending]:
        """Insert new rows of one table, each with its entry, in one statement."""
        if not changes:
            return []
        first = changes[0][1]
        # Parameters apart from the statement: building one insert a row would cost four times the insert.
        self.conn.execute(_insert(first.TABLE), [{**to_columns(row), "last_seq": 0} for _, row in changes])
        written = []
        for body, row in changes:
            pending = self.append(kind, body, row.subject, actor, identity)
            self.stamp(row.TABLE, row.KEY, tuple(getattr(row, k) for k in row.KEY), pending)
            written.append(pending)
        return written

    def stamp(self, table: Table, key_columns: tuple[str, ...], key: tuple[Any, ...], pending: Pending) -> None:
        """Have a row's `last_seq` set to this entry's sequence when it is known; the last call for a row wins."""
        self._stamps.setdefault((table, key_columns), {})[key] = pending

    def text(self, value: str) -> TextRef:
        """Store a free text under a fresh salt and return what the chain may hold of it."""
        return self.texts([value])[0]

    def texts(self, values: Sequence[str]) -> list[TextRef]:
        """Store several free texts, each under its own salt, in one statement."""
        if not values:
            return []
        if self._last_text is None:  # nobody else can add one: the write lock is ours
            self._last_text = self.conn.scalar(_LAST_TEXT) or 0
        rows = []
        for value in values:
            self._last_text += 1
            salt = secrets.token_hex(16)
            rows.append({"id": self._last_text, "salt": salt, "text": value, "sha256": text_hash(salt, value)})
        self.conn.execute(_insert(schema.text), rows)
        return [TextRef(text=r["id"], sha256=r["sha256"]) for r in rows]

    def seal(self) -> None:
        """Give the pending entries their numbers and links, store them, move the head; the last thing before commit."""
        if not self._pending:
            return
        head = self.conn.execute(_HEAD).one_or_none()
        if head is None or (head.seq and head.last_hash != head.hash):
            raise LedgerCorrupt(
                "The ledger's last entry is not the one its head names: nothing is written on top of it.",
                where="ledger_head",
                next_step="Run `python -m core ledger verify`.",
            )
        as_of = self._judged_at(head.last_as_of)
        seq, prev = head.seq, head.hash
        at_text, as_of_text = format_instant(self.at), format_instant(as_of)
        rows = []
        for p in self._pending:
            seq += 1
            e = Entry(seq, at_text, as_of_text, p.kind.value, p.actor, p.identity, p.subject, p.body, prev, "")
            p.seq, p.hash = seq, entry_hash(head.ledger_id, e)
            rows.append(
                {
                    "seq": seq,
                    "at": self.at,
                    "as_of": as_of,
                    "kind": e.kind,
                    "actor": e.actor,
                    "identity": e.identity,
                    "subject": e.subject,
                    "body": e.body,
                    "prev": prev,
                    "hash": p.hash,
                }
            )
            prev = p.hash
        self.conn.execute(_insert(schema.entry), rows)
        for (table, columns), stamps in self._stamps.items():
            keyed = [{**_keyed(columns, key), "new_last_seq": p.seq} for key, p in stamps.items()]
            self.conn.execute(_update(table, columns, ("last_seq",)), keyed)
        self.conn.execute(_MOVE_HEAD, {"new_seq": seq, "new_hash": prev})
        self._pending.clear()
        self._stamps.clear()

    def _judged_at(self, last: datetime | None) -> datetime:
        # A wall clock set back must not stop the workspace: without an explicit as_of the last one is kept.
        if self._ledger_class is LedgerClass.DEMO or last is None:
            return self.as_of or self.at
        if self.as_of is None:
            return max(self.at, last)
        if self.as_of > self.at:
            raise StoreError(
                f"{format_instant(self.as_of)} lies in the future.", next_step="Only a demo workspace takes such times."
            )
        if self.as_of < last:
            raise StoreError(
                f"{format_instant(self.as_of)} is earlier than the last entry ({format_instant(last)}).",
                next_step="Only a demo workspace takes such times.",
            )
        return self.as_of


class Store:
    """An open store. Threads may share it: every `read` and `write` has its own connection.

    Parameters
    ----------
    path : the file.
    actor : who acts where `write` is not told: `person:<user>`.
    """

    def __init__(self, path: Path, actor: str) -> None:
        self.path = path
        self.actor = actor
        self.engine = _engine(path)
        weakref.finalize(self, self.engine.dispose)  # a store that nobody closed leaves no connection behind
        self.ledger_id = ""
        self.ledger_class = LedgerClass.USER

    @property
    def workspace_class(self) -> str:
        """`user` or `demo`, as the genesis entry fixed it."""
        return self.ledger_class.value

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one snapshot, whatever others write meanwhile.

        Raises
        ------
        StoreError : the file is damaged or cannot be read.
        """
        with _said(self.path), self.engine.connect() as conn, conn.begin():
            conn.execute(_HEAD_SEQ).all()  # the first read is what fixes the snapshot
            yield conn

    @contextmanager
    def write(
        self, actor: str | None = None, identity: str = "asserted", as_of: datetime | None = None
    ) -> Iterator[Tx]:
        """Yield a write transaction; it commits when the block ends and leaves nothing when the block raises.

        Parameters
        ----------
        actor, identity : who acts and how that is known; the store's own actor, asserted.
        as_of : judged at this instant; later than now or earlier than the last entry only in a demo workspace.

        Raises
        ------
        StoreError : another process wrote for half a minute; the disk is full; the file is damaged; as_of refused.
        """
        with _said(self.path), self.engine.connect() as conn:
            conn = conn.execution_options(duebook_write=True)
            with conn.begin():
                tx = Tx(conn, self.ledger_class, actor or self.actor, identity, as_of)
                yield tx
                tx.seal()

    def backup_to(self, target: Path) -> None:
        """Write a consistent copy of the store, while others go on writing; the copy is a store of its own.

        Raises
        ------
        StoreError : there is a file already, or the copy cannot be written.
        """
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as e:
            raise StoreError(f"The backup cannot be written: {e.strerror}.", where=str(target)) from e
        with _said(self.path), self.engine.connect() as conn:
            source = conn.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_store(
    path: Path, *, create: bool = False, workspace_class: str = "user", actor: str = "person:local"
) -> Store:
    """Open a store and bring its tables up to date.

    Parameters
    ----------
    path : the file; its folder is made with mode 0700, the file with 0600.
    create : make it where it is missing (safe when two processes do so at once).
    workspace_class : `user` or `demo`; used only when it is made, look at `Store.workspace_class` afterwards.
    actor : who acts by default; when the store is made, this actor is granted everything.

    Raises
    ------
    StoreError : missing and not to be made; not a Duebook store; damaged; written by a newer version.
    """
    if not path.exists():
        if not create:
            raise StoreError(
                "There is no store here.", where=str(path), next_step="Run `python -m core prepare` to make one."
            )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # O_EXCL: closing a second descriptor of an open store would cancel this process's locks on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    elif not path.is_file():
        raise StoreError("The store is not a file.", where=str(path))
    store = Store(path, actor)
    try:
        with _said(path):
            _bring_up_to_date(store, create, LedgerClass(workspace_class))
            with store.read() as conn:
                store.ledger_id = conn.scalar(select(schema.ledger_head.c.ledger_id)) or ""
                genesis = conn.scalar(select(schema.entry.c.body).where(schema.entry.c.seq == 1))
        store.ledger_class = _class_in(genesis)
    except BaseException:
        store.close()
        raise
    return store


def open_workspace(config: Config, *, create: bool = False, workspace_class: str = "user") -> Store:
    """Open the workspace's store in `config.home`, acting as `person:<user>`; `open_store` says the rest.

    A workspace that is being made gets its folder closed to others (mode 0700), whoever made the folder.
    """
    if create and not config.store.exists():
        config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.home.chmod(0o700)
    return open_store(config.store, create=create, workspace_class=workspace_class, actor=f"person:{config.user}")


def head_seq(conn: Connection) -> int:
    """Return the sequence of the last entry in this snapshot: what caches refresh by."""
    return int(conn.execute(_HEAD_SEQ).scalar_one())


def fetch_row(conn: Connection, row_type: type[RowT], *key: Any) -> RowT | None:
    """Return a state row by its key, or None."""
    found = conn.execute(_fetch(row_type), _keyed(row_type.KEY, key)).mappings().one_or_none()
    return None if found is None else from_columns(row_type, dict(found))


def text_of(conn: Connection, ref: TextRef | None) -> str | None:
    """Return a free text; None where there is none or it was redacted."""
    if ref is None:
        return None
    return conn.scalar(select(schema.text.c.text).where(schema.text.c.id == ref.text))


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # BEGIN is ours, below: the driver would begin too late
        for pragma in ("synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_SECONDS * 1000}"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE" if conn.get_execution_options().get("duebook_write") else "BEGIN")

    return engine


def _bring_up_to_date(store: Store, create: bool, ledger_class: LedgerClass) -> None:
    with store.engine.connect() as conn, conn.begin():
        version, ours, tables = _state(conn)
    newest = len(schema.MIGRATIONS)
    where = str(store.path)
    if tables and not ours:
        raise StoreError("The file is a database, but not a Duebook store.", where=where)
    if version > newest:
        raise StoreError(
            f"The store was written by a newer Duebook (schema {version}; this one knows {newest}).",
            where=where,
            next_step="Update Duebook, or open another workspace.",
        )
    if not tables and not create:
        raise StoreError(
            "The store is empty: its creation was interrupted.",
            where=where,
            next_step="Run `python -m core prepare` to finish it.",
        )
    if version == newest:
        return
    _use_wal(store)
    with store.write() as tx:
        version = _state(tx.conn)[0]  # another process may have been first
        for number, statements in enumerate(schema.MIGRATIONS[version:], version + 1):
            for statement in statements:
                tx.conn.exec_driver_sql(statement)
            tx.conn.exec_driver_sql(f"PRAGMA user_version={number}")
        tx.conn.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
        if tx.conn.scalar(select(schema.ledger_head.c.seq)) is None:
            _begin_ledger(tx, ledger_class)


def _state(conn: Connection) -> tuple[int, bool, bool]:
    version = int(conn.exec_driver_sql("PRAGMA user_version").scalar_one())
    ours = conn.exec_driver_sql("PRAGMA application_id").scalar_one() == schema.APPLICATION_ID
    tables = bool(conn.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one())
    return version, ours, tables


def _use_wal(store: Store) -> None:
    # Switching to WAL does not wait for a lock, so two processes at a fresh file would collide.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection = sqlite3.connect(store.path, timeout=BUSY_SECONDS, isolation_level=None)
            try:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            finally:
                connection.close()
        except sqlite3.OperationalError as e:
            if "locked" not in str(e) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            if mode != "wal":
                raise StoreError(
                    "The folder's file system cannot hold a store that several processes share.",
                    where=str(store.path),
                    next_step="Use a local folder.",
                )
            return


def _begin_ledger(tx: Tx, ledger_class: LedgerClass) -> None:
    tx.conn.execute(insert(schema.ledger_head).values(id=1, ledger_id=str(uuid.uuid4()), seq=0, hash=GENESIS_HASH))
    first = ActorRow(actor_id=tx.actor, authorities=EVERY_AUTHORITY, roles=())
    tx.put(EntryKind.GENESIS, Genesis(ledger_class=ledger_class, after=first), first, new=True)


def _class_in(genesis: str | None) -> LedgerClass:
    try:
        return Genesis.model_validate_json(genesis or "").ledger_class
    except ValueError:
        return LedgerClass.USER  # the stricter one; `verify` names the damaged entry


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Turn the driver's errors into one sentence."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as e:
        cause = e.orig if isinstance(e, DBAPIError) else e
        text = str(cause)
        where = str(path)
        if "locked" in text or "busy" in text:
            raise StoreError(
                f"Another process has been writing to the store for {BUSY_SECONDS} seconds.",
                where=where,
                next_step="Try again, or end that process.",
            ) from e
        if "malformed" in text or "not a database" in text or "encrypted" in text:
            raise StoreDamaged(
                "The store's file is damaged and cannot be read.",
                where=where,
                next_step="Restore it from a backup, or open another workspace.",
            ) from e
        if isinstance(cause, sqlite3.IntegrityError):
            raise StoreError(f"The store refused a row: {text}.", where=where) from e
        raise StoreError(f"The store cannot be used: {text}.", where=where) from e

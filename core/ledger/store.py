"""The operational store: one SQLite file, several processes, every act one transaction with its ledger entry.

Promise: an acknowledged write survives kill -9 (WAL, synchronous=FULL); a failed or killed one leaves nothing; two
processes may open a fresh store at once. State row and entry are written together by `Tx.put`; sequence and previous
hash are taken from `ledger_head` last before commit. Refused, in one sentence: a file that is not ours, damaged, or
written by a newer version. Nothing but the standard library's SQLite opens the file.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    LargeBinary,
    cast,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.exc import DBAPIError

from core.config import Config
from core.errors import LedgerCorrupt, StoreError
from core.hashing import GENESIS_HASH
from core.ledger import schema
from core.ledger.kinds import EntryKind, Genesis, LedgerClass
from core.ledger.lost import refuse_lost
from core.ledger.rows import ActorRow
from core.ledger.shape import Shape, differences, is_ours, read_shape
from core.ledger.tx import HEAD_SEQ, Pending, Tx, fetch_row, head_seq, text_of

__all__ = [
    "Pending",
    "Store",
    "StoreDamaged",
    "StoreForeign",
    "Tx",
    "fetch_row",
    "head_seq",
    "open_store",
    "open_workspace",
    "text_of",
]

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


class StoreDamaged(StoreError):
    """The file is not a readable database any more, or not one whose header and tables are a store's."""

    code = "store_damaged"


class StoreForeign(StoreDamaged):
    """The file is a database whose header or tables are not those that Duebook makes.

    Parameters
    ----------
    found : every difference, a sentence each.
    """

    code = "store_foreign"

    def __init__(self, found: tuple[str, ...], *, where: str) -> None:
        more = f" And {len(found) - 1} more differ." if len(found) > 1 else ""
        super().__init__(
            f"{found[0]}{more} Nothing was read or written.",
            where=where,
            next_step="Restore it from a backup, or open another workspace.",
        )
        self.found = found


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
            conn.execute(HEAD_SEQ).all()  # the first read is what fixes the snapshot
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
        LedgerCorrupt : a table, index or trigger is not as Duebook makes it: what guards the ledger may be gone.
        """
        with self._writing(actor, identity, as_of) as tx:
            if found := next(differences(read_shape(tx.conn)), None):
                raise LedgerCorrupt(
                    f"{found.sentence} Nothing is written to such a store.",
                    where=str(self.path),
                    next_step="Run `python -m core ledger verify`.",
                )
            yield tx

    @contextmanager
    def _writing(
        self, actor: str | None = None, identity: str = "asserted", as_of: datetime | None = None
    ) -> Iterator[Tx]:
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
                # As bytes: a damaged entry that is no text must not keep `verify` from naming it.
                genesis = conn.scalar(select(cast(schema.entry.c.body, LargeBinary)).where(schema.entry.c.seq == 1))
        store.ledger_class = _class_in(genesis)
    except BaseException:
        store.close()
        raise
    return store


def open_workspace(config: Config, *, create: bool = False, workspace_class: str = "user") -> Store:
    """Open the workspace's store in `config.home`, acting as `person:<user>`; `open_store` says the rest.

    A workspace that is being made gets its folder closed to others (mode 0700), whoever made the folder.

    Raises
    ------
    StoreLost : the workspace was made before and its store is gone or empty; it is not made anew.
    """
    refuse_lost(config)
    if create and not config.store.exists():
        config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.home.chmod(0o700)
    return open_store(config.store, create=create, workspace_class=workspace_class, actor=f"person:{config.user}")


def _engine(path: Path) -> Engine:
    # Not an address as text: a `?` or `%` in the path would name another file.
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # BEGIN is ours, below: the driver would begin too late
        for pragma in ("synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_SECONDS * 1000}"):
            try:
                connection.execute(f"PRAGMA {pragma}")
            except UnicodeDecodeError as e:  # of SQLite's own message, which names what is no text in the schema
                raise sqlite3.DatabaseError("malformed database schema") from e

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE" if conn.get_execution_options().get("duebook_write") else "BEGIN")

    return engine


def _bring_up_to_date(store: Store, create: bool, ledger_class: LedgerClass) -> None:
    with store.engine.connect() as conn, conn.begin():
        shape = read_shape(conn)
    newest = len(schema.MIGRATIONS)
    where = str(store.path)
    if _unmade(shape) and not create:
        raise StoreError(
            "The store is empty: its creation was interrupted.",
            where=where,
            next_step="Run `python -m core prepare` to finish it.",
        )
    _check_shape(shape, where)
    if shape.version == newest:
        return
    _use_wal(store)
    with store._writing() as tx:
        shape = read_shape(tx.conn)  # another process may have been first
        _check_shape(shape, where)
        for number, statements in enumerate(schema.MIGRATIONS[shape.version :], shape.version + 1):
            for statement in statements:
                tx.conn.exec_driver_sql(statement)
            tx.conn.exec_driver_sql(f"PRAGMA user_version={number}")
        tx.conn.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
        if tx.conn.scalar(select(schema.ledger_head.c.seq)) is None:
            _begin_ledger(tx, ledger_class)


def _check_shape(shape: Shape, where: str) -> None:
    """Refuse a file that is not ours to read; an older store must be whole before it is brought up to date."""
    newest = len(schema.MIGRATIONS)
    ours = shape.application_id == schema.APPLICATION_ID
    if _unmade(shape):
        return
    if not ours and not is_ours(shape.objects):
        raise StoreError("The file is a database, but not a Duebook store.", where=where)
    if shape.version > newest:
        raise StoreError(
            f"The store was written by a newer Duebook (schema {shape.version}; this one knows {newest}).",
            where=where,
            next_step="Update Duebook, or open another workspace.",
        )
    found = tuple(differences(shape))
    if any(d.unreadable for d in found) or (found and shape.version < newest):
        raise StoreForeign(tuple(d.sentence for d in found), where=where)


def _unmade(shape: Shape) -> bool:
    return not shape.objects and shape.version == 0 and shape.application_id == 0


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


def _class_in(genesis: bytes | None) -> LedgerClass:
    try:
        return Genesis.model_validate_json(genesis or b"").ledger_class
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
        if "readonly" in text or "unable to open" in text:
            raise StoreError(
                "The store can only be read where its folder and its files can be written.",
                where=where,
                next_step="Give yourself the right to write there, or copy the workspace.",
            ) from e
        if "disk" in text:  # "database or disk is full", "disk I/O error": a full one answers with either
            raise StoreError(
                f"The disk is full or failing ({text}): this was not stored, what was stored before is still there.",
                where=where,
                next_step="Free some space and do it again.",
            ) from e
        if isinstance(cause, sqlite3.IntegrityError):
            raise StoreError(f"The store refused a row: {text}.", where=where) from e
        raise StoreError(f"The store cannot be used: {text}.", where=where) from e

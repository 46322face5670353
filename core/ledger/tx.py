"""One write transaction: state rows and the ledger entries that say what was done to them, together or not at all.

Promise: `put` is the one way to write a state row, so a row without an entry cannot be written by mistake; sequence,
previous hash and `last_seq` are filled in by `seal`, last before commit. Refused: a body that is not of its kind, a
time the workspace's class does not allow, anything on top of an end that is not the head's.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, FromClause, Insert, Select, Table, Update, bindparam, func, insert, select, update

from core.clock import format_instant, now
from core.errors import LedgerCorrupt, StoreError
from core.hashing import text_hash
from core.ledger import schema
from core.ledger.chain import Entry, canonical, entry_hash
from core.ledger.kinds import Body, EntryKind, LedgerClass, body_json
from core.ledger.rows import StateRow, TextRef, from_columns, text_fields, to_columns

RowT = TypeVar("RowT", bound=StateRow)

# Statements are built once: building one costs more than running it.
HEAD_SEQ = select(schema.ledger_head.c.seq)
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


def head_seq(conn: Connection) -> int:
    """Return the sequence of the last entry in this snapshot: what caches refresh by."""
    seq = conn.execute(HEAD_SEQ).scalar_one_or_none()
    if seq is None:
        raise LedgerCorrupt(
            "The ledger's head row is missing.", where="ledger_head", next_step="Run `python -m core ledger verify`."
        )
    return int(seq)


def fetch_row(conn: Connection, row_type: type[RowT], *key: Any) -> RowT | None:
    """Return a state row by its key, or None."""
    found = conn.execute(_fetch(row_type), _keyed(row_type.KEY, key)).mappings().one_or_none()
    return None if found is None else from_columns(row_type, dict(found))


def text_of(conn: Connection, ref: TextRef | None) -> str | None:
    """Return a free text; None where there is none or it was redacted."""
    if ref is None:
        return None
    return conn.scalar(select(schema.text.c.text).where(schema.text.c.id == ref.text))

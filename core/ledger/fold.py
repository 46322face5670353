"""Folding the chain: what the state tables and texts should hold, compared with what they do hold.

Promise: every row of every state table is held against the last entry about it, every entry's `before` against the
entry before it, every text against its hash, every `last_seq` against the chain; a row or text that belongs to no
entry is named too. Streams by the index on (subject, seq): memory does not grow with the ledger. Trusts the entries,
so it runs after `walk`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import Any

from sqlalchemy import Connection, func, literal, select, tuple_, type_coerce
from sqlalchemy.types import NullType

from core.hashing import sha256_hex, text_hash
from core.ledger import schema
from core.ledger.chain import Entry, canonical
from core.ledger.rows import STATE_ROWS, SegmentRow, StateRow, column_of, text_fields
from core.ledger.walk import Finding, Tampering

_SALT = re.compile(r"[0-9a-f]{32}", re.ASCII)

BATCH = 400
"""Rows asked for at once; SQLite takes 999 parameters in its oldest versions."""

Story = list[tuple[int, dict[str, Any]]]
"""The entries about one subject: sequence and body, in order."""


class Texts:
    """Checks the free texts against the hashes that entries introduce, while the chain is walked."""

    def __init__(self, conn: Connection, add: Callable[[Finding], None]) -> None:
        self._conn = conn
        self._add = add
        self._known = bytearray(int(conn.scalar(select(func.count()).select_from(schema.text)) or 0) + 1)
        self._waiting: list[tuple[int, str, int, str]] = []
        self._introduced = 0

    def visit(self, entry: Entry, body: dict[str, Any]) -> None:
        """Note the texts an entry introduces."""
        if '"text":' not in entry.body:
            return
        old = {ref["text"] for ref in _refs(body.get("before"))}
        for ref in _refs(body.get("after")):
            if ref["text"] not in old:
                self._waiting.append((ref["text"], ref["sha256"], entry.seq, entry.subject))
        if len(self._waiting) >= BATCH:
            self._check()

    def finish(self) -> None:
        """Check what is left, and that no text belongs to no entry."""
        self._check()
        total = int(self._conn.scalar(select(func.count()).select_from(schema.text)) or 0)
        if total > self._introduced:
            ids = self._conn.execute(select(schema.text.c.id).order_by(schema.text.c.id)).scalars()
            orphan = next((i for i in ids if i >= len(self._known) or i < 0 or not self._known[i]), None)
            self._add(Finding(Tampering.TEXT, None, f"Text {orphan} belongs to no entry."))

    def _check(self) -> None:
        ids = {i for i, *_ in self._waiting}
        found = {}
        for some in _batches(iter(ids)):
            t = schema.text.c
            found.update(
                {r.id: r for r in self._conn.execute(select(t.id, t.salt, t.text, t.sha256).where(t.id.in_(some)))}
            )
        for text_id, sha256, seq, subject in self._waiting:
            row = found.get(text_id)
            if row is None:
                self._say(seq, f"The text {text_id} of {_said(subject)} is gone; entry {seq} holds its hash.")
                continue
            self._introduced += 1
            if 0 <= text_id < len(self._known):
                self._known[text_id] = 1
            if row.sha256 != sha256 or not _fits(row.salt, row.text, sha256):
                self._say(seq, f"The text {text_id} of {_said(subject)} was edited; entry {seq} holds another hash.")
        self._waiting.clear()

    def _say(self, seq: int, sentence: str) -> None:
        self._add(Finding(Tampering.TEXT, seq, sentence))


def compare_tables(conn: Connection, count: int) -> Iterator[Finding]:
    """Yield every difference between the chain of `count` entries and the state tables."""
    for row_type in STATE_ROWS:
        yield from _compare(conn, row_type, count)
    yield from _compare_tail(conn, count)


def _compare(conn: Connection, row_type: type[StateRow], count: int) -> Iterator[Finding]:
    table, noun = row_type.TABLE, row_type.NOUN
    texts = text_fields(row_type)
    key_columns = [table.c[k] for k in row_type.KEY]
    raw = [type_coerce(c, NullType()).label(c.name) for c in table.columns]
    matched = 0
    for stories in _batches(_stories(conn, noun)):
        keys = [tuple(story[-1][1]["after"][k] for k in row_type.KEY) for _, story in stories]
        query = select(*raw).where(tuple_(*key_columns).in_(keys))
        rows = {tuple(r[k] for k in row_type.KEY): dict(r) for r in conn.execute(query).mappings()}
        for (subject, story), key in zip(stories, keys, strict=True):
            yield from _own_order(subject, story)
            seq, body = story[-1]
            row = rows.get(key)
            if row is None:
                status = body["after"][row_type.STATUS] if row_type.STATUS else "it"
                yield Finding(Tampering.STATE, seq, f"{_said(subject)}: table has no row, ledger {status} at {seq}.")
                continue
            matched += 1
            if row["last_seq"] != seq:
                yield _wrong_last_seq(subject, row["last_seq"], seq, count)
                if _beyond(row["last_seq"], count):
                    continue
            for name in row_type.model_fields:
                stored, told = row[column_of(row_type, name)], body["after"][name]
                expected = _column_value(told, name in texts)
                if type(stored) is not type(expected) or stored != expected:
                    field = "" if name == row_type.STATUS else f" {name}:"
                    yield Finding(
                        Tampering.STATE,
                        seq,
                        f"{_said(subject)}:{field} table {stored}, ledger {expected} at {seq}.",
                    )
    total = int(conn.scalar(select(func.count()).select_from(table)) or 0)
    if total > matched:
        yield from _without_entry(conn, row_type, count)


def _own_order(subject: str, story: Story) -> Iterator[Finding]:
    previous = None
    for seq, body in story:
        if body.get("before") != previous:
            yield Finding(
                Tampering.STATE, seq, f"{_said(subject)}: entry {seq} starts from another row than the one before left."
            )
        previous = body["after"]


def _without_entry(conn: Connection, row_type: type[StateRow], count: int) -> Iterator[Finding]:
    table, e = row_type.TABLE, schema.entry
    query = select(*(table.c[k] for k in row_type.KEY), table.c.last_seq)
    for rows in _batches(iter(conn.execute(query).all())):
        subjects = {row_type.subject_of(*r[:-1]): r[-1] for r in rows}
        known = set(conn.execute(select(e.c.subject).where(e.c.subject.in_(subjects))).scalars())
        for subject in subjects.keys() - known:
            last_seq = subjects[subject]
            if _beyond(last_seq, count):
                yield _wrong_last_seq(subject, last_seq, None, count)
            else:
                yield Finding(Tampering.STATE, None, f"{_said(subject)}: table has a row, ledger has no entry.")


def _wrong_last_seq(subject: str, last_seq: Any, seq: int | None, count: int) -> Finding:
    if _beyond(last_seq, count):
        return Finding(
            Tampering.CUT_OFF,
            count + 1,
            f"The ledger was cut off: it ends at entry {count}, {_said(subject)} was changed by entry {last_seq}.",
        )
    return Finding(Tampering.STATE, seq, f"{_said(subject)}: last_seq: table {last_seq}, ledger {seq}.")


def _beyond(last_seq: Any, count: int) -> bool:
    return isinstance(last_seq, int) and last_seq > count


def _compare_tail(conn: Connection, count: int) -> Iterator[Finding]:
    tail = schema.trace_tail
    taken = [
        (seq, body["after"])
        for _, story in _stories(conn, SegmentRow.NOUN)
        for seq, body in story
        if body["after"]["tail_through"] is not None
    ]
    matched = 0
    for stories in _batches(_stories(conn, "trace")):
        ids = [story[-1][1]["trace_id"] for _, story in stories]
        rows = {r.trace_id: r for r in conn.execute(select(tail).where(tail.c.trace_id.in_(ids)))}
        for (subject, story), trace_id in zip(stories, ids, strict=True):
            seq, saved = story[-1]
            row = rows.get(trace_id)
            if row is None:
                if not any(_took_over(segment, at, saved, seq) for at, segment in taken):
                    yield Finding(
                        Tampering.STATE,
                        seq,
                        f"{_said(subject)}: saved at {seq}, in no listed segment and not in the tail.",
                    )
                continue
            matched += 1
            stored = {"evidence_class": row.evidence_class, "run_id": row.run_id, "trace_id": row.trace_id}
            if {**stored, "sha256": _sha256(row.trace)} != saved:
                yield Finding(Tampering.STATE, seq, f"{_said(subject)}: the tail's row was edited; saved at {seq}.")
            if row.last_seq != seq:
                yield _wrong_last_seq(subject, row.last_seq, seq, count)
    total = int(conn.scalar(select(func.count()).select_from(tail)) or 0)
    if total > matched:
        last = conn.execute(select(tail.c.trace_id, tail.c.last_seq).order_by(tail.c.last_seq.desc()).limit(1)).one()
        if _beyond(last.last_seq, count):
            yield _wrong_last_seq(f"trace:{last.trace_id}", last.last_seq, None, count)
        else:
            yield Finding(Tampering.STATE, None, f"The tail has {total - matched} traces the ledger has no entry for.")


def _took_over(segment: dict[str, Any], at: int, saved: dict[str, Any], seq: int) -> bool:
    return bool(
        at > seq
        and saved["trace_id"] <= segment["tail_through"]
        and saved["evidence_class"] == segment["evidence_class"]
        and segment["run_id"] in (None, saved["run_id"])
    )


def _stories(conn: Connection, noun: str) -> Iterator[tuple[str, Story]]:
    """Yield each subject of a noun with its entries, by the index."""
    for subject, entries in groupby(_entries(conn, noun), key=lambda e: e[0]):
        yield subject, [(seq, json.loads(body)) for _, seq, body in entries]


def _entries(conn: Connection, noun: str) -> Iterator[tuple[str, int, str]]:
    e = schema.entry.c
    subject, seq = f"{noun}:", 0
    while True:
        rows = conn.execute(
            select(e.subject, e.seq, e.body)
            .where(
                e.subject < f"{noun};",  # ';' follows ':'
                tuple_(e.subject, e.seq) > tuple_(literal(subject), literal(seq)),
            )
            .order_by(e.subject, e.seq)
            .limit(BATCH * 5)
        ).all()
        yield from (tuple(r) for r in rows)
        if len(rows) < BATCH * 5:
            return
        subject, seq = rows[-1].subject, rows[-1].seq


def _batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(items, BATCH)):
        yield batch


def _refs(row: Any) -> Iterator[dict[str, Any]]:
    if isinstance(row, dict):
        yield from (
            v for v in row.values() if isinstance(v, dict) and v.keys() == {"text", "sha256"} and type(v["text"]) is int
        )


def _column_value(told: Any, is_text: bool) -> Any:
    if is_text:
        return None if told is None else told["text"]
    return canonical(told).decode() if isinstance(told, list | dict) else told


def _fits(salt: Any, value: Any, sha256: str) -> bool:
    """Return whether salt and text are those of the entry; a salt of another length could have moved the boundary."""
    try:
        whole = isinstance(salt, str) and isinstance(value, str) and _SALT.fullmatch(salt) is not None
        return whole and text_hash(salt, value) == sha256
    except UnicodeEncodeError:
        return False


def _sha256(value: Any) -> str | None:
    return sha256_hex(value.encode("utf-8", "surrogateescape")) if isinstance(value, str) else None


def _said(subject: str) -> str:
    return subject.replace(":", " ", 1)

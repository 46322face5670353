"""The operational store's tables (SQLAlchemy Core) and the numbered migrations that make them.

Promise: a migration, once released, is never changed; a later issue adds a table here, a migration below and a row
model in `rows.py`. Every state table has `last_seq`, the entry that wrote the row as it stands. Columns ending in
`_id` that point to `text` hold free texts, kept apart so that one can be redacted while the chain still verifies.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, String, Table, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from core.clock import format_instant, parse_instant
from core.hashing import canonical_json

APPLICATION_ID = 0x44554542
"""Marks the file as ours ("DUEB")."""


class UtcInstant(TypeDecorator[datetime]):
    """An aware UTC instant, stored as `YYYY-MM-DDTHH:MM:SS.ffffffZ`: SQLite would hand it back naive."""

    impl = String(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Return the stored text; a naive instant is refused."""
        return None if value is None else format_instant(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """Return the aware instant."""
        return None if value is None else parse_instant(value)


class CanonicalJson(TypeDecorator[Any]):
    """A list or object, stored as RFC 8785 text: equal values are equal bytes."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Return the stored text."""
        return None if value is None else canonical_json(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Return the parsed value."""
        return None if value is None else json.loads(value)


metadata = MetaData()

entry = Table(
    "entry",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("at", UtcInstant, nullable=False),
    Column("as_of", UtcInstant, nullable=False),
    Column("kind", String, nullable=False),
    Column("actor", String, nullable=False),
    Column("identity", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("body", String, nullable=False),
    Column("prev", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index("entry_by_subject", "subject", "seq"),
)
"""The ledger; `body` is the exact canonical JSON that was hashed."""

ledger_head = Table(
    "ledger_head",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("ledger_id", String, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
)
"""One row (id 1): the last entry's sequence and hash. Its `seq` is what caches refresh by."""

text = Table(
    "text",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("salt", String),
    Column("text", String),
    Column("sha256", String(64), nullable=False),
)
"""Free texts; the chain holds `sha256` = SHA-256(salt + text). Salt and text are NULL once redacted."""

actor = Table(
    "actor",
    metadata,
    Column("actor_id", String, primary_key=True),
    Column("authorities", CanonicalJson, nullable=False),
    Column("roles", CanonicalJson, nullable=False),
    Column("last_seq", Integer, nullable=False),
)
"""The directory: who holds which authority."""

record = Table(
    "record",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("namespace", String, nullable=False),
    Column("record_id", String, nullable=False),
    Column("condition_id", Integer, ForeignKey("text.id"), nullable=False),
    Column("payload_id", Integer, ForeignKey("text.id"), nullable=False),
    Column("state", String, nullable=False),
    Column("expires_at", UtcInstant),
    Column("supersedes", String),
    Column("intention_id", String),
    Column("written_step", Integer, nullable=False),
    Column("ended_step", Integer),
    Column("last_seq", Integer, nullable=False),
    UniqueConstraint("namespace", "record_id"),
)
"""Condition and payload in separate columns, bound by (namespace, record_id); `id` keeps the order of writing."""

run = Table(
    "run",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("evidence_class", String, nullable=False),
    Column("origin", String, nullable=False),
    Column("status", String, nullable=False),
    Column("contract", String),
    Column("contract_sha256", String),
    Column("code_commit", String),
    Column("code_hash", String, nullable=False),
    Column("evaluator_hash", String, nullable=False),
    Column("data_hash", String, nullable=False),
    Column("model_hash", String, nullable=False),
    Column("backbone", String, nullable=False),
    Column("backbone_sha256", String, nullable=False),
    Column("packages", CanonicalJson, nullable=False),
    Column("seeds", CanonicalJson, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("stored", Integer, nullable=False),
    Column("started_at", UtcInstant, nullable=False),
    Column("finished_at", UtcInstant),
    Column("device", String, nullable=False),
    Column("note_id", Integer, ForeignKey("text.id")),
    Column("amends", String),
    Column("last_seq", Integer, nullable=False),
)
"""One row a run: its manifest; the note is a text."""

annotation = Table(
    "annotation",
    metadata,
    Column("id", String, primary_key=True),
    Column("target_kind", String, nullable=False),
    Column("target_id", String, nullable=False),
    Column("label", String, nullable=False),
    Column("text_id", Integer, ForeignKey("text.id")),
    Column("author", String, nullable=False),
    Column("at", UtcInstant, nullable=False),
    Column("replaces", String, ForeignKey("annotation.id"), unique=True),
    Column("last_seq", Integer, nullable=False),
    Index("annotation_by_target", "target_kind", "target_id"),
)
"""Append-only remarks; a correction names what it replaces, once."""

segment = Table(
    "segment",
    metadata,
    Column("path", String, primary_key=True),
    Column("rows", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("min_id", String, nullable=False),
    Column("max_id", String, nullable=False),
    Column("evidence_class", String, nullable=False),
    Column("run_id", String),
    Column("tail_through", String),
    Column("last_seq", Integer, nullable=False),
)
"""Parquet files the views may read; `path` is relative to the home; `tail_through`: the last tail id it took over."""

trace_tail = Table(
    "trace_tail",
    metadata,
    Column("trace_id", String, primary_key=True),
    Column("evidence_class", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("trace", String, nullable=False),
    Column("last_seq", Integer, nullable=False),
)
"""Single traces as JSON text, until enough make a segment."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (  # 1: ledger, texts, actors, records, runs, annotations, trace tail and segments
        "CREATE TABLE entry (seq INTEGER PRIMARY KEY, at VARCHAR(27) NOT NULL, as_of VARCHAR(27) NOT NULL,"
        " kind VARCHAR NOT NULL, actor VARCHAR NOT NULL, identity VARCHAR NOT NULL, subject VARCHAR NOT NULL,"
        " body VARCHAR NOT NULL, prev VARCHAR(64) NOT NULL, hash VARCHAR(64) NOT NULL)",
        "CREATE INDEX entry_by_subject ON entry (subject, seq)",
        "CREATE TABLE ledger_head (id INTEGER PRIMARY KEY CHECK (id = 1), ledger_id VARCHAR NOT NULL,"
        " seq INTEGER NOT NULL, hash VARCHAR(64) NOT NULL)",
        "CREATE TRIGGER entry_is_never_updated BEFORE UPDATE ON entry"
        " BEGIN SELECT RAISE(ABORT, 'a ledger entry is never updated'); END",
        "CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry"
        " BEGIN SELECT RAISE(ABORT, 'a ledger entry is never deleted'); END",
        # INSERT OR REPLACE deletes without firing the trigger above.
        "CREATE TRIGGER entry_is_never_replaced BEFORE INSERT ON entry"
        " WHEN NEW.seq <= (SELECT seq FROM ledger_head)"
        " BEGIN SELECT RAISE(ABORT, 'a ledger entry is never replaced'); END",
        "CREATE TABLE text (id INTEGER PRIMARY KEY, salt VARCHAR, text VARCHAR, sha256 VARCHAR(64) NOT NULL)",
        "CREATE TABLE actor (actor_id VARCHAR PRIMARY KEY NOT NULL, authorities VARCHAR NOT NULL,"
        " roles VARCHAR NOT NULL, last_seq INTEGER NOT NULL)",
        "CREATE TABLE record (id INTEGER PRIMARY KEY, namespace VARCHAR NOT NULL, record_id VARCHAR NOT NULL,"
        " condition_id INTEGER NOT NULL REFERENCES text (id), payload_id INTEGER NOT NULL REFERENCES text (id),"
        " state VARCHAR NOT NULL, expires_at VARCHAR(27), supersedes VARCHAR, intention_id VARCHAR,"
        " written_step INTEGER NOT NULL, ended_step INTEGER, last_seq INTEGER NOT NULL,"
        " UNIQUE (namespace, record_id))",
        "CREATE TABLE run (run_id VARCHAR PRIMARY KEY NOT NULL, kind VARCHAR NOT NULL,"
        " evidence_class VARCHAR NOT NULL, origin VARCHAR NOT NULL, status VARCHAR NOT NULL, contract VARCHAR,"
        " contract_sha256 VARCHAR, code_commit VARCHAR, code_hash VARCHAR NOT NULL,"
        " evaluator_hash VARCHAR NOT NULL, data_hash VARCHAR NOT NULL, model_hash VARCHAR NOT NULL,"
        " backbone VARCHAR NOT NULL, backbone_sha256 VARCHAR NOT NULL, packages VARCHAR NOT NULL,"
        " seeds VARCHAR NOT NULL, planned INTEGER NOT NULL, stored INTEGER NOT NULL,"
        " started_at VARCHAR(27) NOT NULL, finished_at VARCHAR(27), device VARCHAR NOT NULL,"
        " note_id INTEGER REFERENCES text (id), amends VARCHAR, last_seq INTEGER NOT NULL)",
        "CREATE TABLE annotation (id VARCHAR PRIMARY KEY NOT NULL, target_kind VARCHAR NOT NULL,"
        " target_id VARCHAR NOT NULL, label VARCHAR NOT NULL, text_id INTEGER REFERENCES text (id),"
        " author VARCHAR NOT NULL, at VARCHAR(27) NOT NULL, replaces VARCHAR UNIQUE REFERENCES annotation (id),"
        " last_seq INTEGER NOT NULL)",
        "CREATE INDEX annotation_by_target ON annotation (target_kind, target_id)",
        "CREATE TABLE segment (path VARCHAR PRIMARY KEY NOT NULL, rows INTEGER NOT NULL,"
        " sha256 VARCHAR(64) NOT NULL, min_id VARCHAR NOT NULL, max_id VARCHAR NOT NULL,"
        " evidence_class VARCHAR NOT NULL, run_id VARCHAR, tail_through VARCHAR, last_seq INTEGER NOT NULL)",
        "CREATE TABLE trace_tail (trace_id VARCHAR PRIMARY KEY NOT NULL, evidence_class VARCHAR NOT NULL,"
        " run_id VARCHAR NOT NULL, trace VARCHAR NOT NULL, last_seq INTEGER NOT NULL)",
    ),
)
"""One tuple of statements a schema version; the file's `user_version` counts those done."""

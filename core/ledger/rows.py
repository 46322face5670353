"""The state rows the ledger answers for: one frozen model a table, and the mapping between model, row and JSON.

Promise: a row read back is equal to the row written. Free texts appear as `TextRef`, never in the clear. A later
table plugs in by one class here: `verify` folds every class of `STATE_ROWS`. No row holds a float.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import AfterValidator, Field
from sqlalchemy import Table

from core.ledger import schema
from core.records.annotation import TargetKind
from core.records.base import Instant, Noun
from core.records.record import RecordState
from core.records.run import RunStatus
from core.records.trace import EvidenceClass, Origin

SHA256 = r"^[0-9a-f]{64}$"


def _relative(path: str) -> str:
    if not path or path.startswith("/") or "\\" in path or not path.isprintable() or ".." in path.split("/"):
        raise ValueError("a segment's path is relative to the home, with / and without ..")
    return path


class TextRef(Noun):
    """A free text as the chain knows it."""

    text: int
    """Its id in the table `text`."""
    sha256: str = Field(pattern=SHA256)
    """SHA-256 of salt and text."""


class StateRow(Noun):
    """One row of a state table, without `last_seq`."""

    TABLE: ClassVar[Table]
    """Where it is kept."""
    NOUN: ClassVar[str]
    """First part of the entry's subject, and the word used in findings."""
    KEY: ClassVar[tuple[str, ...]]
    """The columns that name it."""
    STATUS: ClassVar[str | None] = None
    """The field that is the row's status, where it has one."""

    @property
    def subject(self) -> str:
        """The subject of the entries about it."""
        return self.subject_of(*(getattr(self, k) for k in self.KEY))

    @classmethod
    def subject_of(cls, *key: Any) -> str:
        """Return `noun:key`; the parts of a longer key are joined by `/`, which is escaped in them."""
        if len(key) == 1:
            return f"{cls.NOUN}:{key[0]}"
        return f"{cls.NOUN}:" + "/".join(str(part).replace("%", "%25").replace("/", "%2F") for part in key)


class ActorRow(StateRow):
    """An actor of the directory."""

    TABLE, NOUN, KEY = schema.actor, "actor", ("actor_id",)
    actor_id: str = Field(pattern=r"^(agent|role|person):[^\x00-\x1f\x7f]{1,200}$")
    """`agent:`, `role:` or `person:` and a name."""
    authorities: tuple[str, ...]
    """What it may do, sorted."""
    roles: tuple[str, ...]
    """The roles it acts in, sorted."""


class RecordRow(StateRow):
    """A stored condition and payload."""

    TABLE, NOUN, KEY, STATUS = schema.record, "record", ("namespace", "record_id"), "state"
    namespace: str = Field(min_length=1)
    """The workspace's own records, or one episode's."""
    record_id: str = Field(min_length=1)
    """Unique in its namespace."""
    condition: TextRef
    """The condition's text."""
    payload: TextRef
    """The payload's text."""
    state: RecordState
    """Lifecycle state."""
    expires_at: Instant | None
    """From when it is expired."""
    supersedes: str | None
    """The record it replaced."""
    intention_id: str | None
    """The obligation it belongs to."""
    written_step: int
    """Position of its write."""
    ended_step: int | None
    """Position of what ended it."""


class RunRow(StateRow):
    """A run's manifest."""

    TABLE, NOUN, KEY, STATUS = schema.run, "run", ("run_id",), "status"
    run_id: str = Field(min_length=1)
    kind: str
    evidence_class: EvidenceClass
    origin: Origin
    status: RunStatus
    contract: str | None
    contract_sha256: str | None
    code_commit: str | None
    code_hash: str
    evaluator_hash: str
    data_hash: str
    model_hash: str
    backbone: str
    backbone_sha256: str
    packages: dict[str, str]
    seeds: tuple[int, ...]
    planned: int
    stored: int
    started_at: Instant
    finished_at: Instant | None
    device: str
    note: TextRef | None
    amends: str | None


class AnnotationRow(StateRow):
    """An append-only remark."""

    TABLE, NOUN, KEY = schema.annotation, "annotation", ("id",)
    id: str = Field(min_length=1)
    """UUIDv7."""
    target_kind: TargetKind
    """What it is about."""
    target_id: str = Field(min_length=1)
    """Its id."""
    label: str = Field(min_length=1)
    """A short label."""
    text: TextRef | None
    """The reason."""
    author: str
    """Who wrote it."""
    at: Instant
    """When."""
    replaces: str | None
    """The annotation it corrects."""


class SegmentRow(StateRow):
    """A Parquet file the views may read."""

    TABLE, NOUN, KEY = schema.segment, "segment", ("path",)
    path: Annotated[str, AfterValidator(_relative)]
    """Relative to the home, POSIX, without `..`."""
    rows: int = Field(ge=0)
    """How many traces it holds."""
    sha256: str = Field(pattern=SHA256)
    """Hash of its bytes."""
    min_id: str
    """Least trace id in it."""
    max_id: str
    """Greatest trace id in it."""
    evidence_class: EvidenceClass
    """Of all its rows."""
    run_id: str | None
    """Of all its rows; None for a segment of the tail."""
    tail_through: str | None
    """The last tail id it took over; None when it did not come from the tail."""


STATE_ROWS: tuple[type[StateRow], ...] = (ActorRow, RecordRow, RunRow, AnnotationRow, SegmentRow)
"""The tables `verify` folds the chain for. Later issues append theirs."""

RowT = TypeVar("RowT", bound=StateRow)


@cache
def text_fields(row_type: type[StateRow]) -> frozenset[str]:
    """Return the fields whose column is `<field>_id`, pointing to a text."""
    return frozenset(
        name
        for name, info in row_type.model_fields.items()
        if info.annotation is TextRef or TextRef in get_args(info.annotation)
    )


def column_of(row_type: type[StateRow], field: str) -> str:
    """Return the column that keeps a field."""
    return f"{field}_id" if field in text_fields(row_type) else field


def to_columns(row: StateRow) -> dict[str, Any]:
    """Return the row as column values, `last_seq` left out."""
    texts = text_fields(type(row))
    values: dict[str, Any] = {}
    for name in type(row).model_fields:
        value = getattr(row, name)
        if name in texts:
            values[f"{name}_id"] = None if value is None else value.text
        else:
            values[name] = list(value) if isinstance(value, tuple) else value
    return values


def from_columns(row_type: type[RowT], columns: Mapping[str, Any]) -> RowT:
    """Return the model of a stored row; beside each `<field>_id` stands that text's hash, `<field>_sha256`."""
    texts = text_fields(row_type)
    values: dict[str, Any] = {}
    for name in row_type.model_fields:
        if name in texts:
            text_id = columns[f"{name}_id"]
            values[name] = None if text_id is None else TextRef(text=text_id, sha256=columns[f"{name}_sha256"])
        else:
            values[name] = columns[name]
    return row_type.model_validate(values)

"""Remarking on a trace, case, run or record. Append-only: a correction is a new remark that names what it replaces.

Promise: author, time and entry are the ledger's, never the caller's. Refused: a kind or target that does not exist, an
empty or long label, replacing a remark that was replaced or is about something else, an actor without the authority
to annotate, a target that got another remark since the caller looked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError, field_validator
from sqlalchemy import Connection

from core import clock
from core.acts.identity import Identity, require
from core.errors import HIDDEN, InputError, TransitionError, quoted
from core.ledger import annotation_store
from core.ledger.store import Store
from core.records.annotation import Annotation, TargetKind
from core.records.base import Noun, Text, refusal, text_problem
from core.views.views import Snapshot

LABEL_LENGTH = 80
"""A label is a few words on one line; the reason has its own field."""
ID_LENGTH = 400
"""Longer than any id."""

Exists = Callable[[TargetKind, str], bool]
"""Answers whether there is something of this kind and id."""


class AnnotateRequest(Noun):
    """A remark somebody wants to make."""

    target_kind: TargetKind
    """What it is about."""
    target_id: str
    """Its id."""
    label: str
    """A few words."""
    text: Text | None = None
    """The reason."""
    replaces: str | None = None
    """The annotation it corrects."""

    @field_validator("target_id", "replaces")
    @classmethod
    def _an_id(cls, value: str | None) -> str | None:
        if value is not None and (problem := text_problem(value)) is not None:
            raise ValueError(f"the id {problem}")
        if value is not None and len(value) > ID_LENGTH:
            raise ValueError(f"the id is {len(value):,} characters long; at most {ID_LENGTH} are taken")
        return value

    @field_validator("label")
    @classmethod
    def _one_line(cls, label: str) -> str:
        words = label.strip()
        if not words or HIDDEN.search(words):
            raise ValueError("a label is a few visible words on one line")
        if len(words) > LABEL_LENGTH:
            raise ValueError(f"the label is {len(words):,} characters long; at most {LABEL_LENGTH} are taken")
        return words


@dataclass(frozen=True)
class AnnotateResult:
    """The stored remark and its entry."""

    annotation: Annotation
    """As it was stored."""
    seq: int
    """The ledger entry."""


def request(
    target_kind: str, target_id: str, label: str, text: str | None = None, replaces: str | None = None
) -> AnnotateRequest:
    """Return the request, checked.

    Raises
    ------
    InputError : an unknown kind (the known ones are listed), an empty id, a label or reason that cannot be stored.
    """
    if target_kind not in TargetKind.__members__.values():
        raise InputError(
            f"There is nothing of kind {quoted(target_kind)} to annotate: it is one of {', '.join(TargetKind)}."
        )
    try:
        return AnnotateRequest(
            target_kind=TargetKind(target_kind), target_id=target_id, label=label, text=text, replaces=replaces
        )
    except ValidationError as e:
        raise refusal(e, InputError) from e


def annotate(
    store: Store, identity: Identity, wanted: AnnotateRequest, *, exists: Exists, expected_seq: int | None = None
) -> AnnotateResult:
    """Store a remark.

    Parameters
    ----------
    exists : asked before anything is written: most targets are Parquet rows, which the store does not know.
    expected_seq : the sequence of the target's last remark that the caller saw (0: none); None: not checked.

    Raises
    ------
    InputError : there is no such target, or no such annotation to replace.
    PermissionRefused : the actor may not annotate.
    TransitionError : the annotation to replace was replaced before or is about something else; the target has a
        remark the caller did not see.
    """
    if not exists(wanted.target_kind, wanted.target_id):
        raise InputError(
            f"There is no {wanted.target_kind} {quoted(wanted.target_id)} here.", next_step="Check the id."
        )
    with store.write(actor=identity.actor, identity=identity.how.value) as tx:
        require(tx.conn, identity, "annotate")
        _check_sequence(tx.conn, wanted, expected_seq)
        _check_replaced(tx.conn, wanted)
        annotation = Annotation(
            id=clock.new_id(),
            target_kind=wanted.target_kind,
            target_id=wanted.target_id,
            label=wanted.label,
            text=wanted.text,
            author=identity.actor,
            at=tx.at,
            replaces=wanted.replaces,
        )
        entry = annotation_store.add(tx, annotation)
    return AnnotateResult(annotation, entry.seq)


def known_in(snapshot: Snapshot) -> Exists:
    """Return whether-it-exists over everything the views know."""
    questions = {
        TargetKind.TRACE: (("trace", "trace_id"),),
        TargetKind.CASE: (("trace", "episode_id"),),
        TargetKind.RUN: (("run", "run_id"), ("trace", "run_id")),
        TargetKind.RECORD: (("record", "record_id"), ("trace", "fired_record"), ("trace", "expected_record")),
    }

    def exists(kind: TargetKind, target_id: str) -> bool:
        return any(
            snapshot.ask(view, f"SELECT 1 AS found FROM {view} WHERE {column} = ? LIMIT 1", [target_id]).rows()
            for view, column in questions[kind]
        )

    return exists


def _check_sequence(conn: Connection, wanted: AnnotateRequest, expected_seq: int | None) -> None:
    last = annotation_store.latest_seq(conn, wanted.target_kind, wanted.target_id)
    if expected_seq is not None and last != expected_seq:
        raise TransitionError(
            f"The {wanted.target_kind} {wanted.target_id} got another remark meanwhile (entry {last}).",
            next_step="Look at it, then annotate again.",
        )


def _check_replaced(conn: Connection, wanted: AnnotateRequest) -> None:
    if wanted.replaces is None:
        return
    old = annotation_store.get(conn, wanted.replaces)
    if old is None:
        raise InputError(f"There is no annotation {quoted(wanted.replaces)} to replace.")
    if (old.target_kind, old.target_id) != (wanted.target_kind, wanted.target_id):
        raise TransitionError(f"Annotation {old.id} is about the {old.target_kind} {old.target_id}.")
    if (newer := annotation_store.replacement_of(conn, old.id)) is not None:
        raise TransitionError(f"Annotation {old.id} was replaced by {newer}: replace that one.")

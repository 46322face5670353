"""The store of annotations: append-only; a correction is a new one that names, once, what it replaces."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from core.ledger.kinds import AnnotationAdded, EntryKind
from core.ledger.rows import AnnotationRow
from core.ledger.schema import annotation, text
from core.ledger.store import Pending, Tx, fetch_row
from core.records.annotation import Annotation, TargetKind


def add(tx: Tx, new: Annotation) -> Pending:
    """Store an annotation.

    Raises
    ------
    StoreError : its id is taken, what it replaces is missing or was replaced before.
    """
    row = AnnotationRow(
        id=new.id,
        target_kind=new.target_kind,
        target_id=new.target_id,
        label=new.label,
        text=None if new.text is None else tx.text(new.text),
        author=new.author,
        at=new.at,
        replaces=new.replaces,
    )
    return tx.put(EntryKind.ANNOTATION_ADDED, AnnotationAdded(after=row), row, new=True)


def list_annotations(
    conn: Connection, target_kind: TargetKind | None = None, target_id: str | None = None
) -> list[Annotation]:
    """Return the annotations (of a target), oldest first; replaced ones included."""
    query = select(annotation, text.c.text.label("reason")).outerjoin(text, annotation.c.text_id == text.c.id)
    if target_kind is not None:
        query = query.where(annotation.c.target_kind == target_kind.value)
    if target_id is not None:
        query = query.where(annotation.c.target_id == target_id)
    return [
        Annotation(
            id=row.id,
            target_kind=TargetKind(row.target_kind),
            target_id=row.target_id,
            label=row.label,
            text=row.reason,
            author=row.author,
            at=row.at,
            replaces=row.replaces,
        )
        for row in conn.execute(query.order_by(annotation.c.last_seq, annotation.c.id))
    ]


def get(conn: Connection, annotation_id: str) -> AnnotationRow | None:
    """Return one annotation's row, or None."""
    return fetch_row(conn, AnnotationRow, annotation_id)


def replacement_of(conn: Connection, annotation_id: str) -> str | None:
    """Return the annotation that replaced this one, or None."""
    return conn.scalar(select(annotation.c.id).where(annotation.c.replaces == annotation_id))


def latest_seq(conn: Connection, target_kind: TargetKind, target_id: str) -> int:
    """Return the sequence of the last annotation of a target; 0 where there is none."""
    query = select(func.max(annotation.c.last_seq)).where(
        annotation.c.target_kind == target_kind.value, annotation.c.target_id == target_id
    )
    return conn.scalar(query) or 0

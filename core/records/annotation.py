"""An append-only remark on a trace, case, run or record."""

from __future__ import annotations

from enum import StrEnum

from core.records.base import Instant, Noun, Text


class TargetKind(StrEnum):
    """What can be annotated."""

    TRACE = "trace"
    """One execution."""
    CASE = "case"
    """One case."""
    RUN = "run"
    """One evaluation run."""
    RECORD = "record"
    """One stored record."""


class Annotation(Noun):
    """Somebody's remark; a correction is a new one that names what it replaces."""

    id: str
    """UUIDv7."""
    target_kind: TargetKind
    """What it is about."""
    target_id: str
    """The id of what it is about."""
    label: str
    """A short label, like `wrong label` or `looks right`."""
    text: Text | None = None
    """The reason."""
    author: str
    """The actor who wrote it."""
    at: Instant
    """When."""
    replaces: str | None = None
    """The annotation this one corrects."""

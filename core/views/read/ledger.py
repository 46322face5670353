"""Questions about the ledger's entries, annotations and stored records."""

from __future__ import annotations

from core.errors import ViewError
from core.views.answer import Answer
from core.views.views import Snapshot


def entries(snapshot: Snapshot, subject: str | None = None, before: int | None = None, limit: int = 50) -> Answer:
    """Return ledger entries, newest first.

    Parameters
    ----------
    subject : only entries about this; None: all.
    before : only entries with a smaller sequence: the last one shown is the next page's key.
    limit : 1 to 1,000.

    Raises
    ------
    ViewError : a limit out of range.
    """
    if not 1 <= limit <= 1000:
        raise ViewError(f"A page holds 1 to 1,000 rows, not {limit:,}.")
    return snapshot.ask(
        "ledger_entry",
        "SELECT * FROM ledger_entry WHERE (?::VARCHAR IS NULL OR subject = ?) AND (?::BIGINT IS NULL OR seq < ?)"
        f" ORDER BY seq DESC LIMIT {limit}",
        [subject, subject, before, before],
    )


def annotations_of(snapshot: Snapshot, target_kind: str, target_id: str) -> Answer:
    """Return the remarks on one trace, case, run or record, oldest first; corrected ones are marked `replaced_by`."""
    return snapshot.ask(
        "annotation",
        "SELECT * FROM annotation WHERE target_kind = ? AND target_id = ? ORDER BY id",
        [target_kind, target_id],
    )


def records(snapshot: Snapshot, namespace: str) -> Answer:
    """Return the stored records of one namespace, in order of writing."""
    return snapshot.ask("record", "SELECT * FROM record WHERE namespace = ? ORDER BY row_id", [namespace])

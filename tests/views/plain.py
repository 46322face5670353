"""The filter, the order and the derived columns once more, in plain Python: the second way to the answer."""

from __future__ import annotations

from datetime import datetime
from functools import cmp_to_key
from typing import Any

from core.clock import parse_instant
from core.records.filter import Filter, FilterOp, FilterTerm
from core.records.trace import ErrorKind, Trace
from core.traces.dataset import to_row


def plain_row(trace: Trace) -> dict[str, Any]:
    """Return all columns of the trace view."""
    t = trace
    words = {
        ErrorKind.MISSED: "missed",
        ErrorKind.FALSE: "false action",
        ErrorKind.WRONG_RECORD: "wrong record",
        ErrorKind.WRONG_PAYLOAD: "wrong payload",
        ErrorKind.NONE: "right action" if t.expected_trigger else "right silence",
    }
    checks = [t.audit_no_retrieved_id, t.audit_no_intervention, t.audit_no_later_use, t.audit_output_equal]

    def path(*parts: object) -> str:
        return "/".join(str(p) for p in parts if p is not None)

    return to_row(t) | {
        "outcome": words[t.error_kind],
        "path": "null path" if t.predicted_action is None else "intervention",
        "pair_id": path(t.run_id, t.seed, t.arm, t.boundary, t.match_id),
        "twin_id": path(t.run_id, t.seed, t.arm, t.episode_id),
        "margin": None if t.score is None or t.threshold is None else t.score - t.threshold,
        "audit_passed": False if False in checks else None if None in checks else True,
        "restarted": None if t.writer_pid is None or t.responder_pid is None else t.writer_pid != t.responder_pid,
    }


def as_value(cell: Any, text: str) -> Any:
    """Return a filter's text as the type of a cell."""
    if isinstance(cell, bool):
        return text == "true"
    if isinstance(cell, datetime):
        return parse_instant(text)
    return type(cell)(text)


def holds(term: FilterTerm, row: dict[str, Any]) -> bool:
    """Return whether one term holds of a row."""
    cell = row[term.field]
    if term.op is FilterOp.IS:
        return (cell is None) == (term.value == "null")
    if cell is None:
        return term.op is FilterOp.NE
    if term.op is FilterOp.CONTAINS:
        return term.value.lower() in cell.lower()
    value = as_value(cell, term.value)
    return bool(
        {
            FilterOp.EQ: lambda: cell == value,
            FilterOp.NE: lambda: cell != value,
            FilterOp.LT: lambda: cell < value,
            FilterOp.LE: lambda: cell <= value,
            FilterOp.GT: lambda: cell > value,
            FilterOp.GE: lambda: cell >= value,
        }[term.op]()
    )


def chosen(rows: list[dict[str, Any]], by: Filter) -> list[dict[str, Any]]:
    """Return the rows a filter selects."""
    fields = {t.field for t in by.terms if t.op is FilterOp.EQ}

    def selected(row: dict[str, Any]) -> bool:
        return all(holds(t, row) for t in by.terms if t.op is not FilterOp.EQ) and all(
            any(holds(t, row) for t in by.terms if t.op is FilterOp.EQ and t.field == f) for f in fields
        )

    return [r for r in rows if selected(r)]


def in_order(rows: list[dict[str, Any]], field: str, *, descending: bool) -> list[str]:
    """Return the ids in the order of a list: undefined last, ties by id."""

    def compare(a: dict[str, Any], b: dict[str, Any]) -> int:
        x, y = a[field], b[field]
        if (x is None) != (y is None):
            return 1 if x is None else -1
        first, second = (
            ((x, a["trace_id"]), (y, b["trace_id"])) if x is not None else ((a["trace_id"],), (b["trace_id"],))
        )
        sign = (first > second) - (first < second)
        return -sign if descending else sign

    return [r["trace_id"] for r in sorted(rows, key=cmp_to_key(compare))]

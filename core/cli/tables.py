"""Criteria and properties as aligned lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.evaluation.properties import PropertyRow
    from core.records.run import CriterionRow


def aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with columns of equal width."""
    table = [list(header), *(list(r) for r in rows)]
    widths = [max(len(r[c]) for r in table) for c in range(len(header))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip() for r in table]


def number(value: float | None) -> str:
    """Return a number with four decimals, `undefined` for None."""
    return "undefined" if value is None else f"{value:.4f}"


def criteria_lines(rows: Sequence[CriterionRow]) -> list[str]:
    """Return criteria with value, interval, n, requirement, margin and decision."""
    return aligned(
        ("criterion", "observed", "95% interval", "n", "required", "margin", "decision"),
        [
            (
                r.metric,
                number(r.observed),
                "undefined" if r.ci_low is None else f"{number(r.ci_low)} to {number(r.ci_high)}",
                str(r.n),
                f"{'lower bound ' if r.statistic == 'ci_low' else ''}{r.direction} {r.threshold:g}",
                f"{r.margin:+.4f}" if r.margin else number(r.margin),
                r.decision.value,
            )
            for r in rows
        ],
    )


def property_lines(rows: Sequence[PropertyRow]) -> list[str]:
    """Return properties with k of n and what was counted."""
    return aligned(
        ("property", "holds in", "requirement", "counted"),
        [(r.item, f"{r.k} of {r.n}", r.requirement, r.counted) for r in rows],
    )

"""What tables show: rows of a view or a trace as the columns a reader sees, words and icons for status.

Nothing is counted here. Undefined stays undefined (NaN, None) and is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import pyarrow as pa

from core.evaluation.estimate import rate
from core.figures.literal import one_line
from core.figures.wording import ARM_TITLES, AUDIT_CHECKS, compared, duration, outcome
from core.records.run import CriterionRow, Decided
from core.records.trace import ArmName, Trace

DECISION_ICONS = {Decided.MET: "✓", Decided.NOT_MET: "✕", Decided.UNDEFINED: "—"}
SIGNS = {">=": "≥", "<=": "≤", "=": "="}
RUN_ICONS = {"complete": "✓", "failed": "✕", "running": "…", "partial": "◐", "amended": "↻"}

OUTCOME_ICONS = {
    "right action": "✓",
    "right silence": "✓",
    "missed": "✕",
    "false action": "✕",
    "wrong record": "✕",
    "wrong payload": "✕",
}
CELL = 500
"""So many characters of a text are sent to a table's cell."""
LIST_COLUMNS = (
    "outcome", "arm", "score", "event_text", "family", "null_reason", "boundary", "threshold", "seed", "delay",
    "evidence_class", "created_at", "episode_id", "trace_id",
)  # fmt: skip
"""The columns a list asks for, in the order shown."""


def trace_list(rows: pa.Table) -> pd.DataFrame:
    """Return a page of executions as shown: the columns of `LIST_COLUMNS`."""
    table = rows.select(list(LIST_COLUMNS)).to_pandas()
    table["outcome"] = [f"{OUTCOME_ICONS.get(o, '?')} {o}" for o in table["outcome"]]
    for name in ("boundary", "family", "null_reason"):
        table[name] = [None if v is None else one_line(v.replace("_", " ")) for v in _texts(table[name])]
    table["event_text"] = [one_line(t, 200) for t in table["event_text"]]
    return table


def _texts(column: pd.Series) -> list[str | None]:
    return [None if pd.isna(v) else str(v) for v in column]


def arms_table(traces: Iterable[Trace]) -> pd.DataFrame:
    """Return one row an arm, by arm, all words: columns `arm`, `outcome`, `score`, `system's action`, `output`."""
    rows = [
        {
            "arm": ARM_TITLES[t.arm],
            "outcome": outcome(t),
            "score": compared(t.score, t.threshold),
            "system's action": None if t.predicted_action is None else one_line(t.predicted_action, CELL),
            "output": None if t.output is None else one_line(t.output, CELL),
        }
        for t in sorted(traces, key=lambda t: t.arm)
    ]
    return pd.DataFrame(rows, columns=["arm", "outcome", "score", "system's action", "output"])


def audit_table(trace: Trace) -> pd.DataFrame:
    """Return the four checks of the null audit.

    Returns
    -------
    Columns `result` (icon and word) and `check`; no row where the null path was not audited.
    """
    words = {True: "✓ passed", False: "✕ failed", None: "— not recorded"}
    rows = [(words[getattr(trace, name)], text) for name, text in AUDIT_CHECKS.items()] if trace.null_trial else []
    return pd.DataFrame(rows, columns=["result", "check"])


def decision_table(trace: Trace) -> pd.DataFrame:
    """Return every stored decision.

    Returns
    -------
    Columns `event` (`final`, or the distractor's number), `record`, `score` (NaN where none was given), `fired` (icon
    and word), `event text`.
    """
    last = len(trace.events) - 1
    rows = [
        {
            "event": "final" if d.event == last else f"distractor {d.event + 1}",
            "record": one_line(d.record_id),
            "score": float("nan") if d.score is None else d.score,
            "fired": "● fired" if d.fired else "○ silent",
            "event text": one_line(trace.events[d.event], CELL) if d.event <= last else "",
        }
        for d in trace.decisions
    ]
    return pd.DataFrame(rows, columns=["event", "record", "score", "fired", "event text"])


def record_table(trace: Trace) -> pd.DataFrame:
    """Return every record as it stood when the final event came: `record`, `state`, `condition`, `payload`."""
    rows = [
        (one_line(r.record_id), r.state, one_line(r.condition, CELL), one_line(r.payload, CELL)) for r in trace.records
    ]
    return pd.DataFrame(rows, columns=["record", "state", "condition", "payload"])


def arm_shares(summary: pa.Table) -> pd.DataFrame:
    """Return the arms of one run as shares of episodes right, with Wilson intervals.

    Parameters
    ----------
    summary : the view `arm_summary` of one run.

    Returns
    -------
    Columns `arm`, `share` (NaN for n = 0), `right` and `95% interval` in words.
    """
    rows = [rate(a["arm"], a["right"] or 0, a["n"]) for a in summary.to_pylist()]
    return pd.DataFrame(
        {
            "arm": [ARM_TITLES[ArmName(r.metric)] for r in rows],
            "share": pd.Series([r.observed for r in rows], dtype="float64"),
            "right": [f"{r.k:,} of {r.n:,}" if r.n else "undefined, n = 0" for r in rows],
            "95% interval": [None if r.ci_low is None else f"{r.ci_low:.3f} to {r.ci_high:.3f}" for r in rows],
        }
    )


def criteria_table(criteria: Iterable[CriterionRow]) -> pd.DataFrame:
    """Return criteria as a reader compares them.

    Returns
    -------
    Columns `criterion`, `observed`, `interval`, `required`, `margin`, `n`, `decision` (icon and word).
    """
    rows = [
        {
            "decision": f"{DECISION_ICONS[c.decision]} {c.decision}",
            "criterion": c.metric.replace("_", " "),
            "observed": float("nan") if c.observed is None else c.observed,
            "95% interval": None if c.ci_low is None else f"{c.ci_low:.3f} to {c.ci_high:.3f}",
            "required": f"{'lower end ' if c.statistic == 'ci_low' else ''}{SIGNS[c.direction]} {c.threshold:g}",
            "margin": float("nan") if c.margin is None else c.margin,
            "n": c.n,
        }
        for c in criteria
    ]
    return pd.DataFrame(rows)


def run_table(rows: pa.Table) -> pd.DataFrame:
    """Return runs, newest first: `status` (icon and word), `kind`, `class`, `stored`, `started`, `took`,
    `run`, `note`.
    """
    shown = [
        {
            "status": f"{RUN_ICONS.get(r['status'], '?')} {r['status']}",
            "kind": r["kind"],
            "class": r["evidence_class"],
            "stored": f"{r['stored']:,} of {r['planned']:,}",
            "started": r["started_at"],
            "took": "—" if r["elapsed_s"] is None else duration(r["elapsed_s"] * 1e6),
            "run": r["run_id"],
            "note": one_line(r["note"], CELL) if r["note"] else None,
        }
        for r in rows.to_pylist()
    ]
    return pd.DataFrame(shown, columns=["status", "kind", "class", "stored", "started", "took", "run", "note"])

"""Table 2 and our row of Table 3, counted from stored rows; each count names the filter that opens its rows.

Promise: nothing here is asserted, everything is counted; n is episodes, and an episode holds only if all its rows do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.records.run import CriterionRow, Decided
from core.records.trace import ArmName, Boundary

COLUMNS = (
    "trace_id", "episode_id", "arm", "boundary", "records", "events", "decisions", "decisions_expected", "fired",
    "predicted_action", "payload_bound", "null_trial", "audit_no_retrieved_id", "audit_no_intervention",
    "audit_no_later_use", "audit_output_equal", "memory_write_ok", "store_reopened", "writer_pid", "responder_pid",
    "backbone_hash_before", "backbone_hash_after",
)  # fmt: skip
"""What the counts read, beside what `metrics` reads."""

FAILING_SHOWN = 20


@dataclass(frozen=True)
class PropertyRow:
    """One of the six observable properties, counted."""

    item: str
    """P1 to P6."""
    requirement: str
    """The paper's words, shortened."""
    counted: str
    """What holds of the k."""
    k: int
    """Episodes of which it holds in every row."""
    n: int
    """Episodes looked at."""
    executions: int
    """Rows looked at."""
    terms: tuple[str, ...]
    """Filter tokens of those rows."""
    failing: tuple[str, ...]
    """Trace ids of rows of which it does not hold; at most twenty."""

    @property
    def holds(self) -> bool | None:
        """Whether it holds in n of n; None for n = 0."""
        return None if self.n == 0 else self.k == self.n


def _row(
    item: str, requirement: str, counted: str, rows: pd.DataFrame, among: pd.Series, ok: pd.Series, *terms: str
) -> PropertyRow:
    seen = rows[among]
    held = ok[among].astype(bool)
    by_episode = held.groupby(seen["episode_id"]).all()
    return PropertyRow(
        item=item,
        requirement=requirement,
        counted=counted,
        k=int(by_episode.sum()),
        n=len(by_episode),
        executions=len(seen),
        terms=tuple(sorted(terms)),
        failing=tuple(seen.loc[~held, "trace_id"].astype(str).head(FAILING_SHOWN)),
    )


def _bound_by_id(text: str) -> bool:
    records = json.loads(text)
    ids = {r["record_id"] for r in records}
    return (
        bool(records)
        and len(ids) == len(records)
        and all(r["condition"].strip() and r["payload"].strip() for r in records)
        and all(r["payload"] not in r["condition"] and r["condition"] not in r["payload"] for r in records)
    )


def _decisions_complete(text: str, expected: int, events: str) -> bool:
    decisions = json.loads(text)
    pairs = {(d["event"], d["record_id"]) for d in decisions}
    known = range(len(json.loads(events)))
    return len(pairs) == len(decisions) == expected and all(event in known for event, _ in pairs)


def properties(rows: pd.DataFrame) -> tuple[PropertyRow, ...]:
    """Count the six properties.

    Parameters
    ----------
    rows : one row an execution, with `COLUMNS`; nested fields as their stored JSON text.

    Source
    ------
    Paper section 3.3, table 2.
    """
    c3 = rows["arm"].eq(ArmName.C3.value)
    writes = rows["memory_write_ok"].notna()
    restart = rows["boundary"].eq(Boundary.RESTART.value)
    null = c3 & rows["null_trial"].astype(bool)
    fired = rows["fired"].astype(bool)
    every = pd.Series(np.ones(len(rows), dtype=bool), index=rows.index)
    other_process = rows["writer_pid"].notna() & rows["writer_pid"].ne(rows["responder_pid"])
    acted = rows["predicted_action"].notna()
    own = rows["predicted_action"].eq(rows["payload_bound"]).fillna(False).astype(bool)
    audits = ["audit_no_retrieved_id", "audit_no_intervention", "audit_no_later_use", "audit_output_equal"]
    bound = pd.Series([_bound_by_id(t) for t in rows["records"]], index=rows.index, dtype=bool)
    complete = pd.Series(
        [
            _decisions_complete(d, int(n), e)
            for d, n, e in zip(rows["decisions"], rows["decisions_expected"], rows["events"], strict=True)
        ],
        index=rows.index,
        dtype=bool,
    )
    return (
        _row(
            "P1", "Frozen pretrained backbone", "the hash over all weights is equal before and after", rows, every,
            rows["backbone_hash_before"].eq(rows["backbone_hash_after"]),
        ),
        _row(
            "P2", "System-written persistent memory", "records are read back equal by another process, from a store "
            "opened after the writer had exited", rows, writes & restart,
            rows["memory_write_ok"].eq(True) & rows["store_reopened"].astype(bool) & other_process,
            "boundary:eq:restart", "memory_write_ok:is:set",
        ),
        _row(
            "P3", "Write-time future-condition binding", "every record holds condition and payload apart, bound by its "
            "own id", rows, writes, bound, "memory_write_ok:is:set",
        ),
        _row(
            "P4", "Later trigger detection", "a decision is stored for every event and active record", rows, c3,
            complete, "arm:eq:C3",
        ),
        _row(
            "P5", "Selective memory-dependent intervention", "the bound payload is acted on if and only if its record "
            "fired", rows, c3, (fired & own) | (~fired & ~acted), "arm:eq:C3",
        ),
        _row(
            "P6", "Reachable exact null path", "the null audit passes all four checks", rows, null,
            rows[audits].eq(True).all(axis=1), "arm:eq:C3", "null_trial:eq:true",
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class EvidenceRow:
    """One row of Table 3, ours."""

    analysis: str
    evidence_class: str
    scale: str
    observed_result: str
    permitted_inference: str
    terms: tuple[str, ...]


def evidence_row(rows: pd.DataFrame, criteria: Sequence[CriterionRow], planned: int) -> EvidenceRow:
    """Return our own row of Table 3 for a controlled run.

    Source
    ------
    Paper section 4.1, table 3.
    """
    met = sum(c.decision is Decided.MET for c in criteria)
    undefined = sum(c.decision is Decided.UNDEFINED for c in criteria)
    stored = int(rows["trace_id"].nunique())
    whole = stored == planned
    result = f"{met}/{len(criteria)} criteria met" + (f", {undefined} undefined" if undefined else "")
    inference = (
        "controlled causal and selective system behaviour, under the generator it was made with"
        if whole and met == len(criteria)
        else "none beyond the criteria met"
    )
    return EvidenceRow(
        analysis="Controlled evaluation",
        evidence_class=", ".join(sorted(str(c) for c in rows["evidence_class"].unique())),
        scale=f"{stored:,} runs" if whole else f"{stored:,} of {planned:,} runs",
        observed_result=result,
        permitted_inference=inference,
        terms=tuple(sorted(f"run_id:eq:{r}" for r in rows["run_id"].unique())),
    )

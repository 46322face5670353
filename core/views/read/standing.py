"""What the newest complete controlled run establishes: criteria, properties and claims, each with the rows behind it.

Promise: counted anew from the run's stored rows by `core.evaluation`, never read off an earlier answer; one run alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from core.config import Config
from core.errors import DuebookError, EvidenceMissing
from core.evaluation import manifest, metrics, summary
from core.evaluation.claims import Claim, Outcome, claims
from core.evaluation.properties import PropertyRow, properties
from core.records.filter import Filter
from core.records.run import CriterionRow, Manifest
from core.views.read.traces import field_names

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Standing:
    """The state of the evidence."""

    run: Manifest | None
    """The newest complete controlled run; None: there is none."""
    criteria: tuple[CriterionRow, ...]
    """Every criterion of its contract, decided."""
    rows_behind: Mapping[str, Filter]
    """The filter that opens the rows of each metric, and of each property by its item."""
    properties: tuple[PropertyRow, ...]
    """P1 to P6, counted."""
    claims: tuple[Claim, ...]
    """The claims table."""
    code_changed: bool = False
    """Whether the code differs from what made the run."""

    def criterion(self, metric: str) -> CriterionRow | None:
        """Return the criterion on a metric, or None."""
        return next((c for c in self.criteria if c.metric == metric), None)


def _diagnosed(diagnostic: Manifest, rows: pd.DataFrame) -> tuple[CriterionRow, ...]:
    try:
        return summary.actuation_criteria(diagnostic, rows)
    except DuebookError as e:  # the diagnostic carries no claim: without it the rest still stands
        log.warning("the model-actuation diagnostic cannot be counted: %s", e)
        return ()


def standing(config: Config) -> Standing:
    """Return what the workspace's newest complete controlled run establishes.

    Raises
    ------
    EvidenceMissing : the run's files are missing or damaged.
    CheckFailed : the contract is not the one it was run under; repeats of an execution disagree.
    """
    try:
        run = summary.stored_run(config, None)
    except EvidenceMissing:
        return Standing(None, (), {}, (), claims(None, None))
    rows = summary.rows_of(config, run)
    estimates = metrics.controlled(rows)
    criteria = summary.criteria(run, rows, estimates=estimates)
    counted = tuple(properties(rows))
    diagnostic = summary.actuation_of(config, run)
    actuation = None if diagnostic is None else Outcome(diagnostic, _diagnosed(diagnostic, rows))
    terms = {name: e.terms for name, e in estimates.items()} | {p.item: p.terms for p in counted}
    behind = {name: Filter.parse([*tokens, f"run_id:eq:{run.run_id}"], field_names()) for name, tokens in terms.items()}
    told = claims(Outcome(run, criteria, counted), actuation)
    return Standing(run, criteria, behind, counted, told, manifest.code_hash() != run.code_hash)

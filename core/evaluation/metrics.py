"""The controlled metrics, as pure functions of stored rows: the reference the views are held to.

Promise: n counts independent episodes; copies (boundaries, repeats) never add to it, so duplicating every row changes
no value and no interval. An episode is right only if right in both boundaries. Refused: repeats that disagree, and rows
of several classes, origins or contracts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from core.errors import CheckFailed, InputError
from core.evaluation.bootstrap import Counts, Values, interval
from core.evaluation.estimate import Estimate, rate
from core.records.trace import ArmName, Boundary

KEY = ["episode_id", "arm", "boundary", "backbone"]
POOLED_NEVER = ("evidence_class", "origin", "contract")
DISTRACTOR_ONLY = "distractor_only"
COMPARED = (
    "match_id", "seed", "family", "expected_trigger", "expected_record", "expected_payload",
    "fired", "fired_record", "score", "predicted_action", "payload_bound", "intervention", "output", "baseline_output",
    "null_trial", "audit_no_retrieved_id", "audit_no_intervention", "audit_no_later_use", "audit_output_equal",
    "distractor_fires", "decisions_expected", "memory_write_ok", "backbone_hash_before", "backbone_hash_after",
)  # fmt: skip
"""Columns on which copies of an execution must agree."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Disagreement:
    """Copies of one execution that differ."""

    episode_id: str
    arm: str
    columns: tuple[str, ...]
    copies: str
    """repeats | boundaries."""

    def __str__(self) -> str:
        """Return it as words."""
        return f"{self.copies} of {self.episode_id} in {self.arm} disagree on {', '.join(self.columns)}"


def _differing(rows: pd.DataFrame, key: list[str], columns: list[str], copies: str) -> list[Disagreement]:
    distinct = rows[key + columns].drop_duplicates()
    again = distinct[distinct.duplicated(key, keep=False)]
    found = []
    for values, group in again.groupby(key, sort=True, dropna=False):
        named = dict(zip(key, values, strict=True))
        differ = tuple(c for c in columns if group[c].nunique(dropna=False) > 1)
        found.append(Disagreement(str(named["episode_id"]), str(named["arm"]), differ, copies))
    return found


def disagreements(rows: pd.DataFrame) -> list[Disagreement]:
    """Return every disagreement of copies: repeats on anything, boundaries on anything that no metric compares.

    `restart_persistence_loss` compares the boundaries' right actions of C3 on positives; those rows are left to it.
    """
    repeats = _differing(rows, KEY, list(COMPARED), "repeats")
    left = rows[~(rows["arm"].eq(ArmName.C3.value) & rows["expected_trigger"].astype(bool))]
    key = ["episode_id", "arm", "backbone"]
    return repeats + _differing(left, key, list(COMPARED), "boundaries")


@dataclass(frozen=True)
class Episodes:
    """Outcomes an episode, in the order of `episode_id`; a value a boundary where boundaries are compared."""

    ids: npt.NDArray[np.object_]
    clusters: npt.NDArray[np.object_]
    positive: Flags
    distractor_only: Flags
    arms: frozenset[str]
    outcome: Mapping[tuple[str, str], Flags]
    """(arm, outcome) -> holds in every boundary; acted, silent, right, audited, not_fired, whole, written."""
    acted_in: Mapping[str, Flags]
    """boundary -> C3 acted right there."""
    null_trials: Flags
    written_known: Flags


def _one_pool(rows: pd.DataFrame) -> None:
    for column in POOLED_NEVER:
        if (values := sorted({str(v) for v in rows[column].unique()})) and len(values) > 1:
            raise InputError(f"Rows of several values of {column} are never pooled: {', '.join(values)}.")


def collapse(rows: pd.DataFrame) -> Episodes:
    """Reduce executions to independent episodes.

    Parameters
    ----------
    rows : one row an execution, with the columns of a trace.

    Raises
    ------
    CheckFailed : copies of an execution disagree.
    InputError : several evidence classes, origins or contracts.
    """
    _one_pool(rows)
    if repeats := _differing(rows, KEY, list(COMPARED), "repeats"):
        shown = "; ".join(str(d) for d in repeats[:3])
        raise CheckFailed(f"{len(repeats)} executions have copies that disagree: {shown}.")
    one = rows.drop_duplicates(KEY).sort_values(KEY, ignore_index=True)
    positive = one["expected_trigger"].astype(bool)
    baseline = one.loc[one["arm"].eq(ArmName.C0.value), ["episode_id", "boundary", "backbone", "output"]]
    paired = one.merge(
        baseline, on=["episode_id", "boundary", "backbone"], how="left", suffixes=("", "_c0"), validate="m:1"
    )["output_c0"]
    acted = positive & one["predicted_action"].eq(one["expected_payload"]).fillna(False).astype(bool)
    no_action = ~positive & one["predicted_action"].isna()
    silent = ~positive & one["intervention"].isna() & one["output"].eq(paired).fillna(False).astype(bool)
    audits = ["audit_no_retrieved_id", "audit_no_intervention", "audit_no_later_use", "audit_output_equal"]
    null = one["null_trial"].astype(bool)
    written = one["memory_write_ok"]
    flags = pd.DataFrame(
        {
            "episode_id": one["episode_id"],
            "arm": one["arm"],
            "boundary": one["boundary"],
            "acted": acted,
            "silent": silent,
            "right": acted | no_action,
            "audited": ~null | one[audits].eq(True).all(axis=1),
            "not_fired": ~one["fired"].astype(bool),
            "whole": one["backbone_hash_before"].eq(one["backbone_hash_after"]),
            "written": written.isna() | written.eq(True),
        }
    )
    first = one.drop_duplicates("episode_id").set_index("episode_id")
    ids = first.index
    combined = flags.drop(columns="boundary").groupby(["episode_id", "arm"]).all()
    arms = frozenset(str(a) for a in one["arm"].unique())
    outcome = {
        (arm, str(name)): combined.xs(arm, level="arm")[name].reindex(ids, fill_value=False).to_numpy(bool)
        for arm in arms
        for name in combined.columns
    }
    c3 = flags[flags["arm"].eq(ArmName.C3.value)]
    acted_in = {
        str(boundary): group.groupby("episode_id")["acted"].all().reindex(ids, fill_value=False).to_numpy(bool)
        for boundary, group in c3.groupby("boundary")
    }
    return Episodes(
        ids=ids.to_numpy(object),
        # An episode without a partner is a cluster of its own.
        clusters=first["match_id"].fillna(first.index.to_series()).to_numpy(object),
        positive=first["expected_trigger"].to_numpy(bool),
        distractor_only=first["family"].eq(DISTRACTOR_ONLY).to_numpy(bool),
        arms=arms,
        outcome=outcome,
        acted_in=acted_in,
        null_trials=(null & one["arm"].eq(ArmName.C3.value))
        .groupby(one["episode_id"])
        .any()
        .reindex(ids)
        .to_numpy(bool),
        written_known=written.notna().groupby(one["episode_id"]).any().reindex(ids).to_numpy(bool),
    )


def _cluster_sums(episodes: Episodes, columns: list[npt.NDArray[np.int64]]) -> Counts:
    _, index = np.unique(episodes.clusters.astype(str), return_inverse=True)
    sums = np.zeros((int(index.max(initial=-1)) + 1, len(columns)), dtype=np.int64)
    for c, values in enumerate(columns):
        np.add.at(sums[:, c], index, values)
    return sums  # (clusters, columns)


def _contrast(
    metric: str, episodes: Episodes, among: Flags, plus: Flags, minus: list[Flags], terms: tuple[str, ...]
) -> Estimate:
    """Return share(plus) - max(share(minus ...)) over the episodes `among`, as one fraction: 0.95 - 0.80 is 0.15."""
    n = int(among.sum())
    if n == 0:
        return Estimate(metric, None, None, None, 0, None, "bootstrap", terms)
    sums = _cluster_sums(episodes, [(f & among).astype(np.int64) for f in [plus, *minus]] + [among.astype(np.int64)])

    def value(s: Counts) -> Values:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((s[:, 0] - s[:, 1:-1].max(axis=1)) / s[:, -1], dtype=np.float64)

    sums = sums[sums[:, -1] > 0]  # a cluster without such episodes has nothing to be drawn for
    total = sums.sum(axis=0)
    k = int(total[0] - total[1:-1].max())
    bounds = interval(sums, value)
    low, high = bounds if bounds is not None else (None, None)
    return Estimate(metric, k / n, low, high, n, k, "bootstrap", terms)


def _undefined(metric: str, terms: tuple[str, ...], kind: str = "wilson") -> Estimate:
    return Estimate(metric, None, None, None, 0, None, kind, terms)


def _terms(*tokens: str) -> tuple[str, ...]:
    return tuple(sorted(tokens))


POSITIVE, NEGATIVE = "expected_trigger:eq:true", "expected_trigger:eq:false"
C3_POSITIVE = _terms("arm:eq:C3", POSITIVE)
C3_NEGATIVE = _terms("arm:eq:C3", NEGATIVE)


def controlled(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Return the eleven metrics of the controlled contract.

    Parameters
    ----------
    rows : one row an execution; arms and boundaries that are missing leave the metrics that need them undefined.

    Raises
    ------
    CheckFailed : copies of an execution disagree.

    Source
    ------
    Paper sections 4.2 and 5, table 4.
    """
    e = collapse(rows)
    positive, negative = e.positive, ~e.positive
    flag = e.outcome

    def has(*arms: str) -> bool:
        return e.arms.issuperset(arms)

    def share(metric: str, name: str, among: Flags, terms: tuple[str, ...], *needs: str) -> Estimate:
        if not has("C3", *needs):
            return _undefined(metric, terms)
        return rate(metric, int((flag["C3", name] & among).sum()), int(among.sum()), terms)

    def contrast(metric: str, name: str, among: Flags, arms: list[str], sign: int, *of: str) -> Estimate:
        terms = _terms(*(f"arm:eq:{a}" for a in arms), *of)  # the arms whose rates enter: values of one field are "or"
        if not has("C0", *arms):
            return _undefined(metric, terms, "bootstrap")
        plus, *minus = [flag[a, name] for a in (arms if sign > 0 else arms[::-1])]
        return _contrast(metric, e, among, plus, minus, terms)

    fired = share("false_trigger_rate", "not_fired", negative, C3_NEGATIVE)
    if fired.k is not None:
        fired = rate("false_trigger_rate", fired.n - fired.k, fired.n, C3_NEGATIVE)
    boundaries = [Boundary.SAME_PROCESS.value, Boundary.RESTART.value]
    loss_terms = C3_POSITIVE
    if all(b in e.acted_in for b in boundaries):
        loss = _contrast(
            "restart_persistence_loss", e, positive, e.acted_in[boundaries[0]], [e.acted_in[boundaries[1]]], loss_terms
        )
    else:
        loss = _undefined("restart_persistence_loss", loss_terms, "bootstrap")

    every = np.ones(len(e.ids), dtype=bool)
    written = np.logical_and.reduce([flag[a, "written"] for a in sorted(e.arms)]) if e.arms else every
    whole = np.logical_and.reduce([flag[a, "whole"] for a in sorted(e.arms)]) if e.arms else every
    estimates = [
        share("triggered_action_accuracy", "acted", positive, C3_POSITIVE),
        share("correct_non_action", "silent", negative, C3_NEGATIVE, "C0"),
        fired,
        contrast("prospective_utility_margin", "right", every, ["C3", "C0", "C1"], 1),
        contrast("selectivity_gain", "silent", negative, ["C3", "C2"], 1, NEGATIVE),
        contrast("causal_memory_dependence", "acted", positive, ["C3", "C4"], 1, POSITIVE),
        share("null_path_equivalence", "audited", e.null_trials, _terms("arm:eq:C3", "null_trial:eq:true")),
        loss,
        contrast(
            "unrelated_control_regression", "right", e.distractor_only, ["C3", "C0"], -1, f"family:eq:{DISTRACTOR_ONLY}"
        ),
        rate(
            "memory_write_success", int((written & e.written_known).sum()), int(e.written_known.sum()),
            ("memory_write_ok:is:set",),
        ),
        rate("frozen_backbone_integrity", int(whole.sum()), len(whole)),
    ]  # fmt: skip
    return {x.metric: x for x in estimates}


@dataclass(frozen=True)
class ArmRow:
    """What one arm did."""

    arm: str
    utility: Estimate
    triggered_action_accuracy: Estimate
    correct_non_action: Estimate
    false_trigger_rate: Estimate
    distractor_fires: int
    """Decisions on distractor events that fired, over all executions of one copy."""
    fixed_points: int | None
    """C4: positives whose permuted payload is their own; None elsewhere."""


def arms(rows: pd.DataFrame) -> list[ArmRow]:
    """Return the rates of every arm, in order; shown beside the criteria, none of them one."""
    e = collapse(rows)
    one = rows.drop_duplicates(KEY)
    table = []
    for arm in sorted(e.arms):
        mine = one[one["arm"].eq(arm)]
        named = (f"arm:eq:{arm}",)
        pos, neg, n = int(e.positive.sum()), int((~e.positive).sum()), len(e.ids)
        silent = int((e.outcome[arm, "silent"] & ~e.positive).sum())
        quiet = int((e.outcome[arm, "not_fired"] & ~e.positive).sum())
        fixed = None
        if arm == ArmName.C4.value:
            hit = mine[mine["expected_trigger"].astype(bool) & mine["payload_bound"].eq(mine["expected_payload"])]
            fixed = int(hit["episode_id"].nunique())
        table.append(
            ArmRow(
                arm=arm,
                utility=rate("utility", int(e.outcome[arm, "right"].sum()), n, named),
                triggered_action_accuracy=rate(
                    "triggered_action_accuracy",
                    int((e.outcome[arm, "acted"] & e.positive).sum()), pos, _terms(*named, "expected_trigger:eq:true"),
                ),
                correct_non_action=rate("correct_non_action", silent, neg, _terms(*named, "expected_trigger:eq:false")),
                false_trigger_rate=rate(
                    "false_trigger_rate", neg - quiet, neg, _terms(*named, "expected_trigger:eq:false")
                ),
                distractor_fires=int(mine.drop_duplicates(["episode_id", "backbone"])["distractor_fires"].sum()),
                fixed_points=fixed,
            )
        )  # fmt: skip
    return table

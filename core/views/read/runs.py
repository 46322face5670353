"""Questions about runs: the list, one manifest, arms, scores, the null audit. Every rate is one run's.

Promise: nothing here pools runs, so nothing pools classes, origins or contracts.
"""

from __future__ import annotations

from core.errors import ViewError, quoted
from core.views.answer import Answer
from core.views.views import Snapshot


def runs(snapshot: Snapshot, kind: str | None = None) -> Answer:
    """Return runs with their manifest, newest first.

    Parameters
    ----------
    kind : controlled, transfer, ...; None: all.
    """
    return snapshot.ask(
        "run", "SELECT * FROM run WHERE ?::VARCHAR IS NULL OR kind = ? ORDER BY run_id DESC", [kind, kind]
    )


def run(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one run's manifest, one row.

    Raises
    ------
    ViewError : there is no such run.
    """
    answer = snapshot.ask("run", "SELECT * FROM run WHERE run_id = ?", [run_id])
    if answer.table.num_rows == 0:
        raise ViewError(f"There is no run {quoted(run_id)} here.", next_step="Pick one of the list.")
    return answer


def latest_complete(snapshot: Snapshot, kind: str) -> str | None:
    """Return the newest complete run of a kind that no other run amends, or None; never a partial or failed one."""
    rows = snapshot.ask(
        "run",
        "SELECT run_id FROM run WHERE kind = ? AND status = 'complete' AND amended_by IS NULL"
        " ORDER BY started_at DESC, run_id DESC LIMIT 1",
        [kind],
    ).rows()
    return str(rows[0]["run_id"]) if rows else None


def _of_run(snapshot: Snapshot, view: str, run_id: str, order: str) -> Answer:
    if not run_id:
        raise ViewError(f"The view {view} is asked for one run; none was named.")
    return snapshot.ask(view, f"SELECT * FROM {view} WHERE run_id = ? ORDER BY {order}", [run_id])


def arm_summary(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row an arm: counts and rates, n in episodes."""
    return _of_run(snapshot, "arm_summary", run_id, "arm")


def episodes(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row an episode and arm, folded over the boundaries: the inputs of every criterion."""
    return _of_run(snapshot, "episode", run_id, "arm, seed, episode_id")


def score_histogram(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row a bin of scores, by arm, family and label."""
    return _of_run(snapshot, "score_histogram", run_id, "arm, family, expected_trigger, bin")


def score_summary(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row a seed, boundary, family and arm."""
    return _of_run(snapshot, "score_summary", run_id, "arm, family, boundary, seed, expected_trigger")


def null_audit(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row a family and boundary: null trials and how many passed each check."""
    return _of_run(snapshot, "null_audit", run_id, "arm, family, boundary")


def metrics(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row a controlled metric: k, n and value, as SQL counts them."""
    return _of_run(snapshot, "metric", run_id, "metric")


def properties(snapshot: Snapshot, run_id: str) -> Answer:
    """Return one row a property, P1 to P6: in how many episodes it holds."""
    return _of_run(snapshot, "property", run_id, "item")

"""The front door's questions: what runs there are, what executions of which class, and the newest complete run."""

from __future__ import annotations

from dataclasses import dataclass

from core.views.answer import Answer
from core.views.read import runs
from core.views.views import Snapshot


@dataclass(frozen=True)
class Overview:
    """What the workspace holds, as of one ledger entry."""

    as_of: int
    """The last ledger entry; 0 on an empty store."""
    runs: Answer
    """kind, evidence_class, origin, status, runs: one row each."""
    executions: Answer
    """evidence_class, origin, contract, executions, episodes, runs: one row each, never added up."""
    entries: int
    """Ledger entries."""
    annotations: int
    """Remarks that stand."""
    latest_controlled: str | None
    """The newest complete controlled run; None: there is none."""
    arms: Answer | None
    """Its arms; None without a run."""
    problems: tuple[str, ...]
    """A sentence for each segment left out."""


def overview(snapshot: Snapshot) -> Overview:
    """Return what the front door shows."""
    latest = runs.latest_complete(snapshot, "controlled")
    counted = snapshot.ask(
        "ledger_entry",
        "SELECT (SELECT count(*) FROM ledger_entry) AS entries,"
        " (SELECT count(*) FROM annotation WHERE replaced_by IS NULL) AS annotations",
    ).one()
    return Overview(
        as_of=snapshot.as_of,
        runs=snapshot.ask(
            "run",
            "SELECT kind, evidence_class, origin, status, count(*) AS runs FROM run GROUP BY ALL ORDER BY ALL",
        ),
        executions=snapshot.ask(
            "trace",
            "SELECT evidence_class, origin, contract, count(*) AS executions,"
            " count(DISTINCT episode_id) AS episodes, count(DISTINCT run_id) AS runs"
            " FROM trace GROUP BY ALL ORDER BY ALL",
        ),
        entries=counted["entries"],
        annotations=counted["annotations"],
        latest_controlled=latest,
        arms=runs.arm_summary(snapshot, latest) if latest else None,
        problems=snapshot.problems,
    )

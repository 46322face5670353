"""What the filter's executions came to: how many of each outcome, by evidence class and arm.

Numbers of rows, no result: executions are copies over boundaries, so no rate is read off them.
"""

from __future__ import annotations

from core.records.filter import Filter
from core.views.answer import Answer
from core.views.read.traces import VIEW, column_map
from core.views.views import Snapshot
from core.views.where import condition


def outcomes(snapshot: Snapshot, chosen: Filter) -> Answer:
    """Return evidence_class, arm, outcome, executions: one row each.

    Raises
    ------
    ViewError : a bad filter.
    """
    where, values = condition(chosen, column_map())
    return snapshot.ask(
        VIEW,
        f"SELECT evidence_class, arm, outcome, count(*) AS executions FROM trace WHERE {where}"
        " GROUP BY ALL ORDER BY ALL",
        values,
    )

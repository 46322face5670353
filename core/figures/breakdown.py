"""How many executions came to which outcome, one stacked bar an arm and class."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from core.figures.literal import literal
from core.figures.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, plain_figure

COLOURS = {
    "right action": BLUE,
    "right silence": SKY,
    "missed": ORANGE,
    "false action": VERMILION,
    "wrong record": PURPLE,
    "wrong payload": GREEN,
}
PATTERNS = {"missed": "/", "false action": "x", "wrong record": ".", "wrong payload": "\\"}
"""Right is plain, every kind of wrong has its own hatching: the difference does not rest on colour."""


def outcome_bars(counts: pd.DataFrame) -> go.Figure:
    """Return one stacked horizontal bar a class and arm.

    Parameters
    ----------
    counts : columns `evidence_class`, `arm`, `outcome`, `executions`.
    """
    classes = counts["evidence_class"].nunique()
    labels = [
        literal(f"{c} {a}" if classes > 1 else a) for c, a in zip(counts["evidence_class"], counts["arm"], strict=True)
    ]
    shown = counts.assign(label=labels)
    order = sorted(set(labels), reverse=True)
    figure = plain_figure(height=26 * len(order) + 64, right=12, top=28)
    for outcome, colour in COLOURS.items():
        rows = shown[shown["outcome"] == outcome]
        if rows.empty:
            continue
        figure.add_bar(
            x=rows["executions"],
            y=rows["label"],
            name=outcome,
            orientation="h",
            marker={
                "color": colour,
                # The ground is named: left out, plotly draws the hatching on nothing.
                "pattern": {
                    "shape": PATTERNS.get(outcome, ""),
                    "fgcolor": "white",
                    "bgcolor": colour,
                    "solidity": 0.25,
                },
            },
            hovertemplate="%{y}, " + outcome + ": %{x:,}<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        bargap=0.35,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal", "font": {"size": 12}},
    )
    figure.update_xaxes(showgrid=True, tickformat=",d")
    figure.update_yaxes(categoryorder="array", categoryarray=order)
    return figure

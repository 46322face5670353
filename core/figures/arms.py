"""Shares with their intervals, one bar a group: the five arms, or any breakdown."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.literal import literal
from core.figures.palette import ACCENT, FAINT, GREY, plain_figure


def share_bars(shares: pd.DataFrame, *, emphasis: str | None = None) -> go.Figure:
    """Return one horizontal bar a row, with the count on it and the 95% interval as a whisker.

    Parameters
    ----------
    shares : columns `label` (text), `k` and `n` (counts), `share`, `ci_low`, `ci_high` (in [0, 1]; NaN where
        undefined: no bar, the label says so).
    emphasis : the label drawn in the accent colour; the others stay grey. None: all in the accent colour.
    """
    rows = shares.iloc[::-1]  # plotly draws upwards
    labels = [literal(str(t), 40) for t in rows["label"]]
    defined = rows["share"].notna()
    values = rows["share"].where(defined, 0.0).tolist()
    counts = [
        f"{int(k):,} / {int(n):,}" if ok else "undefined, n = 0"
        for k, n, ok in zip(rows["k"], rows["n"], defined, strict=True)
    ]
    colours = [ACCENT if emphasis is None or t == emphasis else GREY for t in rows["label"]]
    figure = plain_figure(height=34 * max(len(rows), 1) + 48, right=96)
    figure.add_trace(
        dict[str, Any](
            type="bar",
            x=values,
            y=labels,
            orientation="h",
            marker={"color": colours},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": (rows["ci_high"] - rows["share"]).fillna(0.0).tolist(),
                "arrayminus": (rows["share"] - rows["ci_low"]).fillna(0.0).tolist(),
                "thickness": 1.5,
                "width": 4,
                "color": "#6b6b6b",
            },
            customdata=[
                [c, _interval(lo, hi)] for c, lo, hi in zip(counts, rows["ci_low"], rows["ci_high"], strict=True)
            ],
            hovertemplate="%{y}: %{x:.3f} (%{customdata[0]}, %{customdata[1]})<extra></extra>",
        )
    )
    figure.update_layout(bargap=0.42)
    figure.update_xaxes(
        tickangle=0,
        range=[0, 1.0],
        tickformat=".0%",
        tickvals=[0, 0.25, 0.5, 0.75, 1.0],
        showgrid=True,
        gridcolor=FAINT,
    )
    for label, text in zip(labels, counts, strict=True):
        figure.add_annotation(x=1.0, xanchor="left", xshift=8, y=label, text=text, showarrow=False, font={"size": 12})
    return figure


def _interval(low: float, high: float) -> str:
    return "no interval" if pd.isna(low) or pd.isna(high) else f"95% interval {low:.3f} to {high:.3f}"

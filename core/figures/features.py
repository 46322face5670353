"""The 16 features of one pair, and where its score lies beside the threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from core.figures.literal import literal
from core.figures.palette import ACCENT, FAINT, GREY, VERMILION, plain_figure


def feature_bars(names: Sequence[str], values: Sequence[float]) -> go.Figure:
    """Return one horizontal bar a feature, in the features' own order."""
    labels = [literal(name.replace("_", " "), 48) for name in names]
    figure = plain_figure(height=22 * max(len(labels), 1) + 40)
    figure.add_trace(
        dict[str, Any](
            type="bar",
            x=list(values),
            y=labels,
            orientation="h",
            marker={"color": ACCENT},
            hovertemplate="%{y}: %{x:.4g}<extra></extra>",
        )
    )
    figure.update_layout(bargap=0.35)
    figure.update_xaxes(showgrid=True)
    figure.update_yaxes(autorange="reversed", tickfont={"size": 12})
    return figure


def score_strip(scores: Sequence[float], threshold: float | None, *, judged: float | None) -> go.Figure:
    """Return scores on the line from 0 to 1, the threshold as a rule, the deciding score as a diamond.

    Parameters
    ----------
    scores : every stored score of the execution, distractors too.
    threshold : the locked threshold; None: no rule is drawn.
    judged : the score that decided; None: the trigger was not asked on the final event.
    """
    others = go.Scatter(
        x=list(scores),
        y=[0.0] * len(scores),
        mode="markers",
        marker={"symbol": "line-ns-open", "size": 14, "color": GREY},
        hovertemplate="stored score %{x:.4f}<extra></extra>",
    )
    figure = plain_figure(others, height=84, left=8, right=8, top=24)
    if judged is not None:
        figure.add_scatter(
            x=[judged],
            y=[0.0],
            mode="markers",
            marker={"symbol": "diamond", "size": 14, "color": ACCENT},
            hovertemplate="deciding score %{x:.4f}<extra></extra>",
        )
    if threshold is not None:
        right = threshold <= 0.7  # the label stays inside the strip
        figure.add_vline(x=threshold, line={"color": VERMILION, "width": 2})
        figure.add_annotation(
            x=threshold,
            y=1,
            yref="paper",
            yanchor="bottom",
            text=f"threshold {threshold:.3g}",
            xanchor="left" if right else "right",
            showarrow=False,
            font={"size": 12},
        )
    figure.add_hline(y=0, line={"color": FAINT, "width": 1}, layer="below")
    figure.update_xaxes(range=[-0.01, 1.01], showgrid=False)
    figure.update_yaxes(visible=False, range=[-1, 1])
    return figure

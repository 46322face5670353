"""Colours that colour-blind readers tell apart (Okabe and Ito), and the layout all figures share.

No colour is given to text or background: the page's theme fills them in, light or dark.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, VERMILION, YELLOW, GREY = "#56B4E9", "#D55E00", "#F0E442", "#999999"
ACCENT = "#2A8C97"
"""The console's one accent, between its light and its dark shade: readable on both."""
ACCENT_DEEP = "#1F6F78"
"""The accent as a filled area under white text (contrast 5.9)."""
FAINT = "rgba(128,128,128,0.35)"
"""Lines that only guide the eye."""
CLEAR = "rgba(0,0,0,0)"

CONFIG: dict[str, Any] = {"displayModeBar": False, "scrollZoom": False}
"""Plotly's own settings: no floating tool bar, no surprise on scrolling."""


def plain_figure(*traces: Any, height: int, left: int = 0, right: int = 8, top: int = 8, bottom: int = 28) -> go.Figure:
    """Return a figure with a transparent background and tight margins.

    Parameters
    ----------
    height, left, right, top, bottom : in pixels.
    """
    figure = go.Figure(data=list(traces))
    figure.update_layout(
        height=height,
        margin={"l": left, "r": right, "t": top, "b": bottom},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        showlegend=False,
        dragmode=False,
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(fixedrange=True, zeroline=False, gridcolor=FAINT)
    figure.update_yaxes(fixedrange=True, zeroline=False, automargin=True, showgrid=False, ticksuffix=" ")
    return figure

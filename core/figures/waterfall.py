"""The eight steps of one execution against its own working time."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.palette import ACCENT, GREY, ORANGE, VERMILION, plain_figure
from core.figures.wording import STATUS_ICONS, STEP_TITLES, duration
from core.records.trace import StepName, StepStatus, StepTime, Trace

_COLOURS = {
    StepStatus.DONE: ACCENT,
    StepStatus.FAILED: VERMILION,
    StepStatus.REFUSED: ORANGE,
}
_SHARE_OF_A_LABEL = 1.28  # room at the right end for the elapsed time


def step_table(trace: Trace) -> pd.DataFrame:
    """Return the eight steps in order.

    Returns
    -------
    Columns `icon`, `step`, `status` (its words), `began` (instant or NaT), `elapsed_us` and `start_us` (NaN where the
    step was not reached), `took` (in words),
    `detail`. `start_us` counts working time only: the waits between processes are left out.
    """
    times = _reached(trace)
    rows, clock = [], 0.0
    for step in trace.steps:
        time = times.get(step.step)
        rows.append(
            {
                "icon": STATUS_ICONS[step.status],
                "step": STEP_TITLES[step.step],
                "status": step.status.replace("_", " "),
                "began": time.at if time else None,
                "start_us": clock if time else float("nan"),
                "elapsed_us": time.elapsed_us if time else float("nan"),
                "took": duration(time.elapsed_us) if time else "",
                "detail": step.detail,
            }
        )
        clock += time.elapsed_us if time else 0.0
    table = pd.DataFrame(rows)
    table["began"] = pd.to_datetime(table["began"], utc=True)
    return table


def _reached(trace: Trace) -> dict[StepName, StepTime]:
    # Finding that nothing fired takes time too, but a step that was not reached has none of its own.
    out = {s.step for s in trace.steps if s.status is StepStatus.NOT_REACHED}
    return {t.step: t for t in trace.step_times if t.step not in out}


def waterfall(trace: Trace) -> go.Figure:
    """Return one bar a step, each beginning where the one before it ended; steps not reached have a word only."""
    spent = {step: t.elapsed_us for step, t in _reached(trace).items()}
    total = sum(spent.values()) or 1.0
    figure = plain_figure(height=26 * len(trace.steps) + 44)
    clock = 0.0
    for step in trace.steps:
        title, took = STEP_TITLES[step.step], spent.get(step.step)
        status = step.status.replace("_", " ")
        words = status if took is None else duration(took)
        colour = _COLOURS.get(step.status, GREY)
        figure.add_trace(
            dict[str, Any](
                type="bar",
                x=[took or 0.0],
                base=[clock],
                y=[title],
                orientation="h",
                # A step of microseconds beside one of a second would have no pixel: its outline keeps it visible.
                marker={"color": colour, "line": {"color": colour, "width": 0 if took is None else 2}},
                hovertemplate=f"{title}: {status}, {words}<extra></extra>",
            )
        )
        clock += took or 0.0
        figure.add_annotation(
            x=clock if took is not None else 0.0,
            y=title,
            text=words,
            xanchor="left",
            xshift=6,
            showarrow=False,
            font={"size": 12},
        )
    ticks = [0.0, total / 2, total]
    figure.update_layout(bargap=0.4, barmode="overlay")
    figure.update_xaxes(
        range=[0, total * _SHARE_OF_A_LABEL], showgrid=True, tickvals=ticks, ticktext=[duration(t) for t in ticks]
    )
    figure.update_yaxes(autorange="reversed")
    return figure

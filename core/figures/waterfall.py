"""The eight steps of one execution against its own working time."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from core.figures.palette import ACCENT, GREY, ORANGE, VERMILION, plain_figure
from core.figures.wording import STATUS_ICONS, STEP_TITLES, duration
from core.records.trace import StepStatus, Trace

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
    Columns `step`, `status` (word and icon), `began` (instant or NaT), `elapsed_us` and `start_us` (NaN where the
    step was not reached), `detail`. `start_us` counts working time only: the waits between processes are left out.
    """
    times = {t.step: t for t in trace.step_times}
    rows, clock = [], 0.0
    for step in trace.steps:
        time = times.get(step.step)
        rows.append(
            {
                "step": STEP_TITLES[step.step],
                "status": f"{STATUS_ICONS[step.status]} {step.status.replace('_', ' ')}",
                "began": time.at if time else None,
                "start_us": clock if time else float("nan"),
                "elapsed_us": time.elapsed_us if time else float("nan"),
                "detail": step.detail,
            }
        )
        clock += time.elapsed_us if time else 0.0
    table = pd.DataFrame(rows)
    table["began"] = pd.to_datetime(table["began"], utc=True)
    return table


def waterfall(trace: Trace) -> go.Figure:
    """Return one bar a step, each beginning where the one before it ended; steps not reached have a word only."""
    table = step_table(trace)
    total = float(table["elapsed_us"].sum()) or 1.0
    reached = table["elapsed_us"].notna()
    bars = go.Bar(
        x=table["elapsed_us"].fillna(0.0),
        base=table["start_us"].fillna(0.0),
        y=table["step"],
        orientation="h",
        # A step of microseconds beside one of a second would have no pixel: its outline keeps it visible.
        marker={
            "color": [_COLOURS.get(s.status, GREY) for s in trace.steps],
            "line": {
                "color": [_COLOURS.get(s.status, GREY) for s in trace.steps],
                "width": [2 if r else 0 for r in reached],
            },
        },
        customdata=[
            [s, duration(e) if r else "no time"]
            for s, e, r in zip(table["status"], table["elapsed_us"], reached, strict=True)
        ],
        hovertemplate="%{y}: %{customdata[0]}, %{customdata[1]}<extra></extra>",
    )
    figure = plain_figure(bars, height=26 * len(table) + 44)
    figure.update_layout(bargap=0.4)
    for step, row, ok in zip(trace.steps, table.itertuples(), reached, strict=True):
        end = row.start_us + row.elapsed_us if ok else 0.0
        text = duration(row.elapsed_us) if ok else step.status.replace("_", " ")
        figure.add_annotation(
            x=end, y=row.step, text=text, xanchor="left", xshift=6, showarrow=False, font={"size": 12}
        )
    figure.update_xaxes(
        range=[0, total * _SHARE_OF_A_LABEL],
        showgrid=True,
        tickvals=[0, total / 2, total],
        ticktext=["0", duration(total / 2), duration(total)],
    )
    figure.update_yaxes(autorange="reversed")
    return figure

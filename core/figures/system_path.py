"""The system path of the paper's Figure 1, drawn once, with the path that one execution took lit.

Lit parts are filled and thick, the rest thin and dashed: the difference does not rest on colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import plotly.graph_objects as go

from core.figures.palette import ACCENT, ACCENT_DEEP, plain_figure
from core.figures.wording import BOUNDARY_TITLES
from core.records.decision import NullReason
from core.records.trace import ArmName, Trace


class Box(NamedTuple):
    """A part of the path: where its centre lies (columns, rows) and what it says."""

    x: float
    y: float
    title: str


BOXES = {
    "write_event": Box(0, 1, "Write<br>event"),
    "writer": Box(1, 1, "Writer"),
    "payload": Box(2, 2, "Payload"),
    "condition": Box(2, 1, "Condition"),
    "lifecycle": Box(3.25, 1, "Lifecycle<br>rules"),
    "event": Box(3.25, 0, "Event"),
    "gate": Box(4.25, 1, "Trigger"),
    "retrieval": Box(5.25, 2, "Retrieval"),
    "intervention": Box(6.25, 2, "Intervention"),
    "payload_output": Box(7.25, 2, "Output:<br>the<br>payload"),
    "null_path": Box(5.25, 1, "Null path:<br>nothing<br>used"),
    "backbone": Box(6.25, 0, "Frozen<br>backbone"),
    "proposal": Box(7.25, 1, "Proposal<br>(diagnostic)"),
    "baseline_output": Box(7.25, 0, "Output:<br>the<br>backbone's"),
}
GATES = {
    ArmName.C0: "Trigger",
    ArmName.C1: "Payload<br>similarity",
    ArmName.C2: "Always<br>exposed",
    ArmName.C3: "Trigger",
    ArmName.C4: "Trigger",
}
_HALF_WIDTH, _HALF_HEIGHT = 0.44, 0.27
EDGES: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {
    ("write_event", "writer"): ((0.44, 1), (0.56, 1)),
    ("writer", "payload"): ((1, 1.27), (1, 2), (1.56, 2)),
    ("writer", "condition"): ((1.44, 1), (1.56, 1)),
    ("payload", "retrieval"): ((2.44, 2), (4.81, 2)),
    ("condition", "lifecycle"): ((2.44, 1), (2.81, 1)),
    ("event", "lifecycle"): ((3.25, 0.27), (3.25, 0.73)),
    ("lifecycle", "gate"): ((3.69, 1), (3.81, 1)),
    ("gate", "retrieval"): ((4.25, 1.27), (4.25, 1.5), (5.25, 1.5), (5.25, 1.73)),
    ("retrieval", "intervention"): ((5.69, 2), (5.81, 2)),
    ("intervention", "payload_output"): ((6.69, 2), (6.81, 2)),
    ("gate", "null_path"): ((4.69, 1), (4.81, 1)),
    ("lifecycle", "null_path"): ((3.5, 0.73), (3.5, 0.45), (5.1, 0.45), (5.1, 0.73)),
    ("null_path", "backbone"): ((5.69, 1), (6.25, 1), (6.25, 0.27)),
    ("event", "backbone"): ((3.69, 0), (5.81, 0)),
    ("backbone", "proposal"): ((6.45, 0.27), (6.45, 0.8), (6.81, 0.8)),
    ("backbone", "baseline_output"): ((6.69, 0), (6.81, 0)),
}
"""Every way from part to part, as the corners of its line."""


@dataclass(frozen=True)
class PathTaken:
    """The ways one execution went, in order; its parts are their ends."""

    edges: tuple[tuple[str, str], ...]

    @property
    def boxes(self) -> frozenset[str]:
        """The parts that were reached."""
        return frozenset(part for edge in self.edges for part in edge)


def path_taken(trace: Trace) -> PathTaken:
    """Return the ways an execution went, from what its trace holds (paper, Figure 1 and section 3.5)."""
    edges: list[tuple[str, str]] = []
    if trace.records:
        edges += [("write_event", "writer"), ("writer", "payload"), ("writer", "condition")]
        edges += [("condition", "lifecycle"), ("event", "lifecycle")]
    if trace.predicted_action is not None or trace.fired:
        edges += [("lifecycle", "gate"), ("gate", "retrieval"), ("payload", "retrieval")]
        edges += [("retrieval", "intervention"), ("intervention", "payload_output")]
        if trace.model_action is not None:
            edges += [("event", "backbone"), ("backbone", "proposal")]
        return PathTaken(tuple(edges))
    if trace.records:
        asked = trace.null_reason not in (NullReason.LIFECYCLE, NullReason.NO_ACTIVE_RECORD)
        edges += [("lifecycle", "gate"), ("gate", "null_path")] if asked else [("lifecycle", "null_path")]
        edges += [("null_path", "backbone")]
    edges += [("event", "backbone"), ("backbone", "baseline_output")]
    return PathTaken(tuple(edges))


def path_in_words(trace: Trace) -> str:
    """Return the path taken as one line, for those who cannot see the drawing."""
    ways = path_taken(trace).edges
    return "; ".join(f"{_title(a, trace)} → {_title(b, trace)}" for a, b in ways)


def _title(part: str, trace: Trace) -> str:
    title = GATES[trace.arm] if part == "gate" else BOXES[part].title
    return title.replace("<br>", " ")


def system_path(trace: Trace) -> go.Figure:
    """Return the drawing of Figure 1 with this execution's path lit."""
    taken = path_taken(trace)
    figure = plain_figure(height=300, left=4, right=4, top=4, bottom=4)
    figure.update_xaxes(visible=False, range=[-0.5, 7.75])
    figure.update_yaxes(visible=False, range=[-0.5, 2.5])
    for edge, corners in EDGES.items():
        _draw_way(figure, corners, lit=edge in taken.edges)
    for part, box in BOXES.items():
        title = GATES[trace.arm] if part == "gate" else box.title
        _draw_box(figure, box._replace(title=title), lit=part in taken.boxes)
    _draw_boundary(figure, BOUNDARY_TITLES[trace.boundary])
    return figure


def _draw_box(figure: go.Figure, box: Box, *, lit: bool) -> None:
    figure.add_shape(
        type="rect",
        x0=box.x - _HALF_WIDTH,
        x1=box.x + _HALF_WIDTH,
        y0=box.y - _HALF_HEIGHT,
        y1=box.y + _HALF_HEIGHT,
        line={"color": ACCENT if lit else "#8a8a8a", "width": 2 if lit else 1, "dash": "solid" if lit else "dot"},
        fillcolor=ACCENT_DEEP if lit else "rgba(0,0,0,0)",
    )
    font = {"size": 11, "color": "#FFFFFF" if lit else "#808080"}
    figure.add_annotation(x=box.x, y=box.y, text=box.title, showarrow=False, font=font)


def _draw_way(figure: go.Figure, corners: tuple[tuple[float, float], ...], *, lit: bool) -> None:
    colour, width = (ACCENT, 3) if lit else ("#a0a0a0", 1)
    for (x0, y0), (x1, y1) in zip(corners[:-2], corners[1:-1], strict=True):
        figure.add_shape(type="line", x0=x0, y0=y0, x1=x1, y1=y1, line={"color": colour, "width": width}, layer="below")
    (x0, y0), (x1, y1) = corners[-2:]
    figure.add_annotation(
        x=x1, y=y1, ax=x0, ay=y0, xref="x", yref="y", axref="x", ayref="y", text="",
        showarrow=True, arrowhead=2, arrowsize=0.9, arrowwidth=width, arrowcolor=colour,
    )  # fmt: skip


def _draw_boundary(figure: go.Figure, title: str) -> None:
    line = {"color": "#8a8a8a", "width": 1.5, "dash": "dash"}
    figure.add_shape(type="line", x0=2.62, x1=2.62, y0=-0.3, y1=2.35, line=line, layer="below")
    figure.add_annotation(
        x=2.62, y=-0.4, text=f"boundary: {title}", showarrow=False, font={"size": 12}, xanchor="center"
    )

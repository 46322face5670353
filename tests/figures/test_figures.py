"""Figures: what is drawn is what the trace holds, on a transparent ground, with every text taken literally."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from core.figures import breakdown
from core.figures.features import feature_bars, score_strip
from core.figures.literal import literal, one_line, visible
from core.figures.system_path import BOXES, EDGES, path_in_words, path_taken, system_path
from core.figures.waterfall import step_table, waterfall
from core.records.decision import NullReason
from core.records.trace import ArmName, Boundary, StepStatus, Trace
from core.triggers.learned.features import FEATURE_NAMES
from tests.pages.made import HOSTILE, in_arm, trace


def counts() -> pd.DataFrame:
    return pd.DataFrame(
        {"evidence_class": "controlled", "arm": "C3", "outcome": list(breakdown.COLOURS), "executions": range(1, 7)}
    )


def drawn(figure: go.Figure) -> list[dict[str, Any]]:
    """Return the figure's traces with plain lists in place of arrays."""
    traces: list[dict[str, Any]] = json.loads(json.dumps(figure.to_dict()["data"], default=list))
    return traces


ALL = {
    "outcome_bars": lambda: breakdown.outcome_bars(counts()),
    "feature_bars": lambda: feature_bars(FEATURE_NAMES, trace().features or ()),
    "score_strip": lambda: score_strip([0.1, 0.2], 0.05, judged=0.03),
    "system_path": lambda: system_path(trace()),
    "waterfall": lambda: waterfall(trace()),
}


@pytest.mark.parametrize("name", ALL)
def test_a_figure_is_transparent_and_leaves_text_colour_to_the_theme(name: str) -> None:
    layout = ALL[name]().layout
    assert (layout.paper_bgcolor, layout.plot_bgcolor) == ("rgba(0,0,0,0)", "rgba(0,0,0,0)")
    assert layout.font.color is None


@pytest.mark.parametrize("name", ALL)
def test_a_figure_names_no_other_host(name: str) -> None:
    assert "http" not in ALL[name]().to_json()


def test_every_way_joins_two_known_parts_and_starts_and_ends_at_them() -> None:
    for (start, end), corners in EDGES.items():
        for part, (x, y) in ((start, corners[0]), (end, corners[-1])):
            box = BOXES[part]
            assert abs(x - box.x) <= 0.45, (start, end)
            assert abs(y - box.y) <= 0.28, (start, end)


SILENT = {"null_path", "backbone", "baseline_output"}
ACTED = {"retrieval", "intervention", "payload_output"}


@pytest.mark.parametrize(
    ("made", "reached", "not_reached"),
    [
        (trace(), SILENT | {"gate", "lifecycle"}, ACTED | {"proposal"}),
        (trace(fired=True), ACTED | {"gate", "proposal"}, {"null_path", "baseline_output"}),
        (trace(null_reason=NullReason.LIFECYCLE, score=None), SILENT | {"lifecycle"}, ACTED | {"gate"}),
        (
            in_arm(ArmName.C0, fired=True),
            {"event", "backbone", "baseline_output"},
            ACTED | {"writer", "null_path", "gate"},
        ),
        (in_arm(ArmName.C2, fired=False), ACTED | {"gate"}, SILENT - {"backbone"}),
    ],
)
def test_the_path_lit_is_the_path_taken(made: Trace, reached: set[str], not_reached: set[str]) -> None:
    boxes = path_taken(made).boxes
    assert reached <= boxes
    assert not (not_reached & boxes)


def test_no_execution_lights_both_outputs() -> None:
    for arm in ArmName:
        for fired in (True, False):
            boxes = path_taken(in_arm(arm, fired=fired)).boxes
            assert len(boxes & {"payload_output", "baseline_output"}) == 1


def test_the_drawing_fills_exactly_the_parts_reached_and_names_the_boundary() -> None:
    made = trace(boundary=Boundary.SAME_PROCESS)
    figure = system_path(made)
    filled = [s for s in figure.layout.shapes if s.type == "rect" and s.fillcolor != "rgba(0,0,0,0)"]
    assert len(filled) == len(path_taken(made).boxes)
    assert "boundary: same process" in [a.text for a in figure.layout.annotations]
    assert "Trigger → Null path: nothing used" in path_in_words(made)


def test_the_waterfall_counts_working_time_and_leaves_out_steps_not_reached() -> None:
    made = trace()
    table = step_table(made)
    spent = {t.step: t.elapsed_us for t in made.step_times}
    assert table["elapsed_us"].sum() == pytest.approx(sum(spent.values()))
    clock = 0.0
    for step, row in zip(made.steps, table.to_dict("records"), strict=True):
        if step.status is StepStatus.NOT_REACHED:
            assert np.isnan(row["elapsed_us"])
        else:
            assert row["start_us"] == pytest.approx(clock)
            clock += spent[step.step]
    bars = drawn(waterfall(made))
    assert [b["x"][0] for b in bars] == list(table["elapsed_us"].fillna(0.0))
    assert [b["y"][0] for b in bars] == list(table["step"])


def test_the_strip_marks_the_threshold_and_the_deciding_score_only_where_there_is_one() -> None:
    both = score_strip([0.1], 0.05, judged=0.03)
    assert [t["x"] for t in drawn(both)] == [[0.1], [0.03]]
    assert [s.x0 for s in both.layout.shapes if s.type == "line" and s.x0 == s.x1] == [0.05]
    neither = score_strip([0.1], None, judged=None)
    assert len(neither.data) == 1


def test_plotly_reads_no_tag_entity_or_formula_in_a_text() -> None:
    shown = literal("<b>x</b> &amp; $y$")
    assert shown == "&lt;b&gt;x&lt;/b&gt; &amp;amp; &#36;y&#36;"
    figure = breakdown.outcome_bars(counts().assign(arm=["<b>a</b>", "$b$", HOSTILE, "a", "b", "c"]))
    assert isinstance(figure, go.Figure)
    assert all("<" not in label and "$" not in label for bar in drawn(figure) for label in bar["y"])


def test_hidden_and_reordering_characters_are_spelled_out() -> None:
    assert visible("a\u202eb") == "a⟨U+202E⟩b"
    assert visible("a\x00b\x1b[0m") == "a⟨U+0000⟩b⟨U+001B⟩[0m"
    assert visible("\ud800") == "⟨U+D800⟩"
    assert visible("שלום") == "\u2068שלום\u2069"
    assert visible("e\u0301👩\u200d🚀") == "e\u0301👩\u200d🚀"
    assert one_line("a\r\nb\tc") == "a ↵ b c"
    assert one_line("x" * 20, 5) == "xxxx…"


def test_every_kind_of_wrong_is_hatched_on_its_own_colour() -> None:
    for bar in drawn(breakdown.outcome_bars(counts())):
        marker = bar["marker"]
        assert marker["color"] == marker["pattern"]["bgcolor"] == breakdown.COLOURS[bar["name"]]
        assert (marker["pattern"]["shape"] == "") == bar["name"].startswith("right")

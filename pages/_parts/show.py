"""Small ways of showing that every page shares: a chart with its table, rows, a labelled text, how it was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.literal import visible
from core.figures.palette import CONFIG
from core.views.answer import Answer
from pages._parts import strings
from pages._parts.literal import literal

_ROW_HEIGHT = 32
_UNBROKEN = 16
"""Cells of so few characters are kept on one line."""
SHOWN = 20_000
"""An event may be 1 MiB long; so many of its characters are drawn."""


def chart(figure: go.Figure, *, key: str, alt: str, table: pd.DataFrame | None = None) -> None:
    """Show a figure, said in words for those who cannot see it, with the table behind it one click away."""
    st.plotly_chart(figure, key=key, config=CONFIG, alt=alt)
    if table is not None:
        with st.expander(strings.CHART_TABLE):
            rows(table, key=f"{key}_table")


def rows(table: pd.DataFrame, *, key: str, columns: Mapping[str, Any] | None = None, height: int | None = None) -> None:
    """Show a small table; its cells are drawn as text, whatever they hold."""
    st.dataframe(
        table,
        hide_index=True,
        key=key,
        column_config=dict(columns or {}),
        row_height=_ROW_HEIGHT,
        placeholder="—",
        height=height or "content",
    )


def words(table: pd.DataFrame, *, alt: str, formats: Mapping[str, Callable[[Any], str]] | None = None) -> None:
    """Show a few rows of words as a table whose cells wrap: nothing is cut, whatever the width; cells are text.

    Parameters
    ----------
    formats : how a column's values are written; undefined ones are a dash.
    """
    told = table.astype(object)
    for name, write in (formats or {}).items():
        told[name] = [None if pd.isna(v) else write(v) for v in table[name]]
    shown = told.map(_cell).astype(str)
    shown.columns = pd.Index([literal(name) for name in table.columns])
    st.table(shown, border="horizontal", hide_index=True, hide_header=False, alt=alt)


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "—"
    shown = literal(value)
    return shown.replace(" ", "\u00a0") if len(str(value)) <= _UNBROKEN else shown


def text(label: str, body: str | None, *, missing: str = "—", beside: bool = True) -> None:
    """Show a text of a user or a model under a label of ours, in a frame, exactly as it stands.

    Parameters
    ----------
    beside : whether it is as high as the frames beside it.
    """
    with st.container(border=True, height="stretch" if beside else "content"):
        st.caption(literal(label))
        st.text(missing if body is None else shortened(visible(body)))


def shortened(body: str) -> str:
    """Return a text as a page can bear it: its beginning, and how much more there is."""
    if len(body) <= SHOWN:
        return body
    return f"{body[:SHOWN]}\n… and {len(body) - SHOWN:,} more characters; the export holds all of it."


def facts(pairs: Mapping[str, str]) -> None:
    """Show short facts as two columns: what, and its value in a fixed-width face so that ids can be copied."""
    rows(
        pd.DataFrame({"what": list(pairs), "value": [visible(v) for v in pairs.values()]}),
        key=f"facts_{'_'.join(pairs)}",
    )


def asked(*answers: Answer) -> None:
    """Show the views and the queries behind what stands above, ready to copy."""
    with st.expander(strings.ASKED):
        queries(*answers)


def queries(*answers: Answer) -> None:
    """Show the views and the queries of some answers."""
    for answer in answers:
        st.caption(f"View {literal(answer.view)}, as of entry {literal(answer.as_of)}")
        st.code(answer.sql, language="sql", wrap_lines=True)

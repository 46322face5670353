"""Annotations of an execution: who said what, when and why; corrections stand beside what they correct."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from core.acts import annotate as acts
from core.errors import DuebookError
from core.figures.literal import one_line
from core.figures.tables import CELL
from core.records.annotation import TargetKind
from core.records.trace import Trace
from core.views.read.ledger import annotations_of
from pages._parts import show, states, strings, times
from pages._parts.frame import Opened
from pages._parts.literal import literal

_STORED = "remark_stored"


def section(opened: Opened, trace: Trace) -> None:
    """Show the remarks on an execution and the form for a new one."""
    st.markdown("#### Annotations", help=strings.ANNOTATIONS_HELP)
    held = annotations_of(opened.snapshot, TargetKind.TRACE, trace.trace_id).rows()
    around = [
        (about, row)
        for about, kind, target in (
            ("its episode", TargetKind.CASE, trace.episode_id),
            ("its run", TargetKind.RUN, trace.run_id),
        )
        for row in annotations_of(opened.snapshot, kind, target).rows()
    ]
    told = [("this execution", row) for row in held] + around
    if (seq := st.session_state.pop(_STORED, None)) is not None:
        st.success(f"Stored as entry {literal(seq)}.", icon=":material/check_circle:")
    if told:
        show.words(_table(told), alt="annotations of this execution, its episode and its run")
    else:
        st.text("No remark yet.")
    _form(opened, trace, held)


def _table(told: list[tuple[str, dict[str, Any]]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "about": about,
                "label": one_line(r["label"]),
                "reason": None if r["text"] is None else one_line(r["text"], CELL),
                "author": one_line(r["author"]),
                "time": times.shown(r["at"]),
                "state": "corrected" if r["replaced_by"] else "stands",
            }
            for about, r in told
        ]
    )


def _form(opened: Opened, trace: Trace, held: list[dict[str, Any]]) -> None:
    standing = {r["id"]: one_line(r["label"], 60) for r in held if not r["replaced_by"]}
    with st.form("annotate", clear_on_submit=True, border=True):
        left, right = st.columns([2, 5])
        label = left.text_input("Label", max_chars=acts.LABEL_LENGTH, placeholder="wrong label, looks right, ...")
        reason = right.text_input("Reason", placeholder="Why, in your words")
        replaces = None
        if standing:
            replaces = left.selectbox(
                "Corrects", list(standing), index=None, format_func=standing.__getitem__, placeholder="nothing"
            )
        st.caption(f"Written as {literal(opened.identity.actor)}; author and time are recorded with it.")
        sent = st.form_submit_button("Annotate", icon=":material/edit_note:")
    if not sent:
        return
    try:
        wanted = acts.request(TargetKind.TRACE, trace.trace_id, label or "", reason or None, replaces)
        seen = max((r["last_seq"] for r in held), default=0)
        known = acts.known_in(opened.snapshot)
        done = acts.annotate(opened.store, opened.identity, wanted, exists=known, expected_seq=seen)
    except DuebookError as error:
        states.refused(error)
        return
    st.session_state[_STORED] = done.seq
    st.rerun()

"""One execution in its place: the way back and along the list, then everything the trace holds, answer first."""

from __future__ import annotations

import streamlit as st

from core.acts.judge import demonstrate_audit, demonstration_table
from core.errors import DuebookError
from core.figures.tables import arms_table
from core.figures.wording import ARM_TITLES
from core.records.filter import Filter
from core.records.trace import Trace
from core.views.read import traces as ask
from core.views.read.traces import Sort
from pages._parts import address, execution, remarks, resources, show, states, strings
from pages._parts.frame import Opened
from pages._parts.literal import literal

PAGE = "pages/traces.py"


def along(opened: Opened, chosen: Filter, trace_id: str) -> None:
    """Draw the way back to the list, with everything as it was, and the steps to its neighbours in the list."""
    sort = Sort.parse(st.query_params.get("sort", Sort().token))
    beside = ask.neighbours(opened.snapshot, chosen, trace_id, sort)
    with st.container(horizontal=True, gap="medium"):
        st.page_link(
            PAGE, label="Back to the list", icon=":material/arrow_back:", query_params=address.here(without=("trace",))
        )
        _step("Previous", ":material/chevron_left:", beside.previous)
        _step("Next", ":material/chevron_right:", beside.next)
    if not beside.inside:
        st.caption(strings.OUTSIDE_THE_LIST)


def _step(label: str, icon: str, trace_id: str | None) -> None:
    params = address.here(trace=trace_id) if trace_id else address.here()
    st.page_link(PAGE, label=literal(label), icon=icon, query_params=params, disabled=trace_id is None)


def whole(opened: Opened, trace: Trace) -> None:
    """Show everything about one execution."""
    execution.headline(trace)
    execution.pair(trace)
    execution.way(trace)
    execution.steps(trace)
    left, right = st.columns([3, 2], gap="large")
    with left:
        execution.decision(trace)
    with right:
        execution.null_audit(trace)
    execution.outputs(trace)
    arms(opened, trace)
    mutants(opened, trace)
    remarks.section(opened, trace)
    with st.expander(f"All {literal(len(trace.decisions))} stored decisions, distractors first"):
        execution.decisions(trace)
    with st.expander("Records as they stood when the event came"):
        execution.records(trace)
    with st.expander("Processes, weights and run behind it"):
        execution.provenance(trace)


def arms(opened: Opened, trace: Trace) -> None:
    """Show the same episode in the other arms, side by side, each one click away."""
    st.markdown("#### The same episode in every arm", help=strings.ARMS_BESIDE_HELP)
    others = ask.arms_of(opened.snapshot, trace)
    table = arms_table([trace, *others])
    show.words(table, alt="the same episode in every arm")
    with st.container(horizontal=True, gap="medium"):
        for other in sorted(others, key=lambda t: t.arm):
            st.page_link(
                PAGE,
                label=f"Open {literal(ARM_TITLES[other.arm])}",
                icon=":material/compare_arrows:",
                query_params=address.here(trace=other.trace_id),
            )


def mutants(opened: Opened, trace: Trace) -> None:
    """Offer to walk the null path again with four faulty controllers, each caught by its own check."""
    if not trace.null_trial:
        return
    st.markdown("#### Can this audit fail?")
    st.text(strings.MUTANTS_INTRO)
    key = f"mutants_{trace.trace_id}"
    if st.button("Run the four faulty controllers", icon=":material/bug_report:", key="mutants"):
        with st.spinner("Walking the null path five times", show_time=True):
            try:
                shown = demonstrate_audit(trace, resources.backbone(opened.config))
            except DuebookError as error:
                states.refused(error)
                return
        st.session_state[key] = demonstration_table(shown)
    if key in st.session_state:
        show.words(st.session_state[key], alt="what the audit says of each controller")

"""The front door's parts: the claims, the newest controlled run, the ledger, the runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import streamlit as st

from core.evaluation.claims import Claim, ClaimStatus
from core.figures.tables import arm_shares, criteria_table, run_table
from core.figures.wording import claim_evidence, run_words
from core.records.filter import Filter, FilterOp
from core.records.run import Manifest
from core.records.trace import ArmName
from core.views.read import runs as ask_runs
from core.views.read.standing import Standing
from pages._parts import address, resources, show, states, strings, times
from pages._parts.frame import Opened
from pages._parts.literal import literal

TRACES = "pages/traces.py"
RUNS_SHOWN = 10
"""So many of the newest runs are spelled out; where there are more, all stand one click away."""
ARROW = ":material/arrow_forward:"
HOLDS = {True: "✓", False: "✕", None: "—"}
SIGNS: dict[ClaimStatus, tuple[str, Literal["green", "red", "gray"]]] = {
    ClaimStatus.ESTABLISHED: (":material/check_circle:", "green"),
    ClaimStatus.REJECTED: (":material/cancel:", "red"),
    ClaimStatus.NOT_TESTED: (":material/radio_button_unchecked:", "gray"),
    ClaimStatus.NO_CLAIM: (":material/remove:", "gray"),
}


def standing(opened: Opened) -> Standing:
    """Return what the evidence establishes, counted from stored rows."""
    with st.spinner("Counting the newest run", show_time=True):
        return resources.standing(opened.config, opened.snapshot.stamp)


def claims(state: Standing) -> None:
    """List the claims, what stands first, each with class, n, interval and the way to its rows."""
    told = [c for status in list(ClaimStatus)[:3] for c in state.claims if c.status is status]
    with st.container(horizontal=True, gap="small"):
        for status in list(ClaimStatus)[:3]:
            icon, colour = SIGNS[status]
            count = sum(c.status is status for c in told)
            colour = colour if count else "gray"
            st.badge(f"{literal(count)} {literal(status)}", icon=icon, color=colour, help=strings.CLAIMS_HELP)
    for claim in told:
        _claim(state, claim)
    unclaimed = [c for c in state.claims if c.status is ClaimStatus.NO_CLAIM]
    for claim in unclaimed:
        if claim.run_id is not None:
            _measured_only(claim)
    with st.expander("What is deliberately not claimed, and why"):
        for claim in unclaimed:
            if claim.run_id is None:
                st.markdown(f"Not claimed: *{literal(claim.claim)}.* {literal(claim.limit)}")


def _measured_only(claim: Claim) -> None:
    """Show what was measured and carries no claim, whatever came out."""
    with _status_line(claim):
        _said(f"A diagnostic: {claim.claim[0].lower() + claim.claim[1:]}?", claim.limit)


def _claim(state: Standing, claim: Claim) -> None:
    with _status_line(claim):
        _said(claim.claim, claim_evidence(claim, state.criteria), more=claim.limit)
        if claim.run_id is not None:
            behind = state.rows_behind.get(claim.metrics[0] if len(claim.metrics) == 1 else "", Filter())
            st.page_link(TRACES, label="Rows", icon=ARROW, query_params=address.of(_of_run(behind, claim.run_id)))


@contextmanager
def _status_line(claim: Claim) -> Iterator[None]:
    """Give a line that begins with the claim's status."""
    icon, colour = SIGNS[claim.status]
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
        with st.container(width=110):
            st.badge(literal(claim.status), icon=icon, color=colour)
        yield


def _said(sentence: str, evidence: str, more: str | None = None) -> None:
    """Show a sentence over what it rests on."""
    with st.container(gap=None):
        st.markdown(literal(sentence), help=None if more is None else literal(more))
        st.caption(literal(evidence))


def _of_run(chosen: Filter, run_id: str) -> Filter:
    return chosen.without("run_id").with_term("run_id", FilterOp.EQ, run_id)


def criteria(opened: Opened, state: Standing, run: Manifest) -> None:
    """Show every criterion of the newest complete run's contract, and the way to its rows."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown("#### Criteria of the frozen contract", help=strings.CRITERIA_HELP, width="content")
        with st.popover("Rows behind a criterion", icon=ARROW):
            for row in state.criteria:
                behind = state.rows_behind[row.metric]
                st.page_link(TRACES, label=literal(row.metric.replace("_", " ")), query_params=address.of(behind))
    show.words(
        criteria_table(state.criteria),
        alt="criteria of the frozen contract",
        formats={"observed": "{:.3f}".format, "margin": "{:+.3f}".format, "n": "{:,}".format},
    )
    st.caption(f"{literal(run_words(run))}. {strings.GENERATOR_MATCHED}")
    if state.code_changed:
        st.caption(strings.DRIFT)
        st.code(strings.DRIFT_COMMAND, language="sh")
    show.asked(ask_runs.metrics(opened.snapshot, run.run_id))


def arms(opened: Opened, run_id: str) -> None:
    """Show the arms side by side: episodes right of n, with their interval."""
    st.markdown("#### Episodes right, by arm", help=strings.ARMS_HELP)
    answer = ask_runs.arm_summary(opened.snapshot, run_id)
    # A bar in a table, not a plotly figure: that one costs the first page a second.
    share = st.column_config.ProgressColumn("share of episodes", format="percent", min_value=0, max_value=1)
    show.rows(arm_shares(answer.table), key="arms", columns={"share": share})
    with st.container(horizontal=True, gap="small"):
        for arm in ArmName:
            chosen = _of_run(Filter().with_term("arm", FilterOp.EQ, arm), run_id)
            st.page_link(TRACES, label=f"{literal(arm)} rows", query_params=address.of(chosen))
    show.asked(answer)


def properties(opened: Opened, state: Standing, run: Manifest) -> None:
    """Count the six observable properties, each with the way to its rows."""
    st.markdown("#### Six observable properties, counted", help=strings.PROPERTIES_HELP)
    for start in (0, 3):
        for column, row in zip(st.columns(3), state.properties[start : start + 3], strict=True):
            with column, st.container(border=True, height="stretch", gap="small"):
                st.markdown(f"**{literal(row.item)}** {literal(row.requirement)}")
                st.caption(literal(row.counted))
                with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
                    sign = HOLDS[row.holds]
                    st.markdown(f"{literal(sign)} **{literal(row.k)} of {literal(row.n)}** episodes", width="content")
                    st.page_link(TRACES, label="Rows", icon=ARROW, query_params=address.of(state.rows_behind[row.item]))
    show.asked(ask_runs.properties(opened.snapshot, run.run_id))


def what_next(state: Standing) -> None:
    """Say what to do where no complete run is stored."""
    if state.run is None:
        states.empty(strings.NO_RUN, strings.RUN_NEXT, strings.RUN_COMMANDS)


def newest(opened: Opened, state: Standing) -> None:
    """Show the newest complete run: its criteria, arms and properties."""
    if state.run is None:
        return
    criteria(opened, state, state.run)
    arms(opened, state.run.run_id)
    properties(opened, state, state.run)


def ledger(opened: Opened) -> None:
    """Show whether the ledger verifies, and its head."""
    st.markdown("#### Ledger", help=strings.LEDGER_HELP)
    report = resources.verified(opened.config, opened.snapshot.as_of, opened.store)
    if report.ok:
        st.badge(f"{literal(report.count)} entries verify", icon=":material/check_circle:", color="green")
    else:
        st.error(literal(report.findings[0].sentence), icon=":material/error:")
        st.text("Restore the file from a copy that verifies; `python -m core ledger verify` lists everything found.")
    st.code(report.hash, language=None, wrap_lines=True)
    for note in report.notes:
        st.caption(literal(note))


def runs(opened: Opened) -> None:
    """List every run, failed ones too."""
    st.markdown("#### Runs", help=strings.RUNS_HELP)
    answer = ask_runs.runs(opened.snapshot)
    table = run_table(answer.table)
    if table.empty:
        st.text("None yet.")
    else:
        newest_runs = table.head(RUNS_SHOWN)
        show.words(newest_runs.drop(columns="note"), alt="the newest runs", formats={"started": times.short})
        for run in newest_runs[newest_runs["note"].notna()].to_dict("records"):
            st.caption(f"**{literal(run['status'])}, {literal(run['kind'])}:** {literal(run['note'])}")
    more = len(table) > RUNS_SHOWN
    with st.expander(strings.ALL_RUNS if more else strings.ASKED):
        if more:
            show.rows(table, key="runs")
        show.queries(answer)

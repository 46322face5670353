"""The list of executions: filters on the left, totals and chart from the same filter, one page of rows, exports."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from core.config import Config
from core.figures.breakdown import outcome_bars
from core.figures.tables import LIST_COLUMNS, trace_list
from core.figures.wording import selection_words
from core.records.filter import Filter, FilterOp
from core.views.read import traces as ask
from core.views.read.export import ExportFormat, export_bytes
from core.views.read.outcomes import outcomes
from core.views.read.traces import Page, Sort
from core.views.views import Snapshot
from pages._parts import address, filters, resources, show, states, strings, times
from pages._parts.literal import literal

TOTALS_SHOWN = 4
"""So many classes and runs are spelled out; the table behind them has all."""
ORDERS = {
    "trace_id:desc": "Newest first",
    "trace_id:asc": "Oldest first",
    "score:desc": "Highest score first",
    "score:asc": "Lowest score first",
    "margin:desc": "Furthest above the threshold first",
    "margin:asc": "Furthest below the threshold first",
    "elapsed_us:desc": "Slowest first",
}
"""Orders of the whole list, not of the page; any other column can be named in the address."""
CHIPS = {
    "arm": "Arm",
    "outcome": "Outcome",
    "boundary": "Boundary",
    "family": "Family",
    "null_reason": "Reason of silence",
}


def search(snapshot: Snapshot) -> None:
    """Draw the search box: an id goes straight to what it names, other words become a filter on the event's text."""
    with (
        st.form("search", clear_on_submit=True, border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        text = st.text_input("Search", placeholder=strings.SEARCH_PLACEHOLDER, label_visibility="collapsed")
        sent = st.form_submit_button("Search", icon=":material/search:")
    if not (sent and text and text.strip()):
        return
    found = ask.find_id(snapshot, text)
    if found is not None and found.kind is ask.IdKind.TRACE:
        address.go(address.here(without=("page",), trace=found.id))
    elif found is not None:
        address.go(address.of(found.filter))
    else:
        filters.apply(_chosen().with_term("event_text", FilterOp.CONTAINS, text.strip()))
    st.rerun()


def _chosen() -> Filter:
    return filters.from_address(ask.field_names())


def pickers(snapshot: Snapshot, chosen: Filter) -> None:
    """Draw the filters on the left: chips for what is asked most, a picker for every other column."""
    facet = partial(_facet, snapshot, chosen)
    with st.sidebar:
        st.markdown("#### Filter")
        classes = facet("evidence_class")
        alone = len(chosen.values("evidence_class") or classes) <= 1
        if not alone:
            st.caption(strings.PICK_A_CLASS)
        filters.chips(chosen, "evidence_class", "Evidence class", classes)
        for field, title in CHIPS.items():
            filters.chips(chosen, field, title, facet(field), counted=alone)
        with st.expander("Any other column"):
            filters.any_column(chosen, ask.column_map(), facet)


def _facet(snapshot: Snapshot, chosen: Filter, field: str) -> filters.Facet:
    return ask.facets(snapshot, chosen, field).rows()


def totals(snapshot: Snapshot, chosen: Filter) -> bool:
    """Show what the filter selects: counts by class, origin, contract and run, and outcomes by arm.

    Returns
    -------
    Whether it selects anything.
    """
    answer = ask.totals(snapshot, chosen)
    counted = answer.table.to_pandas()
    if counted.empty:
        _nothing(chosen)
        return False
    for row in answer.rows()[:TOTALS_SHOWN]:
        count, rest = selection_words(row)
        st.markdown(f"**{literal(count)}** {literal(rest)}")
    by_arm = outcomes(snapshot, chosen)
    table = by_arm.table.to_pandas()
    with st.expander("Outcomes by arm, and how this was counted"):
        show.chart(outcome_bars(table), key="outcomes", alt="executions by arm and outcome")
        show.rows(table, key="outcomes_table")
        show.rows(counted, key="totals_table")
        show.queries(answer, by_arm)
    return True


def _nothing(chosen: Filter) -> None:
    if chosen.terms:
        states.empty(strings.NO_MATCH, strings.NO_MATCH_NEXT)
    else:
        states.empty(strings.NO_TRACES, strings.RUN_NEXT, strings.RUN_COMMANDS)


def rows(snapshot: Snapshot, chosen: Filter, settings: Config) -> None:
    """Show one page of rows, its order and the exports; picking a row opens it."""
    sort = Sort.parse(st.query_params.get("sort", Sort().token))
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        _order(sort)
        exports(settings, chosen)
    page = ask.list_traces(snapshot, chosen, sort, st.query_params.get("page"), names=LIST_COLUMNS)
    table = trace_list(page.answer.table)
    st.caption("A click on a row opens it.")
    key = f"rows_{page.answer.as_of}_{st.query_params.get('page', '')}_{sort.token}"
    st.dataframe(
        table,
        key=key,
        hide_index=True,
        selection_mode=["single-row", "single-cell"],
        on_select=partial(_open, key, list(table["trace_id"])),
        column_config=_columns(),
        placeholder="—",
        height=min(640, 36 * len(table) + 40),
    )
    _paging(page)


def _order(sort: Sort) -> None:
    st.session_state["order"] = sort.token
    st.selectbox(
        "Order",
        list(dict.fromkeys([*ORDERS, sort.token])),
        format_func=lambda token: ORDERS.get(token, token),
        key="order",
        on_change=_reorder,
        width=280,
        label_visibility="collapsed",
    )


def _reorder() -> None:
    address.go(address.here(without=("page",), sort=st.session_state["order"]))


def _open(key: str, ids: list[str]) -> None:
    selection = st.session_state[key]["selection"]
    picked = [*selection["rows"], *(row for row, _ in selection["cells"])]
    if picked:
        address.go(address.here(trace=ids[picked[0]]))


def _columns() -> dict[str, Any]:
    described = ask.column_map()
    config = st.column_config
    zone = str(times.zone())
    return {
        "outcome": config.TextColumn("Outcome", help=described["outcome"].description),
        "arm": config.TextColumn("Arm", width=48),
        "boundary": config.TextColumn("Boundary"),
        "family": config.TextColumn("Family"),
        "event_text": config.TextColumn("Event", width=300),
        "score": config.NumberColumn("Score", format="%.4f"),
        "threshold": config.NumberColumn("Threshold", format="%.3g"),
        "null_reason": config.TextColumn("Why silent"),
        "seed": config.NumberColumn("Seed", format="%d"),
        "delay": config.NumberColumn("Distractors", format="%d"),
        "evidence_class": config.TextColumn("Class"),
        "created_at": config.DatetimeColumn(f"Time ({zone})", format="YYYY-MM-DD HH:mm:ss", timezone=zone),
        "episode_id": config.TextColumn("Episode"),
        "trace_id": config.TextColumn("Id"),
    }


def _paging(page: Page) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, token, icon in (
            ("Previous page", page.previous, ":material/chevron_left:"),
            ("Next page", page.next, ":material/chevron_right:"),
        ):
            st.button(
                literal(label),
                icon=icon,
                disabled=token is None,
                on_click=_turn,
                args=(token,),
            )
        st.page_link(
            "pages/traces.py",
            label="First page",
            icon=":material/first_page:",
            query_params=address.here(without=("page", "trace")),
            disabled="page" not in st.query_params,
        )


def _turn(token: str) -> None:
    st.query_params["page"] = token


def exports(settings: Config, chosen: Filter) -> None:
    """Offer exactly what the filter selects, every column, in three formats; made when it is asked for."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
        st.text("Export", width="content")
        for kind in ExportFormat:
            st.download_button(
                literal(kind.upper()),
                partial(exported, settings, chosen, kind),
                file_name=f"traces.{kind}",
                icon=":material/download:",
                on_click="ignore",
                key=f"export_{kind}",
            )


def exported(settings: Config, chosen: Filter, kind: ExportFormat) -> bytes:
    """Return the export's bytes, read at the moment of the download."""
    with resources.views(settings).snapshot() as snapshot:
        return export_bytes(snapshot, chosen, kind)

"""Traces: which executions, what happened in each, and why it fired or stayed silent."""

from __future__ import annotations

import streamlit as st

from core.views.read import traces as ask
from pages._parts import filters, trace_detail, trace_list
from pages._parts.frame import open_page

with open_page("pages/traces.py") as opened:
    chosen = filters.from_address(ask.field_names())
    trace_list.search(opened.snapshot)
    trace_id = st.query_params.get("trace")
    if trace_id is None:
        trace_list.pickers(opened.snapshot, chosen)
        filters.active(chosen)
        if trace_list.totals(opened.snapshot, chosen):
            trace_list.rows(opened.snapshot, chosen, opened.config)
    else:
        trace_detail.along(opened, chosen, trace_id)
        trace_detail.whole(opened, ask.one_trace(opened.snapshot, trace_id))

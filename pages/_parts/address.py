"""The page's address: the whole view stands in the URL, so that a link shows the same on a fresh server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from core.records.filter import Filter

Params = dict[str, str | list[str]]


def kept() -> Params:
    """Return the parameters that hold on every page: the time zone."""
    return {"tz": st.query_params["tz"]} if "tz" in st.query_params else {}


def of(chosen: Filter | None = None, **changed: str | None) -> Params:
    """Return the parameters of a link: the filter's terms, sorted, and what else is given."""
    terms: Params = {"f": chosen.tokens()} if chosen and chosen.terms else {}
    return kept() | terms | {k: v for k, v in changed.items() if v is not None}


def here(*, without: Iterable[str] = (), **changed: str) -> Params:
    """Return this page's parameters with some left out and some changed; repeated ones stay lists."""
    left_out = set(without)
    params: Params = {k: st.query_params.get_all(k) for k in st.query_params if k not in left_out}
    return params | changed


def go(params: Mapping[str, str | list[str]]) -> None:
    """Make these the page's parameters; the rerun that follows reads them."""
    st.query_params.from_dict(dict(params))

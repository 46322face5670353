"""The page's address: the whole view stands in the URL, so that a link shows the same on a fresh server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from core.errors import ViewError, quoted
from core.records.filter import Filter

Params = dict[str, str | list[str]]
REPEATED = ("f",)
_TOLD = "address_told"


def kept() -> Params:
    """Return the parameters that hold on every page: the time zone."""
    return {"tz": st.query_params["tz"]} if "tz" in st.query_params else {}


def check(known: Iterable[str]) -> None:
    """Refuse an address that says what this page does not read: rows that ignore it are never shown.

    Parameters
    ----------
    known : the page's parameters besides the time zone.

    Raises
    ------
    ViewError : a parameter is unknown, or stands more often than it can be read.
    """
    read = ("tz", *known)
    for name in st.query_params:
        if name not in read:
            raise ViewError(
                f"The address holds {quoted(name)}, which this page does not read; it reads {', '.join(read)}.",
                next_step="Filters are written f=column:op:value.",
            )
        if name not in REPEATED and len(st.query_params.get_all(name)) > 1:
            raise ViewError(f"The address holds {name} more than once.", next_step="Leave one of them.")


def of(chosen: Filter | None = None, **changed: str | None) -> Params:
    """Return the parameters of a link: the filter's terms, sorted, and what else is given."""
    terms: Params = {"f": chosen.tokens()} if chosen and chosen.terms else {}
    return kept() | terms | {k: v for k, v in changed.items() if v is not None}


def here(*, without: Iterable[str] = (), **changed: str) -> Params:
    """Return this page's parameters with some left out and some changed; repeated ones stay lists."""
    left_out = set(without)
    params: Params = {k: st.query_params.get_all(k) for k in st.query_params if k not in left_out}
    return params | changed


def tell() -> None:
    """Make the browser's address what the page shows.

    A link to the page one is on changes what is asked for, and not the browser's address: it is said once more.
    """
    now = here()
    if st.session_state.get(_TOLD, now) != now:
        go(now)
    st.session_state[_TOLD] = now


def go(params: Mapping[str, str | list[str]]) -> None:
    """Make these the page's parameters; the rerun that follows reads them."""
    st.query_params.from_dict(dict(params))

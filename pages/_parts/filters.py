"""Pickers that become one plain `Filter`, kept in the URL as sorted, repeated `f=field:op:value` parameters.

The URL is the truth: pickers show what it says and change nothing else. A parameter that is no filter raises before
any row is asked for, so that rows that ignore it are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from core.figures.literal import one_line
from core.records.filter import Filter, FilterOp, FilterTerm
from core.views.where import Column, Kind
from pages._parts import address
from pages._parts.literal import literal

Facet = Sequence[Mapping[str, Any]]
"""Values of a column, most frequent first: `value` (None: undefined) and `n`, the rows that have it."""
_WORDS = {
    FilterOp.EQ: "is",
    FilterOp.NE: "is not",
    FilterOp.LT: "<",
    FilterOp.LE: "≤",
    FilterOp.GT: ">",
    FilterOp.GE: "≥",
    FilterOp.CONTAINS: "contains",
    FilterOp.IS: "is",
}
_ORDER = (FilterOp.EQ, FilterOp.NE, FilterOp.LT, FilterOp.LE, FilterOp.GT, FilterOp.GE, FilterOp.IS)
_NAMES = (FilterOp.EQ, FilterOp.NE, FilterOp.IS)
COMPARISONS = {
    Kind.TEXT: (FilterOp.EQ, FilterOp.NE, FilterOp.CONTAINS, FilterOp.IS),
    Kind.WHOLE: _ORDER,
    Kind.NUMBER: _ORDER,
    Kind.INSTANT: _ORDER[2:],
    Kind.FLAG: _NAMES,
    Kind.NESTED: (FilterOp.CONTAINS, FilterOp.IS),
}
"""The comparisons a column of each kind is offered."""
_EXAMPLES = {Kind.INSTANT: "2026-12-04T09:00:00Z", Kind.NUMBER: "0.05", Kind.WHOLE: "5"}


def from_address(fields: Iterable[str]) -> Filter:
    """Return the filter in the URL.

    Raises
    ------
    ViewError : a parameter is no filter; the sentence names it.
    """
    return Filter.parse(st.query_params.get_all("f"), fields)


def apply(chosen: Filter) -> None:
    """Put a filter into the URL; the list starts at its first page again."""
    address.go(address.here(without=("f", "page", "trace")) | address.of(chosen))


def chips(chosen: Filter, field: str, title: str, facet: Facet, *, counted: bool = True) -> None:
    """Draw a column's values as chips; several chosen ones mean any of them.

    Parameters
    ----------
    counted : whether the counts are shown: not where they would add up several evidence classes.
    """
    counts = {row["value"]: row["n"] for row in facet if row["value"] is not None}
    picked = chosen.values(field)
    key = f"chips_{field}"
    st.session_state[key] = picked
    st.pills(
        literal(title),
        sorted({*counts, *picked}),
        selection_mode="multi",
        key=key,
        format_func=lambda v: literal(_chip(v, counts.get(v, 0) if counted else None)),
        on_change=_replace,
        args=(chosen, field, key),
    )


def _chip(value: str, count: int | None) -> str:
    name = one_line(value.replace("_", " "), 28)
    return name if count is None else f"{name} · {count:,}"


def _replace(chosen: Filter, field: str, key: str) -> None:
    kept = [t for t in chosen.terms if not (t.field == field and t.op is FilterOp.EQ)]
    picked = [FilterTerm(field=field, op=FilterOp.EQ, value=v) for v in st.session_state[key] or ()]
    apply(Filter.of([*kept, *picked]))


def any_column(chosen: Filter, columns: Mapping[str, Column], facet: Callable[[str], Facet]) -> None:
    """Draw the picker over every column: column, a comparison fit for its kind, value, *Add*.

    Parameters
    ----------
    columns : the view's columns by name.
    facet : the values of a column that is not nested, most frequent first.
    """
    column = columns[
        st.selectbox("Column", sorted(columns), key="any_field", help="Every stored attribute can be filtered on.")
    ]
    st.caption(literal(column.description))
    op = st.selectbox(
        "Comparison", COMPARISONS[column.kind], format_func=_WORDS.__getitem__, key=f"any_op_{column.name}"
    )
    value = _value_picker(column, op, facet)
    st.button(
        "Add to the filter", key="any_add", on_click=_add, args=(chosen, column.name, op, value), disabled=not value
    )


def _value_picker(column: Column, op: FilterOp, facet: Callable[[str], Facet]) -> str | None:
    key = f"any_value_{column.name}_{op}"
    if op is FilterOp.IS:
        return st.selectbox(
            "Value", ("null", "set"), format_func={"null": "undefined", "set": "defined"}.__getitem__, key=key
        )
    if op in _NAMES and column.kind is not Kind.NUMBER:
        values = column.values or [row["value"] for row in facet(column.name) if row["value"] is not None]
        return st.selectbox("Value", values, key=key, accept_new_options=True, format_func=lambda v: one_line(v, 60))
    return st.text_input("Value", key=key, placeholder=_EXAMPLES.get(column.kind, ""))


def _add(chosen: Filter, field: str, op: FilterOp, value: str) -> None:
    apply(chosen.with_term(field, op, value))


def active(chosen: Filter) -> None:
    """List the terms of the filter, each with a button that takes it away."""
    if not chosen.terms:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for n, term in enumerate(chosen.terms):
            st.button(
                f"{literal(in_words(term), 60)} ✕",
                key=f"drop_{n}_{term.token}",
                help="Take this condition away",
                on_click=_drop,
                args=(chosen, term),
            )
        st.button("Clear all", key="clear_filter", type="tertiary", on_click=apply, args=(Filter(),))


def _drop(chosen: Filter, term: FilterTerm) -> None:
    apply(Filter(terms=tuple(t for t in chosen.terms if t != term)))


def in_words(term: FilterTerm) -> str:
    """Return one term as a reader would say it."""
    name = term.field.replace("_", " ")
    if term.op is FilterOp.IS:
        return f"{name} {'undefined' if term.value == 'null' else 'defined'}"
    return f"{name} {_WORDS[term.op]} {term.value}"

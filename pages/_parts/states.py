"""What a page shows when it has no rows to show: empty, refused, broken. Always what is so, and what to do next."""

from __future__ import annotations

import streamlit as st

from core.errors import DuebookError
from pages._parts import strings
from pages._parts.literal import literal


def empty(sentence: str, next_step: str | None = None, command: str | None = None) -> None:
    """Say calmly that there is nothing, and what would change that."""
    with st.container(border=True):
        st.markdown(f"**{literal(sentence)}**")
        if next_step:
            st.text(next_step)
        if command:
            st.code(command, language=None)


def refused(error: DuebookError) -> None:
    """Show an error of ours: what was wrong, where, what to do. Never a traceback."""
    st.error(literal(error.message), icon=":material/error:")
    if error.where:
        st.text("Where")
        st.code(error.where, language=None, wrap_lines=True)
    if error.next_step:
        st.text(error.next_step)


def unexpected() -> None:
    """Show the calm sentence for an error nobody foresaw; the log has the rest."""
    st.error(literal(strings.UNEXPECTED), icon=":material/error:")
    st.code("python -m core doctor", language=None)

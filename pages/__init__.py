"""The pages there are, in the order of the sidebar. A page that is not listed here is not reachable from it."""

from __future__ import annotations

from typing import NamedTuple


class Page(NamedTuple):
    """One page and the one question it answers."""

    path: str
    """The script, from the project's folder."""
    title: str
    """Its name in the sidebar."""
    icon: str
    """Its sign in the sidebar."""
    section: str
    """The heading it stands under."""
    question: str
    """What it answers."""
    parameters: tuple[str, ...] = ()
    """What its address may hold besides the time zone: `f` repeats, the others stand once."""


PAGES = (
    Page(
        "app.py",
        "Overview",
        ":material/dashboard:",
        "Evidence",
        "What is established, what is rejected, what was never tested?",
    ),
    Page(
        "pages/traces.py",
        "Traces",
        ":material/format_list_bulleted:",
        "Audit",
        "What happened in each execution, and why did it fire or stay silent?",
        ("f", "sort", "page", "trace"),
    ),
)


def page(path: str) -> Page:
    """Return the page of a script.

    Raises
    ------
    KeyError : the script is no page.
    """
    for entry in PAGES:
        if entry.path == path:
            return entry
    raise KeyError(path)

"""The frame of every page: title, sidebar, who you are, which workspace, as of which entry; and a net under the body.

`open_page` comes first on every page. It opens one snapshot for the whole rerun, so that list, totals, charts and
exports come from one moment. Identity is read here and passed on to acts, which decide: what the frame hides or
shows is no check.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby

import streamlit as st

from core.acts.identity import Identity, asserted
from core.config import Config
from core.errors import DuebookError
from core.ledger.store import Store
from core.views.views import Snapshot
from pages import PAGES, Page, page
from pages._parts import address, resources, states, strings, times
from pages._parts.literal import literal

log = logging.getLogger(__name__)
_SIDEBAR = 240
"""Pixels; hidden at first on a telephone, where it would cover the page."""


@dataclass(frozen=True)
class Opened:
    """What a page's body is given."""

    config: Config
    """What the process was told."""
    store: Store
    """The operational store, for acts."""
    snapshot: Snapshot
    """One moment of the workspace."""
    identity: Identity
    """Who acts, and how that is known; the act decides what that allows."""


@contextmanager
def open_page(path: str) -> Iterator[Opened]:
    """Draw the frame of a page and give its body one snapshot; whatever the body raises ends in a calm sentence.

    Parameters
    ----------
    path : the page's script as `PAGES` names it.
    """
    this = page(path)
    st.set_page_config(page_title=f"{this.title} · Duebook", layout="wide", initial_sidebar_state=_SIDEBAR)
    address.tell()
    _navigation()
    with ExitStack() as stack:
        ready = False
        with guarded(path):
            address.check(this.parameters)
            settings = resources.config()
            store = resources.store(settings)
            snapshot = stack.enter_context(resources.views(settings).snapshot())
            opened = Opened(settings, store, snapshot, asserted(settings))
            _header(this, opened)
            ready = True
        if not ready:
            st.stop()
        with guarded(path):
            yield opened
    with st.sidebar:
        times.picker()


@contextmanager
def guarded(path: str) -> Iterator[None]:
    """Turn whatever the block raises into a calm sentence; what stands outside it is still shown."""
    try:
        yield
    except DuebookError as error:
        states.refused(error)
        st.page_link(path, label="Open this page afresh", icon=":material/restart_alt:")
    except Exception:
        log.exception("The page %s failed.", path)
        states.unexpected()


def _navigation() -> None:
    with st.sidebar:
        st.markdown("### Duebook")
        for section, entries in groupby(PAGES, key=lambda p: p.section):
            st.caption(literal(section))
            for entry in entries:
                st.page_link(entry.path, label=literal(entry.title), icon=entry.icon, query_params=address.kept())


def _header(this: Page, opened: Opened) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"):
        st.title(literal(this.title), anchor=False, width="content")
        with st.container(horizontal=True, gap="small", vertical_alignment="center", width="content"):
            st.badge(
                f"workspace {literal(opened.config.home.name)} · {literal(opened.store.workspace_class)}",
                icon=":material/folder:",
                color="primary",
                help=f"{literal(opened.config.home)}",
            )
            st.badge(
                f"{literal(opened.identity.actor)} · {literal(opened.identity.how)}",
                icon=":material/person:",
                color="gray",
                help=strings.ASSERTED,
            )
            st.badge(
                f"as of entry {literal(opened.snapshot.as_of)}",
                icon=":material/link:",
                color="gray",
                help=strings.AS_OF_HELP,
            )
            st.badge(strings.NO_SCHEDULER, icon=":material/schedule:", color="gray", help=strings.NO_SCHEDULER_HELP)
    st.caption(literal(this.question))
    for problem in opened.snapshot.problems:
        st.warning(literal(problem), icon=":material/warning:")

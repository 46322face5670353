"""The viewer's time zone: picked in the sidebar, kept in the URL as `tz`; UTC until somebody picks another."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

import streamlit as st

from core import clock
from core.errors import ViewError
from core.figures.wording import ago

_KEY = "tz_picker"


def _names() -> set[str]:
    # Not zones of their own: the database's word for one nobody set, and whatever this machine has.
    return available_timezones() - {"Factory", "localtime"}


def zone() -> ZoneInfo:
    """Return the zone in the URL.

    Raises
    ------
    ViewError : the URL names no zone.
    """
    name = st.query_params.get("tz", "UTC")
    if name not in _names():
        raise ViewError(
            f"The address names the time zone {name!r}, which does not exist.", next_step="Pick one on the left."
        )
    return ZoneInfo(name)


def picker() -> None:
    """Draw the zone's picker; the browser's own zone stands near the top."""
    names = sorted(_names())
    own = st.context.timezone
    first = [n for n in dict.fromkeys(("UTC", own)) if n in names]
    chosen = st.query_params.get("tz", "UTC")
    st.session_state[_KEY] = chosen if chosen in names else "UTC"
    st.selectbox("Time zone", [*first, *(n for n in names if n not in first)], key=_KEY, on_change=_keep)


def _keep() -> None:
    st.query_params["tz"] = st.session_state[_KEY]


def short(instant: datetime) -> str:
    """Return an instant as date, time and zone."""
    return f"{instant.astimezone(zone()):%Y-%m-%d %H:%M %Z}"


def shown(instant: datetime | None) -> str:
    """Return an instant as date, time and zone, and how long ago it was."""
    if instant is None:
        return "—"
    return f"{instant.astimezone(zone()):%Y-%m-%d %H:%M:%S %Z} ({ago(instant, clock.now())})"

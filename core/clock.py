"""The only source of instants: aware UTC, RFC 3339 with offset, strict durations.

Promise: no naive datetime leaves this module. Refused by name: instants without an offset, numbers as instants,
leap seconds, calendar durations (years and months have no fixed length).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

import uuid_utils

from core.errors import InputError, quoted

_pinned: ContextVar[datetime | None] = ContextVar("pinned_now", default=None)

_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_DURATION = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?", re.ASCII
)
_CALENDAR = re.compile(r"P(?:\d+W)?(?:\d+Y|\d+M)", re.ASCII)


def now() -> datetime:
    """Return the current instant, aware and in UTC (or the pinned one, see `pinned`)."""
    return _pinned.get() or datetime.now(UTC)  # noqa: TID251  the one place that reads the wall clock


def new_id() -> str:
    """Return a UUIDv7: ids sort by the time they were made."""
    return str(uuid_utils.uuid7())


@contextmanager
def pinned(instant: datetime) -> Iterator[None]:
    """Make `now()` answer `instant` in this context; tests and `--now` use it.

    Raises
    ------
    InputError : `instant` is naive.
    """
    if instant.tzinfo is None:
        raise InputError("The clock was given an instant without a zone.")
    token = _pinned.set(instant.astimezone(UTC))
    try:
        yield
    finally:
        _pinned.reset(token)


def parse_instant(text: str) -> datetime:
    """Parse RFC 3339 with an offset; digits beyond microseconds are cut off.

    Returns
    -------
    An aware datetime in UTC.

    Raises
    ------
    InputError : not RFC 3339, no offset, or no such date.
    """
    if not isinstance(text, str) or (m := _INSTANT.fullmatch(text)) is None:
        raise InputError(
            f"{quoted(text)} is not an instant: write RFC 3339 with an offset, like 2026-12-04T09:00:00-05:00.",
        )
    year, month, day, hour, minute, second, fraction, sign, off_h, off_m = m.groups()
    if int(off_h or 0) > 23 or int(off_m or 0) > 59:
        raise InputError(f"{quoted(text)} is not an instant: the offset {sign}{off_h}:{off_m} does not exist.")
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    offset = timedelta(hours=int(off_h or 0), minutes=int(off_m or 0)) * (-1 if sign == "-" else 1)
    try:
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micro, tzinfo=UTC)
        return local - offset
    except (ValueError, OverflowError) as e:
        raise InputError(f"{quoted(text)} is not an instant: {e}.") from e


def format_instant(instant: datetime) -> str:
    """Return `YYYY-MM-DDTHH:MM:SS.ffffffZ`, the one spelling used in hashes and files.

    Raises
    ------
    InputError : `instant` is naive.
    """
    if instant.tzinfo is None:
        raise InputError("An instant without a zone cannot be written.")
    # Not strftime: its %Y does not pad years below 1000 on every C library.
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_duration(text: str) -> timedelta:
    """Parse an ISO 8601 duration of weeks, days, hours, minutes and seconds; a day is 24 hours.

    Raises
    ------
    InputError : years or months (named), a negative or empty duration, any other text.
    """
    if isinstance(text, str) and _CALENDAR.match(text):
        raise InputError(
            f"{quoted(text)} uses years or months, whose length is not fixed: write weeks or days, like P30D."
        )
    m = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if m is None or all(part is None for part in m.groups()):
        raise InputError(
            f"{quoted(text)} is not a duration: write weeks, days, hours, minutes or seconds, like P1DT6H."
        )
    weeks, days, hours, minutes, seconds, micro = m.groups()
    try:
        return timedelta(
            weeks=int(weeks or 0),
            days=int(days or 0),
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=int(seconds or 0),
            microseconds=int((micro or "0").ljust(6, "0")),
        )
    except OverflowError as e:
        raise InputError(f"{quoted(text)} is longer than a duration can be.") from e


def format_duration(length: timedelta) -> str:
    """Return the ISO 8601 spelling in days, hours, minutes and seconds (`PT0S` for none).

    Raises
    ------
    InputError : the duration is negative.
    """
    if length < timedelta(0):
        raise InputError("A negative duration cannot be written.")
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{length.microseconds:06d}".rstrip("0") if length.microseconds else ""
    clock_part = "".join(
        [
            f"{hours}H" if hours else "",
            f"{minutes}M" if minutes else "",
            f"{seconds}{fraction}S" if seconds or fraction else "",
        ]
    )
    day_part = f"{length.days}D" if length.days else ""
    if not day_part and not clock_part:
        return "PT0S"
    return f"P{day_part}" + (f"T{clock_part}" if clock_part else "")

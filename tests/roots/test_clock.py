from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import format_duration, format_instant, new_id, now, parse_duration, parse_instant, pinned
from core.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-04T09:00:00-05:00", datetime(2026, 12, 4, 14, 0, tzinfo=UTC)),
        ("2026-12-04t09:00:00z", datetime(2026, 12, 4, 9, 0, tzinfo=UTC)),
        ("2024-02-29T23:59:59.5+05:45", datetime(2024, 2, 29, 18, 14, 59, 500_000, tzinfo=UTC)),
        ("2026-01-01T00:00:00.123456789Z", datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_an_instant_is_read_as_utc(text: str, expected: datetime) -> None:
    assert parse_instant(text) == expected
    assert parse_instant(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-04T09:00:00",
        "2026-12-04",
        "1700000000",
        "2026-02-30T00:00:00Z",
        "2026-12-04T24:00:00Z",
        "2026-12-04T09:00:60Z",
        "2026-12-04 09:00:00Z",
        "2026-12-04T09:00:00+24:00",
        "0001-01-01T00:00:00+01:00",
        "2026-12-04T09:00:00Z\n",
        "٢٠٢٦-12-04T09:00:00Z",
        "",
    ],
)
def test_what_is_not_an_instant_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="is not an instant"):
        parse_instant(text)


@given(st.datetimes(timezones=st.none()).filter(lambda d: 2 < d.year < 9998), st.integers(-1439, 1439))
def test_writing_and_reading_an_instant_are_inverse(naive: datetime, minutes: int) -> None:
    instant = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_instant(format_instant(instant)) == instant


def test_the_written_form_sorts_like_time_even_before_year_1000() -> None:
    assert format_instant(datetime(33, 4, 3, tzinfo=UTC)) == "0033-04-03T00:00:00.000000Z"


def test_a_naive_instant_is_never_written_or_pinned() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(InputError, match="without a zone"):
        format_instant(naive)
    with pytest.raises(InputError, match="without a zone"), pinned(naive):
        pass


def test_the_pinned_clock_stands_still_and_lets_go() -> None:
    instant = datetime(2030, 1, 1, tzinfo=UTC)
    with pinned(instant):
        assert now() == instant
    assert now() != instant


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("P1D", 86_400), ("PT6H", 21_600), ("P1W2DT3H4M5S", 788_645), ("PT0S", 0), ("PT1.5S", 1.5), ("P2W", 1_209_600)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("P1M", "years or months"),
        ("P1Y", "years or months"),
        ("P1Y2M3D", "years or months"),
        ("-P1D", "is not a duration"),
        ("P", "is not a duration"),
        ("PT", "is not a duration"),
        ("P1DT", "is not a duration"),
        ("1 day", "is not a duration"),
        ("P99999999999D", "longer than a duration"),
    ],
)
def test_a_bad_duration_is_refused_by_name(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=100_000)))
def test_writing_and_reading_a_duration_are_inverse(length: timedelta) -> None:
    assert parse_duration(format_duration(length)) == length


def test_ids_sort_by_the_time_they_were_made() -> None:
    ids = [new_id() for _ in range(1000)]
    assert sorted(ids) == ids
    assert len(set(ids)) == 1000

from __future__ import annotations

import pytest

from core.errors import PLACE, InputError, quoted, shortened


@pytest.mark.parametrize(("text", "limit", "short"), [("abcdefgh", 8, "abcdefgh"), ("abcdefghi", 8, "ab...hi")])
def test_a_long_text_loses_its_middle(text: str, limit: int, short: str) -> None:
    assert shortened(text, limit) == short
    assert len(short) <= limit


def test_what_an_error_quotes_and_where_it_points_have_a_length() -> None:
    assert quoted("") == "''"
    assert len(quoted("x" * 100_000)) == len(quoted(10**4000)) == 80
    longest = "/" + "x" * (PLACE - 1)
    assert InputError("No.", where=longest).where == longest
    error = InputError("No.", where=f"/begin{'x' * 100_000}end")
    assert (error.where or "")[:6] == "/begin"
    assert (error.where or "")[-3:] == "end"
    assert len(error.as_dict()["where"] or "") <= PLACE

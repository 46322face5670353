"""The project's own values as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cli import base
from core.cli.document import to_json


class Colour(StrEnum):
    RED = "red"


def test_a_document_takes_the_projects_own_values(tmp_path: Path) -> None:
    at = datetime(2026, 12, 1, 9, tzinfo=UTC)
    value = {
        "at": at,
        "path": tmp_path,
        "colour": Colour.RED,
        "nan": float("nan"),
        "rate": np.float64(0.5),
        "array": np.array([1.0, float("inf")]),
        "result": base.Result((1,), "t"),
        "set": {3, 1, 2},
        "text": "é",
    }
    assert json.loads(to_json(value)) == {
        "at": "2026-12-01T09:00:00.000000Z",
        "path": str(tmp_path),
        "colour": "red",
        "nan": None,
        "rate": 0.5,
        "array": [1.0, None],
        "result": {"document": [1], "text": "t", "exit_code": 0, "already_said": False},
        "set": [1, 2, 3],
        "text": "é",
    }


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_json_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(to_json(value)) == value


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json({"value": object()})

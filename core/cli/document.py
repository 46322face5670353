"""The one document of `--json`: plain JSON out of the project's own values.

Promise: instants are RFC 3339 in UTC, undefined numbers null, sets sorted. Refused: a value without a JSON form.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from core import clock


def to_json(document: Any) -> str:
    """Return a document as JSON text: instants as RFC 3339, undefined numbers as null."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int) and not isinstance(value, Enum):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k.value if isinstance(k, Enum) else k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, datetime):
        return clock.format_instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _plain(value.tolist())
    raise TypeError(f"{type(value).__name__} has no JSON form")

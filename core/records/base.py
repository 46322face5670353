"""What every noun shares: frozen, nothing extra, instants with a zone, texts that can be stored and shown.

No I/O. Validated at the edge, trusted inside.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from core.clock import format_instant, parse_instant
from core.errors import HIDDEN, DuebookError, InputError

EVENT_BYTES = 1_048_576
"""An event's text may be this long in UTF-8 (1 MiB)."""
TEXT_BYTES = 65_536
"""A condition, payload, note or reason may be this long in UTF-8."""
SHOWN = 60
"""A field's name that is longer than this is cut in an error."""
NAME_BYTES = 200
"""An id or a name given from outside may be this long in UTF-8."""


class Noun(BaseModel):
    """Base of all records: immutable, unknown keys refused, a sentence under every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("an instant needs an offset, like 2026-12-04T09:00:00Z")
        return value
    try:
        return parse_instant(value)
    except InputError as e:
        raise ValueError(e.message) from e


def text_problem(text: str, max_bytes: int = TEXT_BYTES) -> str | None:
    """Return why a text cannot be stored, or None: empty, NUL, not Unicode, too long."""
    if not text.strip():
        return "is empty"
    if "\x00" in text:
        return "holds a NUL character"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode (a lone surrogate)"
    if size > max_bytes:
        return f"is {size:,} bytes long; at most {max_bytes:,} are taken"
    return None


def _stored_text(max_bytes: int) -> AfterValidator:
    def check(value: str) -> str:
        if (problem := text_problem(value, max_bytes)) is not None:
            raise ValueError(f"the text {problem}")
        return value

    return AfterValidator(check)


def _name(value: str) -> str:
    problem = text_problem(value, NAME_BYTES)
    if problem is None and (hidden := HIDDEN.search(value)) is not None:
        problem = f"holds a hidden character (U+{ord(hidden[0]):04X})"
    if problem is not None:
        raise ValueError(f"the name {problem}")
    return value


Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    PlainSerializer(format_instant, return_type=str, when_used="json"),
]
"""An aware UTC instant, read and written as RFC 3339."""

Text = Annotated[str, _stored_text(TEXT_BYTES)]
"""A stored free text."""

EventText = Annotated[str, _stored_text(EVENT_BYTES)]
"""The text of an event."""

Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"minLength": 1})]
"""An id or a short name from outside: one readable line."""

ErrorT = TypeVar("ErrorT", bound=DuebookError)


_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "string_too_short": "is shorter than {min_length} characters",
    "string_too_long": "is longer than {max_length} characters",
    "string_type": "is not text",
    "string_unicode": "is not valid Unicode (a lone surrogate)",
    "string_pattern_mismatch": "does not have the form {pattern}",
    "enum": "is not one of {expected}",
    "literal_error": "is not {expected}",
    "bool_type": "is neither true nor false",
    "bool_parsing": "is neither true nor false",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "finite_number": "is not a finite number",
    "greater_than": "is not greater than {gt}",
    "greater_than_equal": "is less than {ge}",
    "less_than": "is not less than {lt}",
    "less_than_equal": "is greater than {le}",
    "list_type": "is not a list",
    "tuple_type": "is not a list",
    "too_short": "holds fewer than {min_length}",
    "too_long": "holds more than {max_length}",
    "dict_type": "is not an object",
    "model_type": "is not an object",
    "json_invalid": "is not JSON: {error}",
    "json_type": "is not JSON text",
}
"""What pydantic's kinds of error are called here: its own sentences speak to whoever wrote the model."""


def refusal(
    error: ValidationError, kind: type[ErrorT], where: str | None = None, next_step: str | None = None
) -> ErrorT:
    """Turn pydantic's error into one sentence that names each field and what is wrong with it."""
    parts = []
    for e in error.errors()[:5]:
        field = ".".join(_shortened(str(p)) for p in e["loc"])
        if words := _WORDS.get(e["type"]):
            parts.append(f"{field or 'it'} {words.format_map(e.get('ctx', {}))}")
        else:
            message = e["msg"].removeprefix("Value error, ").removesuffix(".")
            parts.append(f"{field}: {message}" if field else message)
    more = f"; and {error.error_count() - 5} more" if error.error_count() > 5 else ""
    return kind("; ".join(parts) + more + ".", where=where, next_step=next_step)


def _shortened(name: str) -> str:
    return name if len(name) <= SHOWN else f"{name[:SHOWN]}..."

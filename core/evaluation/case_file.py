"""Reading a case file: JSON Lines, one `Case` a line, split on line feeds only.

Promise: every line yields a case or the reason why it is none; lines keep their 1-based number.
Refused: a file over 50 MB, a line that is not UTF-8, not one JSON object, nested deeper than 64, with a key twice in
one object, with NaN or Infinity, or with a case id that an earlier line has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from core.errors import CaseError, InputError, quoted
from core.records.base import refusal
from core.records.case import Case

MAX_BYTES = 50 * 1024 * 1024
"""A case file may be this long."""
MAX_DEPTH = 64
"""Brackets within brackets."""
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)
"""An unterminated string runs to the end of the line in one match, so that the scan stays linear."""


@dataclass(frozen=True)
class BadLine:
    """A line that is not a case."""

    number: int
    """1-based."""
    reason: str
    """What is wrong with it, naming the field."""


def read_cases(path: Path) -> Iterator[tuple[int, Case | BadLine]]:
    """Yield (line number, case or bad line), in the file's order; blank lines are skipped.

    Raises
    ------
    InputError : the file is missing, no file, not readable, or too large.
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(_contents(path).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            case = parse_case(line)
        except CaseError as e:
            yield number, BadLine(number, e.message)
            continue
        if case.case_id in seen:
            yield (
                number,
                BadLine(number, f"case_id: {quoted(case.case_id)} stands in line {seen[case.case_id]} already."),
            )
            continue
        seen[case.case_id] = number
        yield number, case


def parse_case(line: bytes) -> Case:
    """Return the case one line holds.

    Raises
    ------
    CaseError : it holds none; the message names the field.
    """
    value = parse_json(line)
    if not isinstance(value, dict):
        raise CaseError("The line is not a JSON object.")
    try:
        return Case.model_validate(value)
    except ValidationError as e:
        raise refusal(e, CaseError) from e


def parse_json(line: bytes) -> Any:
    """Parse one strict JSON value.

    Raises
    ------
    CaseError : not UTF-8, not JSON, too deep, a key twice, NaN or Infinity, text that is no Unicode.
    """
    try:
        text = line.decode()
        if _depth(text) > MAX_DEPTH:
            raise CaseError(f"The line nests deeper than {MAX_DEPTH} brackets.")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        if "\\u" in text:  # the only way to write a lone surrogate in valid UTF-8
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as e:
        raise CaseError(f"The line is not UTF-8 (byte {e.start + 1}).") from e
    except UnicodeEncodeError as e:
        raise CaseError("The line holds text that is not valid Unicode (a lone surrogate).") from e
    except json.JSONDecodeError as e:
        raise CaseError(f"The line is not JSON: {e.msg} at column {e.colno}.") from e
    except ValueError as e:  # an integer of more digits than Python converts
        raise CaseError("The line holds a number that is too long.") from e
    return value


def _contents(path: Path) -> bytes:
    if path.exists() and not path.is_file():  # a pipe would wait for ever
        raise InputError("The case file is not a regular file.", where=str(path), next_step="Name a JSON Lines file.")
    try:
        with path.open("rb") as f:
            raw = f.read(MAX_BYTES + 1)
    except FileNotFoundError as e:
        raise InputError("There is no such case file.", where=str(path), next_step="Check the path.") from e
    except OSError as e:
        raise InputError(f"The case file cannot be read: {e.strerror}.", where=str(path)) from e
    if len(raw) > MAX_BYTES:
        raise InputError(
            f"The case file is larger than {MAX_BYTES // 1024**2} MB.", where=str(path), next_step="Split the file."
        )
    return raw.removeprefix(b"\xef\xbb\xbf")  # some editors put a byte order mark first


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        first = match.group()[0]
        if first in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in "]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CaseError(f"The key {quoted(twice)} stands twice in one object.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise CaseError(f"The line holds {name}, which is not JSON.")

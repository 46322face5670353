"""Renders the exact prompt bytes: the model's chat template around one user message. No torch, no tokenizer.

Promise: equal texts give equal bytes. An event beyond `EVENT_BYTES` keeps its head and its tail, memory beyond
`MEMORY_BYTES` keeps its first lines, and both are said in `Rendered`; a token is at least one byte for every tokenizer
that works on bytes, so the byte budgets bound the tokens. Control tokens written in user text are broken up by a space.
Refused: text that is not Unicode, and templates that need what we do not give (today's date, tools).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from core.backbone.identity import chat_template, read_json, special_tokens
from core.errors import InputError, ModelError

EVENT_BYTES = 2048
"""An event's text up to this many UTF-8 bytes is given whole (about 500 English tokens, never more than 2,048)."""
MEMORY_BYTES = 2048
"""Memory lines together take at most this many UTF-8 bytes; later lines are left out and counted."""
LINE_BYTES = 512
"""One memory line keeps its head and tail beyond this."""
CUT = " [...] "

ASK = "Reply with the one action to take now, or the word none."


@dataclass(frozen=True)
class Rendered:
    """A prompt, and what had to be done to the texts to make it."""

    prompt: bytes
    event_cut: bool
    """The middle of the event's text was left out."""
    lines_cut: int
    """How many of the memory lines given lost their middle."""
    memory_left_out: int
    """How many memory lines did not fit."""
    control_tokens: int
    """How many control tokens were written in the texts and broken up."""


class _Generation(Extension):
    """The `{% generation %}` block of chat templates marks text for training; here it only passes through."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


class Renderer:
    """The chat template of one model folder, compiled once.

    Parameters
    ----------
    folder : where the chat template, tokenizer.json and tokenizer_config.json lie.

    Raises
    ------
    ModelError : there is no template, or it is not one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        try:
            self._template = environment.from_string(chat_template(folder))
        except jinja2.TemplateError as e:
            raise ModelError(f"The chat template cannot be read: {e}.", where=str(folder)) from e
        named = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
        self._tokens = {
            key: value["content"] if isinstance(value, dict) else value
            for key, value in named.items()
            if key.endswith("_token") and isinstance(value, str | dict)
        }
        control = special_tokens(folder)
        self._control = re.compile("|".join(re.escape(t) for t in sorted(control, key=len, reverse=True)) or r"(?!)")

    def render(self, event_text: str, memory: Sequence[str] = ()) -> Rendered:
        """Return the prompt for one event, with the memory lines an arm exposes.

        Raises
        ------
        InputError : a text is not valid Unicode.
        ModelError : the template refuses the message.
        """
        event, event_cut = _fit(event_text, EVENT_BYTES)
        lines, lines_cut, left_out = _fit_lines(memory)
        event, broken = self._as_data(event)
        parts = []
        if memory:
            block, more = self._as_data("\n".join(f"- {line}" for line in lines))
            broken += more
            note = f"\n- ({left_out} more left out)" if left_out else ""
            parts.append(f"Stored actions:\n{block}{note}\n\n")
        message = "".join([*parts, f"Event: {event}\n", ASK])
        try:
            text = self._template.render(
                messages=[{"role": "user", "content": message}],
                add_generation_prompt=True,
                tools=None,
                documents=None,
                **self._tokens,
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError) as e:
            raise ModelError(f"The chat template refuses a user message: {e}.", where=str(self.folder)) from e
        return Rendered(text.encode(), event_cut, lines_cut, left_out, broken)

    def _as_data(self, text: str) -> tuple[str, int]:
        """Break up control tokens: `<|im_end|>` in an event must not end the message."""
        broken = 0
        while True:
            text, n = self._control.subn(lambda m: f"{m[0][0]} {m[0][1:]}", text)
            if n == 0:
                return text, broken
            broken += n


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise InputError("The text is not valid Unicode (a lone surrogate).") from e


def _fit(text: str, limit: int) -> tuple[str, bool]:
    """Keep three quarters of the bytes from the head and one quarter from the tail of a text that is too long."""
    data = _encode(text)
    if len(data) <= limit:
        return text, False
    tail = limit // 4
    head = limit - tail
    # A character on an edge is dropped whole.
    return data[:head].decode(errors="ignore") + CUT + data[-tail:].decode(errors="ignore"), True


def _fit_lines(memory: Sequence[str]) -> tuple[list[str], int, int]:
    kept: list[str] = []
    used = cuts = 0
    for line in memory:
        flat, cut = _fit(" ".join(line.split()), LINE_BYTES)
        used += len(_encode(flat)) + 3
        if used > MEMORY_BYTES:
            break
        kept.append(flat)
        cuts += cut
    return kept, cuts, len(memory) - len(kept)

"""The command line's grammar: `--home` and `--json` at every level, refusals in Duebook's own sentences.

Promise: nothing is printed and nothing exits; help is an answer, and a line that is not understood an error that names
what is allowed.
"""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from core.errors import InputError


def cut(text: str, limit: int = 60) -> str:
    """Return the text, cut where it is long: what was mistyped is recognised by its beginning."""
    return text if len(text) <= limit else f"{text[:limit]}..."


class UsageRefused(InputError):
    """The command line itself cannot be understood."""

    code = "usage"


class Answered(Exception):
    """The command line asked for help or the version: nothing is run."""

    def __init__(self, document: dict[str, str], text: str) -> None:
        super().__init__(text)
        self.document = document
        self.text = text


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose every level takes `--home` and `--json`, and whose errors are Duebook's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)  # a later option must not change what an abbreviation means
        super().__init__(*args, **kwargs)
        # SUPPRESS: a level that was not given the option must not overwrite the level that was.
        self.add_argument("--home", metavar="DIR", default=argparse.SUPPRESS, help="the workspace folder")
        self.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="exactly one JSON document on stdout"
        )

    def print_help(self, file: Any = None) -> None:
        """Answer with the help, as text or as a document.

        Raises
        ------
        Answered : always.
        """
        text = self.format_help().rstrip()
        raise Answered({"help": text}, text)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing usage and exiting.

        Raises
        ------
        UsageRefused : always.
        """
        message = re.sub(r"invalid int value: (.*)", r"\1 is not a whole number", message, flags=re.S)
        known = [
            f"{a.metavar} is one of {', '.join(map(str, a.choices))}."
            for a in self._actions
            if a.choices and a.metavar and not a.option_strings and message.startswith("the following arguments")
        ]
        raise UsageRefused(
            f"{self.prog}: {cut(message, 400)}.", next_step=" ".join([*known, f"See `{self.prog} --help`."])
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse's own sentence shows the choices as Python values, and differently from version to version.
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"{cut(repr(value))} is not one of {known}")

    def innermost(self, args: argparse.Namespace) -> CommandParser:
        """Return the parser of the command that was named: this one, or one below it."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and (name := getattr(args, action.dest, None)):
                below: CommandParser = action.choices[name]
                return below.innermost(args)
        return self

    def options(self) -> list[str]:
        """Return the options it takes, as they are written."""
        return [o for a in self._actions for o in a.option_strings if o.startswith("--")]

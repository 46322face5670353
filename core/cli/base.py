"""What all commands share: finding the command, `--home` and `--json`, one result out, one sentence for an error.

A group is a module `core.cli.<name>` with `register(subparsers)`, which adds its parsers and sets their handler with
`parser.set_defaults(run=handler)` (left out, it is the module's `run`); a handler is `run(args, config) -> Result`.
Only the group that was called is imported, so that a light command does not pay for a heavy one.

Promise: with `--json` standard output carries exactly one JSON document, whatever happens, for `--help` and `--version`
too; progress goes to standard error. Exit 0 ok, 1 a check failed or an act was refused, 2 bad input or a missing
package, 130 stopped by the user. Only `prepare`, `up` and `evaluate` make a workspace; where there is none, any other
command that needs one says so and leaves the folder as it is. Characters that a terminal would obey are written as
their number, in JSON too. No traceback reaches the terminal: an unexpected error is written to a log in the workspace,
and its path is said.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import importlib
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn, TextIO

from core import clock
from core import config as configuration
from core.acts.prepared import is_prepared
from core.cli.document import to_json
from core.cli.parser import Answered, CommandParser, UsageRefused, cut
from core.config import Config
from core.errors import ConfigError, DuebookError, InputError, MissingPackage, spelled
from core.ledger.lost import refuse_lost

Handler = Callable[[argparse.Namespace, Config], "Result"]
Subparsers = Any
"""`argparse`'s action that `add_subparsers` returns; its class is private there."""

INTERRUPTED = 130

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
SYSTEM_REFUSALS = DISK_FULL | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG}
"""What the system says about a place, not about our code."""


@dataclass(frozen=True)
class Result:
    """What a command answers: the document for `--json`, the text for a terminal, the exit code."""

    document: Any
    text: str
    exit_code: int = 0
    already_said: bool = False
    """The handler has answered through `args.say_now` (a command that stays, like `up`); print nothing more."""


class Needs(Enum):
    """What a command needs of the workspace before it runs."""

    NOTHING = "nothing"
    WORKSPACE = "workspace"
    """One that is there; it is completed where this checkout ships more than it holds, and never made."""
    ANY = "any"
    """One that is there or is made now."""


@dataclass(frozen=True)
class Group:
    """A command group: its one-line help, and what it needs.

    A part of a group that needs something else says so with `parser.set_defaults(needs=...)`.
    """

    help: str
    needs: Needs = Needs.NOTHING


GROUPS: Mapping[str, Group] = {
    "up": Group("the console in a browser, on this machine only", needs=Needs.ANY),
    "prepare": Group("make a workspace, with the shipped evidence in it"),
    "doctor": Group("versions, device, store; what is missing and how to get it"),
    "evaluate": Group("run an experiment; resumable", needs=Needs.ANY),
    "evidence": Group("verify, freeze or amend evidence", needs=Needs.WORKSPACE),
    "criteria": Group("the frozen criteria of a contract against a run", needs=Needs.WORKSPACE),
    "claims": Group("what is established, rejected, not tested", needs=Needs.WORKSPACE),
    "score": Group("score a case file with a trigger"),
    "triggers": Group("the triggers that are installed"),
    "ledger": Group("verify the ledger, or take its head", needs=Needs.WORKSPACE),
    "annotate": Group("label a trace, case, run or record", needs=Needs.WORKSPACE),
    "export": Group("write what a filter selects to a file", needs=Needs.WORKSPACE),
    "sql": Group("one SELECT over the views", needs=Needs.WORKSPACE),
}


class Interrupted(DuebookError):
    """The user stopped the command."""

    code = "interrupted"


class Unexpected(DuebookError):
    """An error that nobody foresaw; its traceback lies in a log."""

    code = "unexpected"


class SystemRefused(DuebookError):
    """A file may not be read or written, or the disk is full."""

    code = "system"


def progress(text: str) -> None:
    """Say a line of progress on standard error."""
    print(spelled(text, keep="\n\t"), file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    Parameters
    ----------
    argv : the arguments after `python -m core`.
    """
    _make_streams_lossless()
    as_json = "--json" in argv
    home: Path | None = None
    try:
        args = _parse(argv)
        as_json = getattr(args, "json", False)
        config = configuration.load(getattr(args, "home", None))
        home = config.home
        out = sys.stdout
        args.say_now = lambda early: _answer(to_json(early.document) if as_json else early.text, early.exit_code, out)
        # A library that prints must not spoil the one document.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            make_ready(config, getattr(args, "needs", GROUPS[args.command].needs))
            result: Result = args.run(args, config)
    except Answered as e:
        result = Result(e.document, e.text)
    except KeyboardInterrupt:
        return _fail(Interrupted("Stopped before the end."), as_json, INTERRUPTED)
    except BrokenPipeError:
        return _leave_pipe(0)
    except DuebookError as e:
        return _fail(e, as_json, e.exit_code)
    except ModuleNotFoundError as e:
        return _fail(_missing(e), as_json, MissingPackage.exit_code)
    except OSError as e:
        refused = _refused_by_the_system(e) or _unexpected(e, home)
        return _fail(refused, as_json, 2)
    except UnicodeEncodeError as e:
        not_text = any("\udc80" <= c <= "\udcff" for c in " ".join(argv))
        return _fail(InputError("An argument is not valid UTF-8.") if not_text else _unexpected(e, home), as_json, 2)
    except Exception as e:  # the last door: whatever it is, the user gets a sentence and the operator a log
        return _fail(_unexpected(e, home), as_json, 2)
    if result.already_said:
        return result.exit_code
    return _answer(to_json(result.document) if as_json else result.text, result.exit_code)


def build_parser(only: str | None) -> CommandParser:
    """Return the parser; `only` names the group to import, the others are listed by name and help alone."""
    parser = CommandParser(prog="python -m core", description="Duebook from a shell.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, group in GROUPS.items():
        if name != only:
            subparsers.add_parser(name, help=group.help)
            continue
        module = _import_group(name)
        module.register(subparsers)
        group_parser = subparsers.choices[name]
        if group_parser.get_default("run") is None and hasattr(module, "run"):
            group_parser.set_defaults(run=module.run)
    return parser


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    name = _command_word(argv)
    if name is not None and name not in GROUPS:
        near = difflib.get_close_matches(name, GROUPS, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Commands: {', '.join(GROUPS)}."
        raise UsageRefused(f"There is no command {cut(repr(name))}.", next_step=hint)
    parser = build_parser(name)
    if name is None and not {"-h", "--help", "--version"} & set(argv):
        raise UsageRefused("No command was named.", next_step=f"Commands: {', '.join(GROUPS)}.")
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        called = parser.innermost(args)
        is_option = unknown[0].startswith("-")
        raise UsageRefused(
            f"{called.prog}: there is no {'option' if is_option else 'further argument'} {cut(repr(unknown[0]))}.",
            next_step=f"Options: {', '.join(called.options())}." if is_option else f"See `{called.prog} --help`.",
        )
    return args


def _command_word(argv: Sequence[str]) -> str | None:
    """Return the first word that is neither an option nor the value of `--home`."""
    words = iter(argv)
    for word in words:
        if word == "--home":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _import_group(name: str) -> Any:
    module_name = f"core.cli.{name}"
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name != module_name:
            raise
        raise InputError(f"The command `{name}` is not part of this version.") from e


def make_ready(config: Config, needs: Needs) -> None:
    """Complete the workspace where it is incomplete; make it where it is missing and the command may.

    Raises
    ------
    ConfigError : there is no workspace, and the command makes none.
    """
    if needs is Needs.NOTHING or is_prepared(config):
        return
    if needs is Needs.WORKSPACE:
        refuse_missing(config)
    from core.acts.prepare import prepare  # here, not above: a light command does not pay for the store

    prepare(config, report=progress)


def refuse_missing(config: Config) -> None:
    """Do nothing where there is a workspace.

    Raises
    ------
    ConfigError : there is none.
    StoreLost : there was one, and its store is gone.
    """
    refuse_lost(config)
    if not config.store.exists():
        raise ConfigError(
            "There is no workspace here.",
            where=str(config.home),
            next_step="Check --home, or make one with `python -m core prepare`.",
        )


class _Version(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        version = _version()
        raise Answered({"version": version}, f"duebook {version}")


def _version() -> str:
    import tomllib

    with (configuration.ROOT / "pyproject.toml").open("rb") as f:
        return str(tomllib.load(f)["project"]["version"])


def _answer(text: str, exit_code: int, out: TextIO | None = None) -> int:
    try:
        if text:
            print(spelled(text, keep="\n\t"), file=out or sys.stdout)
        (out or sys.stdout).flush()
    except BrokenPipeError:  # the reader (`head`) had enough; the command did its work
        return _leave_pipe(exit_code)
    return exit_code


def _leave_pipe(exit_code: int) -> int:
    # Python flushes standard output once more at exit; give it somewhere to go.
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_code


def _fail(error: DuebookError, as_json: bool, exit_code: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        print(str(error), file=sys.stderr, flush=True)
    if not as_json:
        return exit_code
    return _answer(to_json({"error": error.as_dict()}), exit_code)


def _missing(error: ModuleNotFoundError) -> DuebookError:
    name = (error.name or str(error)).partition(".")[0]
    return MissingPackage(
        f"The package `{name}` is not installed.",
        where=name,
        next_step="Run `make install`, then `python -m core doctor`.",
    )


def _refused_by_the_system(error: OSError) -> DuebookError | None:
    """Return the sentence for a file or disk that the system refuses: nothing to report, something to put right."""
    if error.errno not in SYSTEM_REFUSALS or error.filename is None and error.errno not in DISK_FULL:
        return None
    full = error.errno in DISK_FULL
    return SystemRefused(
        f"The system refused: {error.strerror}.",
        where=None if error.filename is None else str(error.filename),
        next_step="Free some space and do it again." if full else "Get the right to it, or name another place.",
    )


def _unexpected(error: Exception, home: Path | None) -> DuebookError:
    text = "".join(traceback.format_exception(error))
    name = f"error-{clock.now():%Y%m%dT%H%M%S%f}-{os.getpid()}.log"
    # A workspace that does not exist is not made for the sake of a log.
    for folder in (*([home / "logs"] if home is not None and home.is_dir() else []), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            path = folder / name
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return Unexpected(
            f"Something went wrong that Duebook did not expect: {type(error).__name__}.",
            where=str(path),
            next_step="The file holds the details; please report it.",
        )
    return Unexpected(f"Something went wrong that Duebook did not expect: {error!r}.")


def _make_streams_lossless() -> None:
    """Write UTF-8 whatever the locale says, and escape what UTF-8 cannot hold: no text may end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")

"""`doctor`: what is here, what is missing, and how to get it. Works without torch, without a workspace, and offline.

Each line is *ok*, *warn* (something cannot be done here) or *fail* (something that should work does not); exit 1 when a
line is *fail*. It repairs nothing and makes nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from core.acts import prepared
from core.cli.base import Result, Subparsers
from core.cli.up import running_at
from core.config import ROOT, Config
from core.errors import DuebookError
from core.ledger.lost import refuse_lost

BASE = ("requirements.txt",)
MODELS = ("requirements-models.txt", "requirements-nodeps.txt")
TORCH = "torch==2.13.0"
NEEDED_BYTES = 1_000_000_000
CHECKED_LATER = "its weights are checked when they are first read, not here"
"""What is recorded is a hash over the tensors, which takes reading all 538 MB of them as a model does."""
SUPPORTED = ((3, 11), (3, 13))


class State(StrEnum):
    """How a line stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Line:
    """One thing looked at."""

    name: str
    state: State
    text: str
    """What was found."""
    next: str | None = None
    """What to do about it."""


def register(subparsers: Subparsers) -> None:
    """Add `doctor`."""
    subparsers.add_parser("doctor", help="versions, device, store; what is missing and how to get it").set_defaults(
        run=run
    )


def run(args: argparse.Namespace, config: Config) -> Result:
    """Look at everything; one failing look does not stop the others."""
    lines = [line for look in LOOKS for line in _looked(look, config)]
    worst = max((line.state for line in lines), key=[*State].index)
    text = "\n".join(
        f"{line.state:<5}{line.name}: {line.text}" + (f" {line.next}" if line.next else "") for line in lines
    )
    return Result({"state": worst, "lines": lines}, text, 1 if worst is State.FAIL else 0)


def _looked(look: Callable[[Config], Iterator[Line]], config: Config) -> Iterator[Line]:
    name = look.__name__.removeprefix("_")
    try:
        yield from look(config)
    except DuebookError as e:
        yield Line(name, State.FAIL, f"{e.message}" + (f" ({e.where})" if e.where else ""), e.next_step)
    except ModuleNotFoundError as e:
        yield Line(name, State.FAIL, f"The package `{e.name}` is not installed.", "Run `make install`.")


def _python(config: Config) -> Iterator[Line]:
    here = sys.version_info[:2]
    supported = SUPPORTED[0] <= here <= SUPPORTED[1]
    text = f"{sys.version.split()[0]} at {sys.executable}, SQLite {sqlite3.sqlite_version}"
    yield Line(
        "python",
        State.OK if supported else State.FAIL,
        text,
        None if supported else "Use Python 3.11, 3.12 or 3.13.",
    )


def _packages(config: Config) -> Iterator[Line]:
    missing, other, found = _compare(BASE)
    if missing:
        yield Line("console packages", State.FAIL, f"missing: {', '.join(missing)}.", "Run `make install`.")
    elif other:
        yield Line(
            "console packages", State.WARN, f"not the pinned versions: {'; '.join(other)}.", "Run `make install`."
        )
    else:
        yield Line("console packages", State.OK, ", ".join(found))
    missing, other, found = _compare(MODELS, extra=(TORCH,))
    if missing:
        text = f"missing: {', '.join(missing)}. The console works; the language model cannot be asked."
        yield Line("model packages", State.WARN, text, "Run `make models`.")
    elif other:
        yield Line("model packages", State.WARN, f"not the pinned versions: {'; '.join(other)}.", "Run `make models`.")
    else:
        yield Line("model packages", State.OK, ", ".join(found))


def _device(config: Config) -> Iterator[Line]:
    try:
        from core.triggers.device import pick

        yield Line("device", State.OK, f"{pick(config.device)} (asked for: {config.device})")
    except DuebookError as e:
        yield Line("device", State.WARN, e.message, e.next_step)


def _triggers(config: Config) -> Iterator[Line]:
    from core.triggers.registry import installed

    for info in installed():
        if info.available:
            weights = f", weights {info.weights_sha256[:12]} match the lock" if info.weights_sha256 else ""
            yield Line(f"trigger {info.name}", State.OK, f"threshold {info.threshold:g}{weights}")
        else:
            yield Line(f"trigger {info.name}", State.FAIL, info.why_not or "not available")


def _backbone(config: Config) -> Iterator[Line]:
    from core.backbone import convert, package
    from core.backbone.load import PACKAGED

    if config.backbone != PACKAGED:
        yield Line("backbone", State.OK, f"{config.backbone}, read from the hub's cache when it is first asked")
    elif (folder := convert.folder_of(config.cache)).exists():
        name = convert.prepare(config.cache).identity.name  # there already: reads and checks, converts nothing
        yield Line("backbone", State.OK, f"{name}, converted in {folder}; {CHECKED_LATER}")
    else:
        try:
            package.find()
        except DuebookError as e:
            yield Line("backbone", State.WARN, e.message, "Run `make models`, then `python -m core prepare`.")
        else:
            yield Line("backbone", State.WARN, "not converted yet.", "Run `python -m core prepare`.")


def _workspace(config: Config) -> Iterator[Line]:
    home = config.home
    refuse_lost(config)
    if not config.store.exists():
        yield Line(
            "workspace", State.WARN, f"{home} holds no store yet.", "Check --home, or run `python -m core prepare`."
        )
        return
    mode = home.stat().st_mode & 0o777
    if mode & 0o077:
        yield Line(
            "workspace", State.WARN, f"{home} can be read by others (mode {mode:o}).", f"Run `chmod 700 {home}`."
        )
    from core.ledger.ledger import verify
    from core.ledger.store import open_workspace
    from core.views.segments import verify_files

    with open_workspace(config) as store:
        report = verify(store)
        text = f"{home}, class {store.workspace_class}, {report.count:,} ledger entries"
    if report.ok:
        yield Line("workspace", State.OK, f"{text}, verified")
    else:
        yield Line(
            "workspace", State.FAIL, f"{text}. {report.findings[0].sentence}", "Run `python -m core ledger verify`."
        )
    files = verify_files(config)
    if files.problems:
        bad = f"{len(files.problems):,} of {files.listed:,} listed files do not verify. {files.problems[0]}"
        yield Line("trace files", State.FAIL, bad, "Run `python -m core ledger verify` for all, and restore them.")
    else:
        yield Line("trace files", State.OK, f"{files.listed:,} listed, all as listed")
    if not prepared.is_prepared(config):
        yield Line("workspace", State.WARN, "not all shipped runs are in it.", "Run `python -m core prepare`.")


def _evidence(config: Config) -> Iterator[Line]:
    from core.acts.prepare import damaged_files
    from core.ledger.evidence_ledger import EvidenceLedger
    from core.ledger.kinds import EntryKind

    restore = "Restore data/evidence from the release."
    ledger = EvidenceLedger(prepared.EVIDENCE)
    report = ledger.verify()
    if not report.ok:
        yield Line("evidence ledger", State.FAIL, report.findings[0].sentence, restore)
        return
    yield Line("evidence ledger", State.OK, f"{report.count:,} entries, verified")
    shipped = [body for entry, body in ledger.entries() if entry.kind == EntryKind.RUN_SHIPPED]
    if not shipped:
        yield Line("shipped evidence", State.WARN, "no run was shipped.")
    for run in shipped:
        name = f"shipped run {run['run_id']}"
        if damaged := damaged_files(prepared.EVIDENCE / "runs" / run["run_id"], run["files"]):
            yield Line(name, State.FAIL, f"missing or not as shipped: {', '.join(damaged)}.", restore)
        else:
            yield Line(name, State.OK, f"{run['run_kind']}, {run['rows']:,} executions, files as shipped")


def _console(config: Config) -> Iterator[Line]:
    address = running_at(config.home)
    if address is None:
        yield Line("console", State.OK, "not running, no scheduler yet. `python -m core up` starts the console.")
    else:
        yield Line("console", State.OK, f"open at {address}, no scheduler yet")


def _disk(config: Config) -> Iterator[Line]:
    folder = next(p for p in (config.home, *config.home.parents) if p.exists())
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free at {folder}"
    if free < NEEDED_BYTES:
        yield Line("disk", State.WARN, f"{text}.", "Less than 1 GB: a full run may not fit.")
    else:
        yield Line("disk", State.OK, text)


LOOKS: tuple[Callable[[Config], Iterator[Line]], ...] = (
    _python,
    _packages,
    _device,
    _triggers,
    _backbone,
    _workspace,
    _evidence,
    _console,
    _disk,
)


def _compare(files: tuple[str, ...], extra: tuple[str, ...] = ()) -> tuple[list[str], list[str], list[str]]:
    """Return the pinned packages that are missing, those of another version, and those that are right."""
    missing, other, found = [], [], []
    for name, pinned in [*_pins(extra), *(pin for file in files for pin in _pins(_read(ROOT / file)))]:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"{name} {pinned}")
            continue
        if version.partition("+")[0] == pinned:
            found.append(f"{name} {version}")
        else:
            other.append(f"{name} {version}, pinned {pinned}")
    return missing, other, found


def _read(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").splitlines())


def _pins(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if m := re.match(r"([A-Za-z0-9._-]+)==([^\s;#]+)", line):
            yield m[1], m[2]

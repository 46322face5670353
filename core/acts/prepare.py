"""Makes a workspace: its folder, its store, and the project's shipped evidence in it.

Promise: done twice it changes nothing, killed in the middle it is finished by the next time; shipped files are taken
over only when the evidence ledger names them with their hash. Refused: a folder that holds other things; making a
user's workspace anew; making one anew while its console or an evaluation runs; a workspace whose store is lost.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.acts import prepared
from core.acts.prepared import PREPARED
from core.backbone.base import State
from core.backbone.load import load
from core.config import Config
from core.errors import ConfigError, DuebookError, EvidenceMissing, quoted
from core.evaluation.run_files import EVALUATION_LOCK, list_parts, read_manifest, read_parts
from core.files import open_lock
from core.hashing import sha256_file
from core.ledger.chain import Entry
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind
from core.ledger.lost import StoreLost, read_mark, refuse_lost
from core.ledger.run_store import amend_run, get_run, register_run
from core.ledger.store import Store, open_workspace
from core.records.run import RunStatus
from core.traces.writer import partition

DEMO_NAME = "workspace-demo"
"""A workspace of this name is a demo one, also when a command made it without being asked."""
OWN_NAMES = frozenset(
    {
        *(f"store.sqlite{end}" for end in ("", "-wal", "-shm", "-journal")),
        *(PREPARED, "console.json", "console.lock", "prepare.lock", "traces", "logs", "work"),
    }
)
"""What Duebook itself puts into a workspace."""

Report = Callable[[str], None]


class PrepareRefused(DuebookError):
    """The workspace is not one that may be made, or made anew."""

    code = "prepare_refused"
    exit_code = 1


@dataclass(frozen=True)
class Prepared:
    """What `prepare` did."""

    home: Path
    """The workspace."""
    workspace_class: str
    """`demo` or `user`, as its first ledger entry says."""
    runs: tuple[str, ...]
    """The shipped runs that stand in it."""
    added: tuple[str, ...]
    """Those that were added now."""
    backbone: str | None
    """Name of the backbone that is ready; None where it was not asked for or failed."""
    backbone_failure: str | None
    """Why the backbone is not ready, in a sentence."""


def prepare(
    config: Config, *, demo: bool = False, force: bool = False, models: bool = False, report: Report = lambda _: None
) -> Prepared:
    """Make the workspace, or complete it.

    Parameters
    ----------
    demo : make it of class demo where it does not exist yet.
    force : make a demo workspace anew; everything in it is lost.
    models : convert the frozen backbone too; when that fails, everything else stands.
    report : told each step in words.

    Raises
    ------
    PrepareRefused : see the module's refusals.
    StoreLost : the workspace was made before and its store is gone; only a demo is then made anew, by force.
    EvidenceMissing : a shipped file is missing or not the one that was shipped.
    StoreError, ConfigError : the store or the folder cannot be used.
    """
    demo = demo or config.home.name == DEMO_NAME
    _check_folder(config.home)
    _make_folder(config.home)
    with _one_at_a_time(config.home):
        return _prepare(config, demo, force, models, report)


def _prepare(config: Config, demo: bool, force: bool, models: bool, report: Report) -> Prepared:
    if force:
        _remove(config)
    demo = demo or prepared.being_made_anew(config.home)
    with open_workspace(config, create=True, workspace_class="demo" if demo else "user") as store:
        if demo and store.workspace_class != "demo":
            raise PrepareRefused(
                "This is a user's workspace; it cannot become a demo.",
                where=str(config.home),
                next_step="Give another folder with --home.",
            )
        head = prepared.evidence_head()
        entries = EvidenceLedger(prepared.EVIDENCE).entries()
        shipped = _current(entries)
        added = tuple(body["run_id"] for body in shipped if _take_over(config, store, body, report))
        for entry, body in entries:
            if entry.kind == EntryKind.RUN_AMENDED:
                _mark_amended(store, body)
        workspace_class = store.workspace_class
    runs = tuple(body["run_id"] for body in shipped)
    prepared.mark_prepared(config.home, head, runs, workspace_class)
    name, failure = _convert_backbone(config, report) if models else (None, None)
    return Prepared(config.home, workspace_class, runs, added, name, failure)


def _current(entries: Sequence[tuple[Entry, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the newest shipped run of each kind, and both runs of every amendment; older ones stay in the evidence."""
    shipped = [body for entry, body in entries if entry.kind == EntryKind.RUN_SHIPPED]
    kept = {body["run_kind"]: body["run_id"] for body in shipped}.values()  # a later one takes the earlier one's place
    amended = [body for entry, body in entries if entry.kind == EntryKind.RUN_AMENDED]
    named = {*kept, *(body[name] for body in amended for name in ("run_id", "replaced_by"))}
    return [body for body in shipped if body["run_id"] in named]


def _take_over(config: Config, store: Store, shipped: dict[str, Any], report: Report) -> bool:
    """Copy a shipped run's files, register it and list its parts; returns False where it stood there already."""
    run_id = str(shipped["run_id"])
    with store.read() as conn:
        if get_run(conn, run_id) is not None:
            return False
    report(f"Taking over the shipped run {run_id} ({shipped['run_kind']}, {shipped['rows']:,} executions) ...")
    source = prepared.EVIDENCE / "runs" / run_id
    _check_files(source, shipped["files"])
    manifest = read_manifest(source)
    target = partition(config.traces, manifest.evidence_class, run_id)
    for file in sorted(p for p in source.iterdir() if p.is_file()):
        _copy(file, target / file.name)
    with store.write() as tx:
        register_run(tx, manifest)
        list_parts(tx, config.home, target, read_parts(source).values(), manifest)
    return True


def damaged_files(run: Path, files: Mapping[str, str]) -> list[str]:
    """Return the names of a shipped run's files that are missing or not those that its ledger entry names.

    Parameters
    ----------
    run : the run's folder.
    files : the entry's files, path -> SHA-256; those of other folders are left out.
    """
    own = {Path(path).name: digest for path, digest in files.items() if Path(path).parent.name == run.name}
    return [n for n, digest in sorted(own.items()) if not (run / n).is_file() or sha256_file(run / n) != digest]


def _check_files(run: Path, files: Mapping[str, str]) -> None:
    if damaged := damaged_files(run, files):
        raise EvidenceMissing(
            f"A file of a shipped run is missing or not the one that was shipped: {', '.join(damaged)}.",
            where=str(run),
            next_step="Restore data/evidence from the release.",
        )


def _mark_amended(store: Store, amended: dict[str, Any]) -> None:
    """Mark a shipped run as replaced, where both runs stand in the workspace and it is not marked yet."""
    with store.read() as conn:
        old, new = (get_run(conn, amended[name]) for name in ("run_id", "replaced_by"))
    if old is not None and new is not None and old.status is not RunStatus.AMENDED:
        with store.write() as tx:
            amend_run(tx, old.run_id, new.run_id, amended["reason"] or "amended")


def _copy(source: Path, target: Path) -> Path:
    """Copy a file whole or not at all; one that is there with the same bytes stays."""
    if target.is_file() and sha256_file(target) == sha256_file(source):
        return target
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")  # what a killed copy left is overwritten
        with source.open("rb") as read, temporary.open("wb") as written:
            shutil.copyfileobj(read, written)
            written.flush()
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as e:
        raise ConfigError(
            f"The workspace cannot take over the shipped evidence: {e.strerror or e}.",
            where=str(target),
            next_step="Free some space, or give another folder with --home.",
        ) from e
    return target


def _check_folder(home: Path) -> None:
    if not home.exists() or (home / "store.sqlite").exists():
        return
    foreign = sorted(p.name for p in home.iterdir() if p.name not in OWN_NAMES)
    if foreign:
        raise PrepareRefused(
            f"The folder is not empty and holds no workspace (it has {quoted(foreign[0])}).",
            where=str(home),
            next_step="Give an empty or a new folder with --home.",
        )


def _make_folder(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(home.iterdir()):
            home.chmod(0o700)  # an empty folder that somebody made for us
    except OSError as e:
        raise ConfigError(
            f"The workspace cannot be made: {e.strerror or e}.",
            where=str(home),
            next_step="Give another folder with --home.",
        ) from e


def _remove(config: Config) -> None:
    """Remove what a demo workspace holds.

    Raises
    ------
    PrepareRefused : it is a user's, or its console or an evaluation runs.
    StoreLost : its store is lost and nothing says that it was a demo.
    """
    try:
        refuse_lost(config)
        if config.store.exists():
            with open_workspace(config, create=True, workspace_class="demo") as store:
                workspace_class = store.workspace_class
        elif prepared.being_made_anew(config.home):
            workspace_class = "demo"
        else:
            return
    except StoreLost:
        if (workspace_class := read_mark(config.home).get("workspace_class", "")) not in ("demo", "user"):
            raise
    if workspace_class != "demo":
        raise PrepareRefused(
            "This is a user's workspace; it is never made anew.",
            where=str(config.home),
            next_step="Delete the folder yourself if that is what you want.",
        )
    with (
        _free(config.home, "console.lock", "The console of this workspace is running."),
        _free(config.home, EVALUATION_LOCK, "An evaluation is running in this workspace."),
    ):
        prepared.mark_removal(config.home)  # first: a killed removal is not taken for a whole workspace or a lost one
        work = config.home / "work"
        paths = [config.home / n for n in OWN_NAMES - {PREPARED, "console.lock", "prepare.lock", "logs", "work"}]
        for path in sorted([*paths, *(p for p in work.iterdir() if p != config.home / EVALUATION_LOCK)]):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


@contextmanager
def _one_at_a_time(home: Path) -> Iterator[None]:
    with open_lock(home / "prepare.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _free(home: Path, name: str, running: str) -> Iterator[None]:
    """Hold a lock of the workspace, or say what holds it."""
    with open_lock(home / name) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise PrepareRefused(running, where=str(home), next_step="End it first.") from e
        yield


def _convert_backbone(config: Config, report: Report) -> tuple[str | None, str | None]:
    said = {
        State.CONVERTING: "Making the frozen backbone ready (about a minute, once) ...",
        State.LOADING: "Reading the frozen backbone's weights ...",
    }
    try:
        return load(config.backbone, config).prepare(lambda state: report(said[state])).name, None
    except DuebookError as e:
        return None, str(e)

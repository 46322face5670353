"""The controlled evaluation from plan to finished run: 3 seeds x 5 arms x 2 boundaries x 240 episodes.

Promise: killed at any time and started again, it picks up at the missing shards and ends equal to the uninterrupted
run on every column that may not vary. A shard counts once its part lies under its own name and `parts.json` names its
hash; a part that is damaged is run again. One evaluation at a time works in a workspace.
Refused: a second one beside it; resuming under other code, data, models or plan; a complete run under a contract that
was not frozen first. An unfinished run that can no longer be resumed is kept as failed, with its rows.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import clock
from core.config import Config
from core.errors import CheckFailed, DuebookError, InputError, quoted
from core.evaluation import contract as contracts
from core.evaluation import frozen, manifest, run_files, summary
from core.evaluation.child import ChildEnded, ChildFailed, Message
from core.evaluation.manifest import Hashes
from core.evaluation.plan import Plan, Report, Setup, cores, shard_task
from core.evaluation.pool import Pool, Task
from core.evaluation.run_files import Part
from core.evaluation.shard import (
    RunFacts,
    Shard,
    config_message,
    facts_message,
    planned,
    shard_message,
)
from core.files import open_lock, sync_folder
from core.ledger.run_store import finish_run, get_run, progress_run, register_run, runs
from core.ledger.store import Store, open_workspace
from core.records.run import Manifest, RunStatus
from core.records.trace import ArmName, Origin
from core.traces.writer import partition

KIND = "controlled"
CONTRACT = "controlled"
WARM_EPISODES = 20
"""Episodes a warming task: about twenty seconds of generation."""


class EvaluationRefused(DuebookError):
    """An evaluation that may not be run here and now."""

    code = "evaluation_refused"
    exit_code = 1


@dataclass(frozen=True)
class Finished:
    """An evaluation that came to its end."""

    manifest: Manifest
    folder: Path
    resumed: bool
    """Whether it picked up an unfinished run."""
    ran: int
    """Executions run now."""
    seconds: float
    """How long that took."""


def run_folder(config: Config, evidence_class: str, run_id: str) -> Path:
    """Return where a workspace keeps a run."""
    return partition(config.traces, evidence_class, run_id)


def evaluate(config: Config, plan: Plan, report: Report = lambda _: None, setup: Setup | None = None) -> Finished:
    """Run, or go on with, the controlled evaluation.

    Parameters
    ----------
    report : told progress in words.

    Raises
    ------
    EvaluationRefused : another evaluation is running here; the run to resume cannot be resumed; nothing was frozen.
    ChildEnded : a worker process ended; what was finished is kept, the same command goes on.
    CheckFailed : a worker met an error, or the code changed during the run; the run is kept as failed.
    """
    setup = setup or Setup()
    if plan.limit is not None and not 1 <= plan.limit <= 720:
        raise InputError(f"--limit takes 1 to 720 episodes, not {quoted(plan.limit)}.")
    if plan.jobs < 0:
        raise InputError(f"--jobs takes a number of processes, not {quoted(plan.jobs)}.")
    with _alone(config) as say, open_workspace(config, create=True) as store:
        hashes = manifest.take(CONTRACT)
        if plan.complete:
            frozen.require(hashes, setup.evidence)
        drafted = draft(config, plan, setup, hashes)
        running, resumed = _choose(config, store, plan, drafted, report)
        say(running.run_id)
        return _Execution(config, plan, setup, store, running, hashes, report).carry_out(resumed)


# -- before ------------------------------------------------------------------------------------------------------------


@contextmanager
def _alone(config: Config) -> Iterator[Callable[[str], None]]:
    """Hold the workspace's evaluation lock; yields a function that writes the run's id into it."""
    with open_lock(config.home / run_files.EVALUATION_LOCK) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            lock.seek(0)
            who = lock.read().strip() or "another process"
            raise EvaluationRefused(
                f"An evaluation is running in this workspace already ({who}).",
                where=str(config.home),
                next_step="Wait for it, or end it; it can be resumed.",
            ) from e

        def say(run_id: str) -> None:
            lock.seek(0)
            lock.truncate()
            lock.write(f"process {os.getpid()}, run {run_id}")
            lock.flush()

        yield say


def draft(config: Config, plan: Plan, setup: Setup, hashes: Hashes | None = None) -> Manifest:
    """Return the manifest a new run would begin with; fails early where a model or the contract is missing."""
    hashes = hashes or manifest.take(CONTRACT)
    contract = contracts.load(CONTRACT)
    tools = setup.tools(config)
    return Manifest(
        run_id=clock.new_id(),
        kind=KIND,
        evidence_class=plan.evidence_class,
        origin=Origin.OURS,
        status=RunStatus.RUNNING,
        contract=contract.name,
        contract_sha256=contract.sha256,
        code_commit=manifest.commit(),
        code_hash=hashes.code_hash,
        evaluator_hash=hashes.evaluator_hash,
        data_hash=hashes.data_hash,
        model_hash=hashes.model_hash,
        backbone=tools.backbone.name,
        backbone_sha256=tools.backbone.weights_sha256,
        packages=manifest.packages(),
        seeds=plan.seeds,
        planned=plan.executions,
        stored=0,
        started_at=clock.now(),
        finished_at=None,
        device=tools.backbone.device,
        note="" if plan.complete else f"Limited to {plan.executions:,} executions on purpose: enters no criterion.",
        amends=plan.amends,
    )


_EQUAL_TO_RESUME = (
    "evidence_class", "contract_sha256", "code_hash", "data_hash", "model_hash", "backbone", "backbone_sha256",
    "packages", "seeds", "planned", "amends",
)  # fmt: skip


def _choose(config: Config, store: Store, plan: Plan, drafted: Manifest, report: Report) -> tuple[Manifest, bool]:
    """Return the run to carry out and whether it is an unfinished one."""
    with store.read() as conn:
        unfinished = [m for m in runs(conn, KIND) if m.status is RunStatus.RUNNING]
        if plan.resume is not None and get_run(conn, plan.resume) is None:
            raise InputError(f"There is no run {quoted(plan.resume)} in this workspace.")
    if plan.resume is not None:
        wanted = next((m for m in unfinished if m.run_id == plan.resume), None)
        if wanted is None:
            raise EvaluationRefused(f"Run {plan.resume} is not an unfinished {KIND} run.")
        if differ := _differences(wanted, drafted):
            raise EvaluationRefused(
                f"Run {plan.resume} cannot be resumed: {differ} differ from what it began with.",
                next_step="Begin a new run; the old one is kept.",
            )
        return wanted, True
    for m in unfinished:
        differ = _differences(m, drafted)
        if not differ and not plan.new:
            report(f"Going on with run {m.run_id}, begun {clock.format_instant(m.started_at)}.")
            return m, True
        if m.planned == drafted.planned and m.evidence_class == drafted.evidence_class:
            why = f"{differ} changed" if differ else "a new run was asked for"
            _give_up(config, store, m, f"Not finished: {why} before it was resumed.")
            report(f"Run {m.run_id} stays unfinished ({why}); it is kept as failed.")
    run_files.write_manifest(run_folder(config, drafted.evidence_class, drafted.run_id), drafted)
    with store.write() as tx:
        register_run(tx, drafted)
    return drafted, False


def _differences(old: Manifest, new: Manifest) -> str:
    names = [n.replace("_", " ") for n in _EQUAL_TO_RESUME if getattr(old, n) != getattr(new, n)]
    return ", ".join(names)


def _give_up(config: Config, store: Store, m: Manifest, note: str) -> Manifest:
    """End a run as failed; the rows it has stay readable."""
    folder = run_folder(config, m.evidence_class, m.run_id)
    parts = {n: p for n, p in run_files.read_parts(folder).items() if p.problem(folder) is None}
    return _end(config, store, m, RunStatus.FAILED, list(parts.values()), note)


def _end(
    config: Config,
    store: Store,
    m: Manifest,
    status: RunStatus,
    parts: Sequence[Part],
    note: str | None,
    beside: Manifest | None = None,
) -> Manifest:
    """List the run's parts and end it, in one transaction; then write the same manifest beside the parts.

    Parameters
    ----------
    beside : a diagnostic run over the same rows, registered in the same transaction.
    """
    folder = run_folder(config, m.evidence_class, m.run_id)
    at = clock.now()
    with store.write() as tx:
        run_files.list_parts(tx, config.home, folder, parts, m)
        if beside is not None:
            register_run(tx, beside)
        finish_run(tx, m.run_id, status, stored=sum(p.rows for p in parts), note=note, finished_at=at)
    with store.read() as conn:
        ended = get_run(conn, m.run_id)
    assert ended is not None
    run_files.write_manifest(folder, ended)
    return ended


# -- during ------------------------------------------------------------------------------------------------------------


@dataclass
class _Execution:
    """One carrying out of a run: from its missing shards to its end."""

    config: Config
    plan: Plan
    setup: Setup
    store: Store
    run: Manifest
    hashes: Hashes
    report: Report
    parts: dict[str, Part] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    ran: int = 0

    @property
    def folder(self) -> Path:
        return run_folder(self.config, self.run.evidence_class, self.run.run_id)

    @property
    def work(self) -> Path:
        return self.config.home / "work" / self.run.run_id

    def carry_out(self, resumed: bool) -> Finished:
        run_files.write_hashes(self.folder, self.hashes)
        missing = self._missing()
        self._clean()
        pool = Pool(self.setup.command, self.plan.jobs or cores(), self.work)
        try:
            tasks = [
                *(self._warming(missing) if self.setup.warm else []),
                *((s.name, self._task(s)) for s in _longest_first(missing)),
            ]
            pool.work(tasks, self._done)
        except ChildFailed as e:
            ended = _give_up(self.config, self.store, self._stored(), f"Stopped by an error: {e.message}")
            raise CheckFailed(
                f"The run stopped by an error: {e.message} It is kept as failed.",
                where=e.where or f"run {ended.run_id}",
                next_step=e.next_step,
            ) from e
        except ChildEnded as e:
            raise ChildEnded(
                f"{e.message} {len(self.parts)} of {len(self.plan.shards)} shards of run {self.run.run_id} are kept.",
                where=e.where,
                next_step="Run the same command again: it goes on from there.",
            ) from e
        ended = self._finish()
        shutil.rmtree(self.work, ignore_errors=True)
        return Finished(ended, self.folder, resumed, self.ran, time.monotonic() - self.began)

    def _missing(self) -> list[Shard]:
        known = {s.name for s in self.plan.shards}
        for name, part in run_files.read_parts(self.folder).items():
            if (problem := part.problem(self.folder)) is not None:
                self.report(f"{problem}; it is run again.")
            elif name in known:
                self.parts[name] = part
        return [s for s in self.plan.shards if s.name not in self.parts]

    def _clean(self) -> None:
        # What an attempt that was killed left behind; its stores and staged parts are of no use.
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "staging").mkdir(mode=0o700, parents=True)

    def _message(self) -> Message:
        facts = RunFacts(self.run.run_id, self.run.evidence_class, CONTRACT, self.plan.limit)
        return {"config": config_message(self.config), "facts": facts_message(facts)}

    def _warming(self, missing: Sequence[Shard]) -> list[tuple[str, Task]]:
        tasks: list[tuple[str, Task]] = []
        for seed in sorted({s.seed for s in missing}):
            ids = [e.episode_id for e in planned(seed, self.plan.limit)]
            for start in range(0, len(ids), WARM_EPISODES):
                message = {"task": "warm", "seed": seed, "episodes": ids[start : start + WARM_EPISODES]}
                tasks.append(("warm", _asking(message | self._message())))
        return tasks

    def _task(self, shard: Shard) -> Task:
        message = self._message() | {
            "shard": shard_message(shard),
            "store": str(self.work / f"{shard.name}.sqlite"),
            "folder": str(self.work / "staging"),
        }

        return shard_task(shard, message)

    def _done(self, name: str, answer: Message) -> None:
        if name == "warm":
            self.report(f"{self._elapsed()}: {answer['episodes']} episodes warmed")
            return
        staged, target = Path(answer["path"]), self.folder / f"{name}.parquet"
        size = staged.stat().st_size
        staged.replace(target)
        sync_folder(self.folder)
        self.parts[name] = Part(name, answer["rows"], size, answer["sha256"], answer["min_id"], answer["max_id"])
        run_files.write_parts(self.folder, self.parts.values())
        self.ran += int(answer["rows"])
        with self.store.write() as tx:
            progress_run(tx, self.run.run_id, self._count())
        rate = self.ran / max(time.monotonic() - self.began, 1e-9)
        self.report(
            f"{self._elapsed()}: {self._count():,} of {self.run.planned:,} executions, "
            f"{len(self.parts)} of {len(self.plan.shards)} shards ({rate:.0f} a second)"
        )

    def _count(self) -> int:
        return sum(p.rows for p in self.parts.values())

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self.began:.0f} s"

    def _stored(self) -> Manifest:
        with self.store.read() as conn:
            found = get_run(conn, self.run.run_id)
        assert found is not None
        return found

    def _finish(self) -> Manifest:
        if wrong := run_files.problems(self.folder, self.parts):
            raise CheckFailed(" ".join(wrong), where=str(self.folder), next_step="Run the same command again.")
        now = manifest.take(CONTRACT)
        moved = [*manifest.changed(self.hashes.code, now.code), *manifest.changed(self.hashes.data, now.data)]
        moved += manifest.changed(self.hashes.contract, now.contract)
        if moved and self.plan.complete:
            note = f"Files changed while it ran: {', '.join(moved[:5])}" + (" and more." if len(moved) > 5 else ".")
            _end(self.config, self.store, self.run, RunStatus.FAILED, list(self.parts.values()), note)
            raise CheckFailed(f"{note} The run is kept as failed.", where=f"run {self.run.run_id}")
        parts = list(self.parts.values())
        if not self.plan.complete:
            return _end(self.config, self.store, self.run, RunStatus.PARTIAL, parts, None)
        diagnostic, _ = summary.actuation(self.run, run_files.read_rows(self.folder))
        beside = run_folder(self.config, diagnostic.evidence_class, diagnostic.run_id)
        summary.write_actuation(beside, diagnostic, self.run)
        return _end(self.config, self.store, self.run, RunStatus.COMPLETE, parts, None, diagnostic)


def _longest_first(shards: Sequence[Shard]) -> list[Shard]:
    """Put C3 first: it alone generates past the cache, and a long shard at the end would keep one core idle."""
    return sorted(shards, key=lambda s: s.arm is not ArmName.C3)


def _asking(message: dict[str, Any]) -> Task:
    return lambda seat: seat.child.ask(message)

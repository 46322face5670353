"""One shard (seed x arm x boundary) in its own processes: who writes, who exits, who answers.

    restart       writer process: bind and store every episode's records, exit.  Only then a responder process opens the
                  store anew, reads the records back and answers.
    same process  one responder process stores, reads back and answers.

Promise: the responder knows records only from the store, and the store holds nothing else; the writer imports no
model. All weights are hashed in memory after every shard, cached answers or not; that hash is the next shard's
"before" in this process, so that a change between two shards would be seen too.
The part is written into a staging folder; only the parent moves it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core import clock
from core.config import Config
from core.controller.context import Context, execution_key
from core.controller.step import bind, hear, respond
from core.controller.trail import with_hash_after
from core.evaluation import episodes as source
from core.evaluation.child import Message, serve
from core.evaluation.episodes import Episode
from core.ledger.record_store import read_all_records, write_records
from core.ledger.store import Store, open_store
from core.records.record import Record
from core.records.trace import ArmName, Boundary, EvidenceClass, StepName, StepTime, Trace

if TYPE_CHECKING:
    from core.backbone.base import Backbone
    from core.controller.arms import Arm
    from core.triggers.base import Trigger

EPISODES_A_SEED = 240
SPREAD = 37
"""A limited run takes every 37th pair, so that it holds every family early; 37 and 120 have no common factor."""
ACTOR = "agent:controller"
"""Who writes the records of an evaluation."""
REGENERATED_ONE_IN = 20
"""A fixed 5% of C3's trials, chosen by their execution key, answer past the cache where they take the null path."""


@dataclass(frozen=True)
class Shard:
    """The unit of resuming."""

    seed: int
    arm: ArmName
    boundary: Boundary

    @property
    def name(self) -> str:
        """The name of its part."""
        return f"{self.seed}-{self.arm.value}-{self.boundary.value}"


@dataclass(frozen=True)
class RunFacts:
    """What every execution of a run has in common."""

    run_id: str
    evidence_class: EvidenceClass
    contract: str
    limit: int | None
    """At most so many episodes in all, counted from the first seed on; None: all 720."""
    only: tuple[str, ...] | None = None
    """These episodes and no others; None: all that are planned."""
    anew: bool = False
    """Generate every output past the cache, to verify the cached ones."""

    def episodes(self, seed: int) -> tuple[Episode, ...]:
        """Return the episodes of a seed that are to be executed."""
        return tuple(e for e in planned(seed, self.limit) if self.only is None or e.episode_id in self.only)


@dataclass(frozen=True)
class Tools:
    """What a responder answers with."""

    backbone: Backbone
    trigger: Trigger
    c1_threshold: float


class Anew:
    """A backbone that answers every question from its weights.

    Parameters
    ----------
    backbone : the one asked.
    """

    def __init__(self, backbone: Backbone) -> None:
        self.name, self.device, self.weights_sha256 = backbone.name, backbone.device, backbone.weights_sha256
        self.hash_weights, self.prompt = backbone.hash_weights, backbone.prompt
        self._answer = backbone.generate

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        """Return what the weights answer."""
        return self._answer(prompt, fresh=True)


MakeTools = Callable[[Config], Tools]


def make_tools(config: Config) -> Tools:
    """Return the real tools: the frozen backbone asked for, and the paper's trigger with its lock."""
    from core.backbone.load import load as load_backbone
    from core.triggers.learned import mlp
    from core.triggers.lock import load_lock

    return Tools(load_backbone(config.backbone, config), mlp.load(), float(load_lock()["c1_threshold"]))


@cache
def planned(seed: int, limit: int | None = None) -> tuple[Episode, ...]:
    """Return the episodes of a seed; with a limit, as many of them as the earlier seeds leave of it."""
    every = source.episodes(seed)
    if limit is None:
        return every
    pairs = len(every) // 2
    spread = [every[2 * ((n * SPREAD) % pairs) + half] for n in range(pairs) for half in (0, 1)]
    chosen = {e.episode_id for e in spread[: max(0, limit - EPISODES_A_SEED * source.SEEDS.index(seed))]}
    return tuple(e for e in every if e.episode_id in chosen)


def regenerated(contract: str, episode_id: str, seed: int, boundary: Boundary, backbone: str) -> bool:
    """Return whether this C3 trial answers past the cache: decided by its execution key, the same in every run."""
    key = execution_key(contract, episode_id, ArmName.C3, seed, boundary, backbone)
    return int(key[:8], 16) % REGENERATED_ONE_IN == 0


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Writing:
    """What the writing process leaves behind besides the store."""

    pid: int
    times: dict[str, tuple[str, float]]
    """Episode -> when its records were written, and how long that took in microseconds."""
    exited_at: str | None = None
    """When the parent saw it exited; None: it did not exit."""


def write(store: Store, episodes: Iterable[Episode], arm: ArmName) -> Writing:
    """Bind and store the records of all episodes, each in its own namespace, in one transaction; C0 stores none."""
    times: dict[str, tuple[str, float]] = {}
    with store.write() as tx:
        for e in episodes if arm is not ArmName.C0 else ():
            at, start = clock.now(), time.perf_counter_ns()
            write_records(tx, e.episode_id, bind(e.operations))
            times[e.episode_id] = (clock.format_instant(at), (time.perf_counter_ns() - start) / 1000)
    return Writing(os.getpid(), times)


# -- answering ---------------------------------------------------------------------------------------------------------


def answer_shard(
    shard: Shard, facts: RunFacts, tools: Tools, store: Store, writing: Writing, opened_at: datetime, hash_before: str
) -> list[Trace]:
    """Answer every episode of a shard from what the store gives back.

    Parameters
    ----------
    store : holds the records; opened by this process, after the writer's exit where the boundary is a restart.
    writing : who wrote it and when.
    hash_before : over all weights, as this process last measured it.
    """
    if facts.anew:
        tools = replace(tools, backbone=Anew(tools.backbone))
    backbone, permutation = tools.backbone, source.permutation(shard.seed, source.episodes(shard.seed))
    arm = _arms(tools, permutation)[shard.arm]
    traces = []
    with store.read() as conn:  # one question a shard: 0.02 ms an episode; one question an episode took 0.6
        stored = read_all_records(conn)
    for e in facts.episodes(shard.seed):
        records = stored.get(e.episode_id, [])
        context = _context(e, shard, facts, tools, writing, opened_at, records, hash_before)
        traces.append(respond(records, hear(e.operations, e.event), arm, backbone, context))
    at, start = clock.now(), time.perf_counter_ns()
    after = backbone.hash_weights()
    # Measured once for all of them: each execution carries its share, so that the times of a shard still add up.
    share = (time.perf_counter_ns() - start) / 1000 / max(len(traces), 1)
    measured = StepTime(step=StepName.INTEGRITY, at=at, elapsed_us=share)
    return [with_hash_after(t, after, measured) for t in traces]


def _arms(tools: Tools, permutation: Mapping[str, str]) -> dict[ArmName, Arm]:
    from core.controller.arms import arms

    return arms(tools.trigger, tools.c1_threshold, permutation)


def _context(
    episode: Episode,
    shard: Shard,
    facts: RunFacts,
    tools: Tools,
    writing: Writing,
    opened_at: datetime,
    records: Sequence[Record],
    hash_before: str,
) -> Context:
    restart = shard.boundary is Boundary.RESTART
    return Context(
        run_id=facts.run_id,
        evidence_class=facts.evidence_class,
        contract=facts.contract,
        episode_id=episode.episode_id,
        match_id=episode.match_id,
        seed=episode.seed,
        family=episode.family.value,
        boundary=shard.boundary,
        expected_trigger=episode.expected_trigger,
        expected_record=episode.expected_record,
        expected_payload=episode.expected_payload,
        backbone_hash_before=hash_before,
        memory_write_ok=tuple(records) == bind(episode.operations),
        device=tools.backbone.device,
        writer_pid=writing.pid,
        responder_pid=os.getpid(),
        store_reopened=restart,
        earlier_times=_earlier(episode, writing, opened_at),
        fresh=shard.arm is ArmName.C3
        and regenerated(facts.contract, episode.episode_id, episode.seed, shard.boundary, tools.backbone.name),
    )


def _earlier(episode: Episode, writing: Writing, opened_at: datetime) -> tuple[StepTime, ...]:
    times = []
    if written := writing.times.get(episode.episode_id):
        at, elapsed_us = written
        times.append(StepTime(step=StepName.WRITE, at=clock.parse_instant(at), elapsed_us=elapsed_us))
    if writing.exited_at is None:  # one process does both: the boundary is crossed in no time
        times.append(StepTime(step=StepName.BOUNDARY, at=clock.now(), elapsed_us=0.0))
    else:
        exited = clock.parse_instant(writing.exited_at)
        waited = (opened_at - exited).total_seconds() * 1e6
        times.append(StepTime(step=StepName.BOUNDARY, at=exited, elapsed_us=waited))
    return tuple(times)


def warm(episodes: Iterable[Episode], tools: Tools) -> int:
    """Have the cache hold every output a run will ask for: the baseline, and C3's proposal where it fires.

    Returns
    -------
    How many episodes were gone through; the traces are thrown away.
    """
    count = 0
    for e in episodes:
        context = Context(
            run_id="warm",
            evidence_class=EvidenceClass.DEMO,
            episode_id=e.episode_id,
            expected_trigger=e.expected_trigger,
            expected_record=e.expected_record,
            expected_payload=e.expected_payload,
            backbone_hash_before="",
        )
        respond(bind(e.operations), hear(e.operations, e.event), _arms(tools, {})[ArmName.C3], tools.backbone, context)
        count += 1
    return count


# -- the processes -----------------------------------------------------------------------------------------------------


def config_message(config: Config) -> Message:
    """Return what a child must know of the configuration; the ledger's key stays with the parent."""
    return {
        "home": str(config.home),
        "cache": str(config.cache),
        "user": config.user,
        "device": config.device,
        "backbone": config.backbone,
    }


def facts_message(facts: RunFacts) -> Message:
    """Return a run's facts as JSON."""
    return asdict(facts) | {"evidence_class": facts.evidence_class.value}


def shard_message(shard: Shard) -> Message:
    """Return a shard as JSON."""
    return {"seed": shard.seed, "arm": shard.arm.value, "boundary": shard.boundary.value}


class Worker:
    """The child's side: one handler for the three things a process can be asked to do.

    Parameters
    ----------
    tools : makes the responder's tools on first use.
    """

    def __init__(self, tools: MakeTools = make_tools) -> None:
        self._make = tools
        self._tools: Tools | None = None
        self._hash: str | None = None

    def __call__(self, message: Message) -> Message:
        """Answer one message: `write`, `warm` or `respond`."""
        task = {"write": self._write, "warm": self._warm, "respond": self._respond}[message["task"]]
        return task(message)

    def _write(self, message: Message) -> Message:
        shard, facts = _read_shard(message), _read_facts(message)
        with open_store(Path(message["store"]), create=True, actor=ACTOR) as store:
            return asdict(write(store, facts.episodes(shard.seed), shard.arm))

    def _warm(self, message: Message) -> Message:
        chosen = set(message["episodes"])
        wanted = [e for e in planned(message["seed"]) if e.episode_id in chosen]
        return {"episodes": warm(wanted, self._ready(message))}

    def _respond(self, message: Message) -> Message:
        from core.traces.writer import write_part

        shard, facts, tools = _read_shard(message), _read_facts(message), self._ready(message)
        restart = shard.boundary is Boundary.RESTART
        opened_at = clock.now()
        with open_store(Path(message["store"]), create=not restart, actor=ACTOR) as store:
            told = message["writing"] if restart else None  # a restart: another process wrote, and has exited
            writing = Writing(**told) if told else write(store, facts.episodes(shard.seed), shard.arm)
            before = self._hash or tools.backbone.hash_weights()
            traces = answer_shard(shard, facts, tools, store, writing, opened_at, before)
        self._hash = traces[0].backbone_hash_after
        part = write_part(Path(message["folder"]), traces, shard.name)
        return {
            "path": str(part.path),
            "rows": part.rows,
            "sha256": part.sha256,
            "min_id": part.min_id,
            "max_id": part.max_id,
        }

    def _ready(self, message: Message) -> Tools:
        if self._tools is None:
            told = message["config"]
            self._tools = self._make(
                Config(
                    home=Path(told["home"]),
                    cache=Path(told["cache"]),
                    user=told["user"],
                    ledger_key=None,
                    device=told["device"],
                    backbone=told["backbone"],
                )
            )
        return self._tools


def _read_shard(message: Message) -> Shard:
    told = message["shard"]
    return Shard(int(told["seed"]), ArmName(told["arm"]), Boundary(told["boundary"]))


def _read_facts(message: Message) -> RunFacts:
    told: dict[str, Any] = message["facts"]
    only = None if told["only"] is None else tuple(told["only"])
    return RunFacts(**told | {"evidence_class": EvidenceClass(told["evidence_class"]), "only": only})


if __name__ == "__main__":
    serve(Worker())

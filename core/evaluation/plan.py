"""What is to be run, by what, and how one shard is carried out over its processes.

Promise: a plan is a value; only the whole plan enters criteria, every other one is a demonstration.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core import clock
from core.evaluation import frozen
from core.evaluation.child import ChildEnded, Message
from core.evaluation.episodes import SEEDS
from core.evaluation.pool import Seat, Task
from core.evaluation.shard import MakeTools, Shard, make_tools, planned
from core.records.trace import ArmName, Boundary, EvidenceClass

MAX_JOBS = 8
"""A worker holds the backbone: about 1 GiB."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Setup:
    """How workers are started and what they answer with; tests put small ones in."""

    tools: MakeTools = make_tools
    command: tuple[str, ...] = (sys.executable, "-m", "core.evaluation.shard")
    warm: bool = True
    """Spread the missing generations over the workers before the shards."""
    evidence: Path = frozen.EVIDENCE
    """Where freezes are looked up."""


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    limit: int | None = None
    """At most so many episodes; None: all 720."""
    jobs: int = 0
    """Worker processes; 0: one a core."""
    resume: str | None = None
    """Resume this run and no other."""
    new: bool = False
    """Begin a new run even where one could be resumed."""
    amends: str | None = None
    """The run that this one amends."""
    arms: tuple[ArmName, ...] = tuple(ArmName)
    """A limited run may leave arms out."""

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards that hold at least one episode, in order."""
        return tuple(
            Shard(seed, arm, boundary)
            for seed in SEEDS
            if planned(seed, self.limit)
            for arm in self.arms
            for boundary in Boundary
        )

    @property
    def executions(self) -> int:
        """How many executions it holds."""
        return sum(len(planned(s.seed, self.limit)) for s in self.shards)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds it uses."""
        return tuple(s for s in SEEDS if planned(s, self.limit))

    @property
    def complete(self) -> bool:
        """Whether it is the whole evaluation, which alone enters criteria."""
        return self.limit is None and self.arms == tuple(ArmName)

    @property
    def evidence_class(self) -> EvidenceClass:
        """Controlled; a limited run is a demonstration."""
        return EvidenceClass.CONTROLLED if self.complete else EvidenceClass.DEMO


def cores() -> int:
    """Return how many worker processes make sense here."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, MAX_JOBS))


def shard_task(shard: Shard, message: Message) -> Task:
    """Return what carries out one shard: for a restart, a writer that exits before the responder opens the store."""

    def task(seat: Seat) -> Message:
        if shard.boundary is Boundary.SAME_PROCESS:
            return seat.child.ask(message | {"task": "respond"})
        writing, code = seat.once(message | {"task": "write"})
        if code != 0:
            raise ChildEnded(f"The writing process of shard {shard.name} ended with exit code {code}.")
        # The process has been waited for: from here on nothing of it is left but the store.
        writing |= {"exited_at": clock.format_instant(clock.now())}
        return seat.child.ask(message | {"task": "respond", "writing": writing})

    return task

"""A small evaluation in real processes: a backbone of digests and a trigger of word overlap stand in for the models.

`python small.py` is a worker process, `python small.py crash SHARD` one that dies when it is asked for that shard,
`python small.py fail SHARD` one that meets an error there. `python small.py run HOME LIMIT JOBS ARMS` is a whole
evaluation in a process of its own, for tests that kill it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from core.config import Config, load  # noqa: E402
from core.evaluation.child import Message, serve  # noqa: E402
from core.evaluation.plan import Plan, Setup  # noqa: E402
from core.evaluation.runs import Finished, evaluate  # noqa: E402
from core.evaluation.shard import Tools, Worker  # noqa: E402
from core.records.trace import ArmName  # noqa: E402
from core.triggers.base import Judgement, Scores  # noqa: E402


class SmallBackbone:
    """Answers with a digest of the prompt; `salt` makes another answer, as a mended bug would."""

    name = "small@0"
    device = "cpu"
    weights_sha256 = "5" * 64
    salt = ""

    def hash_weights(self) -> str:
        return self.weights_sha256

    def prompt(self, event_text: str, memory: Sequence[str] = ()) -> bytes:
        return "\n".join([*memory, event_text]).encode()

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        return hashlib.sha256(self.salt.encode() + prompt).hexdigest()[:8]


class OverlapTrigger:
    """Share of the condition's words that the event holds."""

    name = "overlap"
    threshold = 0.5
    weights_sha256 = ""
    device = "cpu"

    def judge(self, condition: str, event: str) -> Judgement:
        score = float(self.score_pairs([condition], [event])[0])
        return Judgement(score, score >= self.threshold, (score,), 1.0)

    def score_pairs(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        return np.array([_overlap(c, e) for c, e in zip(conditions, events, strict=True)], dtype=np.float64)

    def score_grid(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        return np.array([[_overlap(c, e) for e in events] for c in conditions], dtype=np.float64)


def _overlap(condition: str, event: str) -> float:
    wanted = set(condition.lower().split())
    return len(wanted & set(event.lower().split())) / len(wanted)


def tools(config: Config) -> Tools:
    return Tools(SmallBackbone(), OverlapTrigger(), 0.3)


class Watched(Worker):
    """A worker that looks whether the writer is really gone, and can be told to die or to fail at a shard."""

    def __init__(self, how: str = "", where: str = "") -> None:
        super().__init__(tools)
        self.how, self.where = how, where

    def __call__(self, message: Message) -> Message:
        shard = message.get("shard", {})
        name = "-".join(str(v) for v in shard.values())
        if message["task"] == "respond" and name == self.where:
            if self.how == "crash":
                os._exit(7)
            raise ZeroDivisionError("one by nothing")
        if "writing" in message:
            try:
                os.kill(message["writing"]["pid"], 0)
            except ProcessLookupError:
                pass
            else:
                raise AssertionError("the writer is still there")
        return super().__call__(message)


SMALL = str(Path(__file__).resolve())
SETUP = Setup(tools=tools, command=(sys.executable, SMALL))


def broken(how: str, shard: str) -> Setup:
    """A setup whose workers crash or fail at a shard."""
    return Setup(tools=tools, command=(sys.executable, SMALL, how, shard))


def small_run(home: Path, setup: Setup = SETUP, said: list[str] | None = None, **plan: Any) -> Finished:
    """Run a small evaluation from this process."""
    plan = {"limit": 4, "jobs": 2, **plan}
    return evaluate(load(home), Plan(**plan), (said if said is not None else []).append, setup)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        home, limit, jobs, arms = sys.argv[2:6]
        named = tuple(ArmName(a) for a in arms.split(","))
        small_run(Path(home), limit=int(limit), jobs=int(jobs), arms=named)
    else:
        serve(Watched(*sys.argv[1:3]))

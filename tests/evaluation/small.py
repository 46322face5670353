"""A small evaluation in real processes: a backbone of digests and a trigger of word overlap stand in for the models.

Run as `python tests/evaluation/small.py` it is the worker process; `python tests/evaluation/small.py run HOME LIMIT
JOBS` is a whole evaluation, for tests that kill it.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from core.config import Config, load  # noqa: E402
from core.evaluation.child import serve  # noqa: E402
from core.evaluation.runs import Finished, Plan, Setup, evaluate  # noqa: E402
from core.evaluation.shard import Tools, Worker  # noqa: E402
from core.triggers.base import Judgement, Scores  # noqa: E402


class SmallBackbone:
    """Answers with a digest of the prompt."""

    name = "small@0"
    device = "cpu"
    weights_sha256 = "5" * 64

    def hash_weights(self) -> str:
        return self.weights_sha256

    def prompt(self, event_text: str, memory: Sequence[str] = ()) -> bytes:
        return "\n".join([*memory, event_text]).encode()

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        return hashlib.sha256(prompt).hexdigest()[:8]


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
    """Make the small tools."""
    return Tools(SmallBackbone(), OverlapTrigger(), 0.3)


SETUP = Setup(tools=tools, command=(sys.executable, str(Path(__file__).resolve())), warm=False)


def small_run(home: Path, limit: int = 4, jobs: int = 2, report: list[str] | None = None, **plan: object) -> Finished:
    """Run a small evaluation in this process, its workers apart."""
    said = report if report is not None else []
    return evaluate(load(home), Plan(limit=limit, jobs=jobs, **plan), said.append, SETUP)  # type: ignore[arg-type]


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        home, limit, jobs = sys.argv[2:5]
        small_run(Path(home), int(limit), int(jobs))
        sys.stdout.write(f"done {time.monotonic()}\n")
    else:
        serve(Worker(tools))

"""A tiny deterministic backbone and trigger: the controller's tests need no weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from core.controller.context import Context
from core.records.trace import EvidenceClass, StepName, StepTime
from core.triggers.base import Judgement


@dataclass
class TinyBackbone:
    """Answers with a digest of the prompt bytes; remembers what it was asked."""

    name: str = "tiny@0"
    device: str = "cpu"
    weights_sha256: str = "w" * 64
    asked: list[tuple[bytes, bool]] = field(default_factory=list)

    def hash_weights(self) -> str:
        return self.weights_sha256

    def prompt(self, event_text: str, memory: Sequence[str] = ()) -> bytes:
        lines = "".join(f"[memory] {line}\n" for line in memory)
        return f"{lines}[event] {event_text}\n[answer]".encode()

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        self.asked.append((prompt, fresh))
        return "tiny " + hashlib.sha256(prompt).hexdigest()[:8]


@dataclass
class TableTrigger:
    """Scores from a hand-written table (condition, event) -> score; 0 where the table is silent."""

    table: dict[tuple[str, str], float]
    threshold: float = 0.5
    name: str = "table"
    weights_sha256: str = ""
    device: str = "cpu"
    asked: list[tuple[str, str]] = field(default_factory=list)

    def judge(self, condition: str, event: str) -> Judgement:
        score = float(self.score_pairs([condition], [event])[0])
        return Judgement(score, score >= self.threshold, (score, 1.0), 1.0)

    def score_pairs(self, conditions: Sequence[str], events: Sequence[str]) -> npt.NDArray[np.float64]:
        pairs = list(zip(conditions, events, strict=True))
        self.asked += pairs
        return np.array([self.table.get(p, 0.0) for p in pairs], dtype=np.float64)

    def score_grid(self, conditions: Sequence[str], events: Sequence[str]) -> npt.NDArray[np.float64]:
        return np.array([[self.table.get((c, e), 0.0) for e in events] for c in conditions], dtype=np.float64)


def context(expected_record: str | None, expected_payload: str | None, **more: object) -> Context:
    """Return a context of a development execution on episode `e1`."""
    told: dict[str, object] = {
        "run_id": "run",
        "evidence_class": EvidenceClass.DEVELOPMENT,
        "episode_id": "e1",
        "expected_trigger": expected_record is not None,
        "expected_record": expected_record,
        "expected_payload": expected_payload,
        "backbone_hash_before": "w" * 64,
        "backbone_hash_after": "w" * 64,
        "memory_write_ok": True,
        "earlier_times": tuple(
            StepTime(step=s, at=datetime(2026, 1, 5, tzinfo=UTC), elapsed_us=0.0)
            for s in (StepName.WRITE, StepName.BOUNDARY)
        ),
    } | more
    return Context(**told)  # type: ignore[arg-type]

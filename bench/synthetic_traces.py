"""Synthetic executions in the shape of a controlled run: 3 seeds x 5 arms x 2 boundaries x 240 episodes = 7,200.

For benchmarks only: texts, scores and outcomes are drawn, nothing was executed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from core.records.trace import Step, StepName, StepTime, Trace
from core.traces.dataset import ARROW_SCHEMA, to_table

RUN_ROWS = 7_200
BEGIN = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = [
    "the", "invoice", "contract", "vendor", "signed", "delivered", "payment", "courier", "meeting", "budget",
    "report", "approved", "cancelled", "shipment", "customer", "office", "manager", "form", "room", "audit",
    "server", "database", "key", "review", "client", "proposal", "monday", "draft", "final", "received",
]  # fmt: skip


def _sentence(rng: random.Random, words: int = 12) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def uuid7(at: datetime, number: int) -> str:
    """Return an id ordered by time and number, in the spelling of a UUIDv7."""
    ms = int(at.timestamp() * 1000)
    tail = f"{number & 0xFFF:03x}", f"{8 + ((number >> 12) & 3):x}{(number >> 14) & 0xFFF:03x}", f"{number:012x}"
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{tail[0]}-{tail[1]}-{tail[2]}"


def one_run(seed: int = 0, seeds: Sequence[int] = (2026, 2027, 2028), episodes: int = 240) -> pa.Table:
    """Return one run in the dataset's schema, 7,200 rows unless told otherwise."""
    rng = random.Random(seed)
    traces: list[Trace] = []
    for s in seeds:
        for e in range(episodes):
            scene = _scene(rng, s, e)
            for arm in ("C0", "C1", "C2", "C3", "C4"):
                traces += [
                    _trace(rng, scene, arm, b, len(traces) + i) for i, b in enumerate(("same_process", "restart"))
                ]
    return to_table(traces)


def _scene(rng: random.Random, seed: int, e: int) -> dict[str, Any]:
    delay = 5 if e % 2 else 20
    families = ("exact_positive", "paraphrased_positive", "near_trigger", "near_trigger")
    family = families[e % 4] if e < 180 else ("distractor_only", "cancellation", "correction")[e % 3]
    records = [
        {"record_id": f"r{i}", "condition": _sentence(rng), "payload": _sentence(rng, 6), "state": "active"}
        for i in range(2)
    ]
    return {
        "seed": seed,
        "episode_id": f"s{seed}-e{e:03d}",
        "match_id": f"s{seed}-m{e // 2:03d}",
        "family": family,
        "delay": delay,
        "positive": family.endswith("positive"),
        "records": records,
        "events": [_sentence(rng) for _ in range(delay + 1)],
        "score": rng.random() ** 4 if not family.endswith("positive") else 1 - rng.random() ** 4,
        "scores": [rng.random() ** 8 for _ in range(2 * delay + 1)],
        "features": [rng.random() for _ in range(16)],
        "baseline": _sentence(rng, 5),
    }


def _trace(rng: random.Random, scene: dict[str, Any], arm: str, boundary: str, number: int) -> Trace:
    judged, positive = arm in ("C3", "C4"), scene["positive"]
    fired = arm == "C2" or (judged and scene["score"] >= 0.5)
    own, other = (r["payload"] for r in scene["records"])
    action = (other if arm == "C4" else own) if fired else None
    right = action == own if positive else action is None
    wrong = "wrong_payload" if arm == "C4" and fired and positive else "missed" if positive else "false"
    at = BEGIN + timedelta(milliseconds=20 * number)
    null = arm == "C3" and not fired
    check = True if null else None
    return Trace.model_validate(
        {
            "trace_id": uuid7(at, number),
            "execution_key": f"{rng.getrandbits(256):064x}",
            "run_id": "run",
            "evidence_class": "controlled",
            "origin": "ours",
            "contract": "controlled",
            "created_at": at,
            "elapsed_us": 500 + 4000 * rng.random(),
            "episode_id": scene["episode_id"],
            "match_id": scene["match_id"],
            "seed": scene["seed"],
            "arm": arm,
            "boundary": boundary,
            "family": scene["family"],
            "source": None,
            "stratum": None,
            "delay": scene["delay"],
            "expected_trigger": positive,
            "expected_record": "r0" if positive else None,
            "expected_payload": own if positive else None,
            "records": () if arm == "C0" else scene["records"],
            "events": scene["events"],
            "condition_text": None if arm == "C0" else scene["records"][0]["condition"],
            "event_text": scene["events"][-1],
            "trigger": "mlp" if judged else None,
            "score": scene["score"] if judged else None,
            "threshold": 0.5 if judged else None,
            "fired": fired,
            "fired_record": "r0" if fired else None,
            "losers": (),
            "null_reason": None if fired else "below_threshold" if judged else "no_active_record",
            "features": scene["features"] if judged else None,
            "decisions": [
                {"event": i // 2, "record_id": f"r{i % 2}", "score": s, "fired": s >= 0.5}
                for i, s in enumerate(scene["scores"])
            ]
            if judged
            else (),
            "decisions_expected": len(scene["scores"]) if judged else 0,
            "distractor_fires": sum(s >= 0.5 for s in scene["scores"]) if judged else 0,
            "retrieved_id": "r0" if fired else None,
            "payload_bound": action,
            "intervention": f'{{"payload":"{action}"}}' if fired else None,
            "predicted_action": action,
            "model_action": scene["baseline"] if arm == "C0" else None,
            "output": action or scene["baseline"],
            "baseline_output": scene["baseline"],
            "prompt_sha256": f"{rng.getrandbits(256):064x}",
            "regenerated": null and rng.random() < 0.05,
            "null_trial": null,
            "audit_no_retrieved_id": check,
            "audit_no_intervention": check,
            "audit_no_later_use": check,
            "audit_output_equal": check,
            "correct": right,
            "error_kind": "none" if right else wrong,
            "memory_write_ok": None if arm == "C0" else True,
            "backbone": "synthetic",
            "backbone_hash_before": "a" * 64,
            "backbone_hash_after": "a" * 64,
            "integrity_ok": True,
            "device": "cpu",
            "writer_pid": 1000 + number % 2,
            "responder_pid": 1000,
            "store_reopened": boundary == "restart",
            "steps": [Step(step=s, status="done", detail=_sentence(rng, 5)) for s in StepName],
            "step_times": [StepTime(step=s, at=at, elapsed_us=rng.random() * 100) for s in StepName],
        }
    )


def another_run(base: pa.Table, number: int) -> pa.Table:
    """Return the run again under another id, at another time, with other scores: columns changed in Arrow."""
    rng = np.random.default_rng(number)
    begin = BEGIN + timedelta(minutes=10 * number)
    rows = base.num_rows
    at = [begin + timedelta(milliseconds=20 * i) for i in range(rows)]
    score = base["score"].to_numpy(zero_copy_only=False)
    moved = np.clip(score + rng.normal(0, 0.01, rows), 0, 1)
    changed: dict[str, pa.Array[Any]] = {
        "trace_id": pa.array([uuid7(t, number * rows + i) for i, t in enumerate(at)]),
        "run_id": pa.array([uuid7(begin, number)] * rows),
        "created_at": pa.array(at, pa.timestamp("us", tz="UTC")),
        "score": pa.array(moved, mask=np.isnan(score)),
        "elapsed_us": pa.array(500 + 4000 * rng.random(rows)),
    }
    return pa.Table.from_arrays([changed.get(n, base[n]) for n in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)

"""What SQL counts is what the reference in Python counts, on the same perturbed rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.synthetic_traces import one_run
from core.config import load
from core.evaluation.metrics import arms, controlled
from core.evaluation.properties import properties
from core.ledger.store import open_workspace
from core.traces.dataset import ARROW_SCHEMA
from core.traces.writer import write_table
from core.views.read import runs as ask
from core.views.views import Views
from tests.views.made import list_part

Row = dict[str, Any]


@pytest.fixture(scope="module")
def base() -> list[Row]:
    """Return a small synthetic run, in which everything holds."""
    rows: list[Row] = one_run(seed=3, seeds=(2026, 2027), episodes=24).to_pylist()
    families = ("exact_positive", "near_trigger", "distractor_only", "paraphrased_positive")
    for row in rows:
        row["family"] = families[int(row["episode_id"][-3:]) % 4]
    return rows


def perturbed(rows: list[Row], seed: int) -> list[Row]:
    """Return the rows with answers, audits, outputs, hashes and pids changed here and there, each still consistent."""
    rng = random.Random(seed)
    changed = []
    for old in rows:
        row = dict(old)
        if rng.random() < 0.15 and row["arm"] != "C0":
            payload = None if row["predicted_action"] else "something"
            row |= {
                "fired": payload is not None,
                "predicted_action": payload,
                "payload_bound": payload,
                "intervention": payload and "{}",
                "output": payload or row["baseline_output"],
            }
        if rng.random() < 0.05 and row["arm"] != "C0":
            row["output"] = "another output"
        if row["null_trial"] and rng.random() < 0.1:
            row[rng.choice([n for n in row if n.startswith("audit_")])] = rng.choice([False, None])
        if row["memory_write_ok"] and rng.random() < 0.05:
            row["memory_write_ok"] = False
        if rng.random() < 0.02:
            row |= {"backbone_hash_after": "b" * 64, "integrity_ok": False}
        if rng.random() < 0.05:
            row |= rng.choice([
                {"store_reopened": False}, {"writer_pid": None}, {"responder_pid": row["writer_pid"]},
                {"decisions_expected": row["decisions_expected"] + 1}, {"decisions": "[]"},
                {"decisions": '[{"event":99,"fired":false,"record_id":"r","score":1}]', "decisions_expected": 1},
                {"records": "[]"},
                {"records": '[{"condition":"a b","payload":"b","record_id":"r","state":"active"}]'},
                {"records": '[{"condition":" ","payload":"b","record_id":"r","state":"active"}]'},
                {"payload_bound": "another"},
            ])  # fmt: skip
        right = row["predicted_action"] == row["expected_payload"] if row["expected_trigger"] else None
        row["correct"] = right if right is not None else row["predicted_action"] is None
        changed.append(row)
    return changed


def asked(tmp_path: Path, rows: list[Row]) -> tuple[list[Row], list[Row], list[Row], Any]:
    """Return what the views say of the rows, and the rows as the reference reads them."""
    table = pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)
    config = load(tmp_path / "home")
    with open_workspace(config, create=True) as store, store.write() as tx:
        list_part(tx, config, write_table(config.traces, table, "part"))
    views = Views(config)
    try:
        with views.snapshot() as s:
            answers = [f(s, "run").rows() for f in (ask.metrics, ask.properties, ask.arm_summary)]
    finally:
        views.close()
    return (*answers, table.to_pandas())  # type: ignore[return-value]


def everything(row: Row) -> bool:
    """Keep all rows."""
    return bool(row)


@pytest.mark.parametrize(
    ("seed", "keep"),
    [
        (0, everything),
        (1, everything),
        (2, lambda r: r["arm"] != "C0"),
        (3, lambda r: r["arm"] not in ("C2", "C4")),
        (4, lambda r: r["boundary"] == "restart"),
        (5, lambda r: r["arm"] != "C3"),
        (6, lambda r: r["expected_trigger"]),
        (7, lambda r: r["arm"] in ("C0", "C3") and r["family"] != "distractor_only"),
    ],
)
def test_metrics_properties_and_arms_equal_the_reference(
    tmp_path: Path, base: list[Row], seed: int, keep: Callable[[Row], bool]
) -> None:
    rows = [r for r in perturbed(base, seed) if keep(r)]
    counted, held, by_arm, frame = asked(tmp_path, rows)

    reference = controlled(frame)
    assert {r["metric"] for r in counted} == set(reference)
    for row in counted:
        expected = reference[row["metric"]]
        assert (row["k"], row["n"]) == (expected.k, expected.n), row["metric"]
        assert row["observed"] == (None if expected.observed is None else pytest.approx(expected.observed))

    items = {p.item: p for p in properties(frame)}
    seen = {r["item"]: r for r in held}
    for item, p in items.items():
        row = seen[item]
        assert (row["k"], row["n"], row["executions"]) == (p.k, p.n, p.executions), item
        assert min(row["failing"], 20) == len(p.failing), item
        assert row["requirement"] == p.requirement

    for arm in arms(frame):
        row = next(r for r in by_arm if r["arm"] == arm.arm)
        rates = ["utility", "triggered_action_accuracy", "false_trigger_rate"]
        # Without C0 the reference has nothing to pair an output with; the view reads the stored baseline.
        if any(r["arm"] == "C0" for r in rows):
            rates.append("correct_non_action")
        for name in rates:
            value = getattr(arm, name).observed
            assert row[name] == (None if value is None else pytest.approx(value)), (arm.arm, name)
        assert row["distractor_fires"] == arm.distractor_fires

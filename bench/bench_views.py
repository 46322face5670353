"""Every question the pages ask, at 7,200 and 1,000,000 synthetic executions, beside what one would write with pandas.

    python bench/bench_views.py [ROWS ...]

Goal: under 100 ms at 7,200 and under 300 ms at 1,000,000 by the clock, on an idle machine of two cores; exit 1 where a
question misses it. The 7,200 lie in 30 files, as a run writes them; of the million each run is one file. The times are
medians of five (pandas: of three), asked one after the other in one process; pandas reads the columns it needs each
time, as a notebook cell would. `cpu` is processor time over all threads, and the ratio is of processor time: one run,
on a machine whose load is printed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
import pyarrow as pa

from bench.synthetic_traces import RUN_ROWS, another_run, one_run
from core.acts.compact import list_file
from core.config import Config, load
from core.hashing import sha256_file
from core.ledger.store import open_workspace
from core.records.filter import Filter
from core.traces.writer import SegmentFile, write_table
from core.views.read import overview, runs
from core.views.read import traces as ask
from core.views.read.traces import Sort, field_names
from core.views.views import Snapshot, Views

GOAL_MS = {7_200: 100, 1_000_000: 300}
REPEATS = 5
PANDAS_REPEATS = 3
SHARDS = 30
"""A controlled run writes 3 seeds x 5 arms x 2 boundaries = 30 parts."""


def make_home(folder: Path, rows: int) -> Config:
    """Write the executions and list them in a store."""
    config = load(folder)
    base = one_run()
    parts: list[SegmentFile] = []
    for number in range(-(-rows // RUN_ROWS)):
        run = another_run(base, number)
        if rows == RUN_ROWS:
            step = RUN_ROWS // SHARDS
            parts += [write_table(config.traces, run.slice(i * step, step), f"shard-{i:02d}") for i in range(SHARDS)]
        else:
            parts.append(write_table(config.traces, run.slice(0, min(RUN_ROWS, rows - number * RUN_ROWS)), "run"))
    with open_workspace(config, create=True) as store, store.write() as tx:
        for part in parts:
            list_file(tx, config, part)
    return config


def median_ms(question: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the median by the clock and in processor time, in milliseconds."""
    clock, cpu = [], []
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        question()
        clock.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - used)
    return median(clock) * 1000, median(cpu) * 1000


LIST_COLUMNS = (
    "trace_id", "created_at", "run_id", "evidence_class", "arm", "boundary", "family", "episode_id", "event_text",
    "score", "fired", "outcome",
)  # fmt: skip
"""What a list shows."""


def questions(s: Snapshot) -> Mapping[str, Callable[[], Any]]:
    """Return what the pages ask, by name."""
    run_id = s.ask("trace", "SELECT max(run_id) AS r FROM trace").one()["r"]
    middle = s.ask("trace", "SELECT trace_id AS t FROM trace WHERE run_id = ? ORDER BY 1 LIMIT 1", [run_id]).one()["t"]
    trace = ask.one_trace(s, middle)

    def by(*tokens: str) -> Filter:
        return Filter.parse(tokens, field_names())

    every, text = by(), by("event_text:contains:Invoice contract")
    second = ask.list_traces(s, every, names=LIST_COLUMNS).next
    return {
        "list: newest page": lambda: ask.list_traces(s, every, names=LIST_COLUMNS),
        "list: second page": lambda: ask.list_traces(s, every, after=second, names=LIST_COLUMNS),
        "list: one run and arm": lambda: ask.list_traces(s, by(f"run_id:eq:{run_id}", "arm:eq:C3"), names=LIST_COLUMNS),
        "list: by score": lambda: ask.list_traces(s, every, Sort("score"), names=LIST_COLUMNS),
        "list: text contains": lambda: ask.list_traces(s, text, names=LIST_COLUMNS),
        "totals: everything": lambda: ask.totals(s, every),
        "totals: arm and score": lambda: ask.totals(s, by("arm:eq:C3", "score:ge:0.9")),
        "count: text contains": lambda: ask.count(s, text),
        "facets: arm": lambda: ask.facets(s, every, "arm"),
        "facets: outcome": lambda: ask.facets(s, every, "outcome"),
        "one execution": lambda: ask.one_trace(s, middle),
        "its other arms": lambda: ask.arms_of(s, trace),
        "its neighbours": lambda: ask.neighbours(s, by("arm:eq:C3"), middle),
        "find: whole id": lambda: ask.find_id(s, middle),
        "find: no such id": lambda: ask.find_id(s, "no such id here"),
        "view arm_summary": lambda: runs.arm_summary(s, run_id),
        "view episode": lambda: runs.episodes(s, run_id),
        "view metric": lambda: runs.metrics(s, run_id),
        "view property": lambda: runs.properties(s, run_id),
        "view score_histogram": lambda: runs.score_histogram(s, run_id),
        "view score_summary": lambda: runs.score_summary(s, run_id),
        "view null_audit": lambda: runs.null_audit(s, run_id),
        "overview": lambda: overview.overview(s),
    }


def in_pandas(config: Config, run_id: str, trace_id: str) -> Mapping[str, Callable[[], Any]]:
    """Return the same with pandas over the same files, where one would try."""
    files = sorted(config.traces.rglob("*.parquet"))

    def read(*names: str) -> pd.DataFrame:
        return pd.concat([pd.read_parquet(f, columns=list(names), partitioning=None) for f in files])

    stored = [c for c in LIST_COLUMNS if c != "outcome"]
    pool = ["evidence_class", "origin", "contract", "run_id"]

    def of_run(*names: str) -> pd.DataFrame:
        rows = read("run_id", *names)
        return rows[rows["run_id"].eq(run_id)]

    return {
        "list: newest page": lambda: read(*stored).nlargest(50, "created_at"),
        "list: by score": lambda: read(*stored).nlargest(50, "score"),
        "list: text contains": lambda: (r := read(*stored))[
            r["event_text"].str.contains("invoice contract", case=False, regex=False)
        ].head(50),
        "totals: everything": lambda: (
            read(*pool, "episode_id", "fired", "correct")
            .groupby(pool)
            .agg(
                n=("fired", "size"),
                episodes=("episode_id", "nunique"),
                fired=("fired", "sum"),
                right=("correct", "sum"),
            )
        ),
        "count: text contains": lambda: (
            read("event_text")["event_text"].str.contains("invoice contract", case=False, regex=False).sum()
        ),
        "facets: arm": lambda: read("arm")["arm"].value_counts(),
        "one execution": lambda: (r := read("trace_id", "steps", "records", "decisions"))[r["trace_id"].eq(trace_id)],
        "view arm_summary": lambda: (
            of_run("arm", "seed", "episode_id", "correct", "expected_trigger")
            .groupby(["arm", "seed", "episode_id"])
            .all()
            .groupby("arm")["correct"]
            .mean()
        ),
        "view null_audit": lambda: (
            of_run("arm", "family", "boundary", "null_trial", "audit_output_equal")
            .query("null_trial")
            .groupby(["arm", "family", "boundary"])
            .count()
        ),
    }


def measure(rows: int) -> bool:
    """Print one table and return whether every question met its goal."""
    goal = GOAL_MS.get(rows, 300)
    with tempfile.TemporaryDirectory() as folder:
        config = make_home(Path(folder) / "home", rows)
        files = list(config.traces.rglob("*.parquet"))
        size = sum(f.stat().st_size for f in files) / 1e6
        hashed = median_ms(lambda: [sha256_file(f) for f in files])[0]
        begin = time.perf_counter()
        with closing(Views(config)) as views, views.snapshot() as s:
            opened = (time.perf_counter() - begin) * 1000
            last = s.ask("trace", "SELECT max(run_id) AS r, max(trace_id) AS t FROM trace").one()
            beside = in_pandas(config, last["r"], last["t"])
            print(f"\n{rows:,} executions in {len(files)} files, {size:,.0f} MB; goal {goal} ms")
            print(f"views opened in {opened:,.0f} ms; hashing the files alone takes {hashed:,.0f} ms")
            print(f"{'question':24}{'clock ms':>10}{'cpu ms':>10}{'pandas cpu':>12}{'ratio':>8}")
            met = True
            for name, question in questions(s).items():
                clock, cpu = median_ms(question)
                good = clock < goal
                met &= good
                other = median_ms(beside[name], PANDAS_REPEATS)[1] if name in beside else None
                tail = f"{'':20}" if other is None else f"{other:12,.0f}{other / cpu:8.1f}"
                print(f"{name:24}{clock:10,.1f}{cpu:10,.1f}{tail}{'' if good else '   over the goal'}", flush=True)
    return met


def main() -> int:
    """Measure the sizes named on the command line, both by default."""
    sizes = [int(a.replace(",", "")) for a in sys.argv[1:]] or list(GOAL_MS)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; pandas {pd.__version__}, pyarrow {pa.__version__}")
    met = [measure(n) for n in sizes]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Rates only where every execution that a run says it stored can be read: what is left is no sample of a run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.synthetic_traces import one_run
from core.config import Config, load
from core.ledger.run_store import register_run
from core.ledger.store import open_workspace
from core.ledger.trace_tail import append
from core.records.run import RunStatus
from core.records.trace import EvidenceClass
from core.traces.dataset import from_row
from core.traces.writer import write_table
from core.views.views import Snapshot, Views
from tests.ledger.ledgers import manifest
from tests.views.made import altered, list_part

RATES = {
    "metric": ("k", "observed"),
    "property": ("k", "failing"),
    "arm_summary": ("right", "right_positive", "right_negative", "fired_negative", "acted_negative",
                    "non_action_negative", "utility", "triggered_action_accuracy", "correct_non_action",
                    "false_trigger_rate", "distractor_fires", "copies_disagree"),
    "null_audit": ("no_retrieved_id", "no_intervention", "no_later_use", "output_equal", "passed", "not_audited",
                   "regenerated"),
    "score_summary": ("scored", "fired", "correct", "missed", "false_fired", "score_min", "score_median", "score_max"),
    "score_histogram": ("fired",),
}  # fmt: skip
"""What each view counts or divides, besides n."""
COUNTS = {"arm_summary": ("n", "n_positive", "n_negative")}
PARTS = 4


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Return a small synthetic run in which every view has a row."""
    return one_run(seed=3, seeds=(2026,), episodes=24)


def named(table: pa.Table, run_id: str) -> pa.Table:
    """Return the executions under another run, with ids of their own."""
    ids = [f"{run_id}{i}" for i in table["trace_id"].to_pylist()]
    for name, values in (("run_id", [run_id] * table.num_rows), ("trace_id", ids)):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values, pa.string()))
    return table


def workspace(home: Path, table: pa.Table, status: RunStatus | None = RunStatus.COMPLETE) -> Config:
    """Make a workspace of two runs of the same executions, each in parts, with manifests unless there is no status."""
    config, step = load(home), -(-table.num_rows // PARTS)
    with open_workspace(config, create=True) as store, store.write() as tx:
        for run_id in ("run", "sun"):
            rows = named(table, run_id)
            for i in range(PARTS):
                list_part(tx, config, write_table(config.traces, rows.slice(i * step, step), f"part-{i}"))
            if status is not None:
                planned = rows.num_rows + (status is not RunStatus.COMPLETE)
                register_run(tx, manifest(run_id, status=status, planned=planned, stored=rows.num_rows))
    return config


@pytest.fixture
def config(tmp_path: Path, table: pa.Table) -> Config:
    """Return a workspace of two whole runs."""
    return workspace(tmp_path / "home", table)


def look(config: Config) -> Iterator[Snapshot]:
    """Open the views anew."""
    with closing(Views(config)) as views, views.snapshot() as snapshot:
        yield snapshot


def counted(snapshot: Snapshot, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every view that counts, of one run."""
    return {
        view: snapshot.ask(view, f"SELECT * EXCLUDE run_id FROM {view} WHERE run_id = ? ORDER BY ALL", [run_id]).rows()
        for view in RATES
    }


def undefined(views: dict[str, list[dict[str, Any]]]) -> bool:
    """Return whether no view says a number; not in a single cell."""
    cells = [r[c] for view, rows in views.items() for r in rows for c in RATES[view]]
    counts = [r[c] for view, rows in views.items() for r in rows for c in COUNTS.get(view, ("n",))]
    return all(views.values()) and set(cells) == {None} and set(counts) == {0}


def part_of(config: Config, run_id: str) -> Path:
    """Return one of a run's files."""
    return sorted(p for p in config.traces.rglob("*.parquet") if p.parent.name == run_id)[1]


def change(config: Config, sql: str, *values: str) -> None:
    """Change the store past every guard."""
    with closing(sqlite3.connect(config.store)) as connection, connection:
        assert connection.execute(sql, values).rowcount == 1


def unlisted(config: Config) -> None:
    change(config, "DELETE FROM segment WHERE path LIKE '%/run/part-1.parquet'")


def doubled(config: Config) -> None:
    """List the rows of one part in place of another's: as many as the run stored, in a file of other bytes."""
    rows = pq.read_table(part_of(config, "run"), partitioning=None)
    at = rows.schema.get_field_index("event_text")
    rows = rows.set_column(at, rows.schema.field(at), pa.array(["x"] * rows.num_rows, pa.string()))
    change(config, "DELETE FROM segment WHERE path LIKE '%/run/part-2.parquet'")
    with open_workspace(config) as store, store.write() as tx:
        list_part(tx, config, write_table(config.traces, rows, "part-9"))


DAMAGE: dict[str, Callable[[Config], None]] = {
    "missing": lambda config: part_of(config, "run").unlink(),
    "cut": lambda config: os.truncate(part_of(config, "run"), 1000),
    "altered": lambda config: altered(part_of(config, "run")),
    "no longer listed": unlisted,
    "one part twice for another": doubled,
    "more stored": lambda config: change(config, "UPDATE run SET stored = stored + 1 WHERE run_id = ?", "run"),
    "fewer stored": lambda config: change(config, "UPDATE run SET stored = stored - 1 WHERE run_id = ?", "run"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_run_that_is_not_whole_has_no_rate_and_still_its_rows(config: Config, table: pa.Table, how: str) -> None:
    for s in look(config):
        before = counted(s, "run")
        assert before == counted(s, "sun")
        assert not any(undefined({view: rows}) for view, rows in before.items())
        ids = {r["trace_id"] for r in s.ask("trace", "SELECT trace_id FROM trace").rows()}
    DAMAGE[how](config)
    for s in look(config):
        assert undefined(counted(s, "run"))
        assert counted(s, "sun") == before
        episodes = s.ask("episode", "SELECT run_id, bool_or(whole) AS whole FROM episode GROUP BY 1 ORDER BY 1").rows()
        assert episodes == [{"run_id": "run", "whole": False}, {"run_id": "sun", "whole": True}]
        shown = {r["trace_id"] for r in s.ask("trace", "SELECT trace_id FROM trace").rows()}
        assert shown <= ids
        assert len(shown) > table.num_rows


@pytest.mark.parametrize("status", [RunStatus.COMPLETE, RunStatus.PARTIAL, RunStatus.FAILED])
def test_a_run_that_holds_what_it_says_is_whole_however_it_ended(
    tmp_path: Path, table: pa.Table, status: RunStatus
) -> None:
    for s in look(workspace(tmp_path / "home", table, status)):
        assert s.ask("run_rows", "SELECT * FROM run_rows WHERE run_id = 'run'").rows() == [
            {"run_id": "run", "stored": table.num_rows, "present": table.num_rows, "left_out": 0, "whole": True}
        ]
        rows = [r for r in table.to_pylist() if r["arm"] == "C3"]
        wrong = {r["episode_id"] for r in rows if not r["correct"]}
        (arm,) = (r for r in counted(s, "run")["arm_summary"] if r["arm"] == "C3")
        assert (arm["n"], arm["right"]) == (24, 24 - len(wrong))
        assert 0 < arm["utility"] == (24 - len(wrong)) / 24 < 1


def test_executions_without_a_manifest_are_whole_until_a_segment_of_theirs_is_lost(
    tmp_path: Path, table: pa.Table
) -> None:
    config = workspace(tmp_path / "home", table, None)
    live = from_row(table.to_pylist()[0]).model_copy(
        update={"run_id": "live", "evidence_class": EvidenceClass.DEMO, "trace_id": "live"}
    )
    with open_workspace(config) as store, store.write() as tx:
        append(tx, live)

    def whole(s: Snapshot) -> dict[str, bool]:
        return {r["run_id"]: r["whole"] for r in s.ask("run_rows", "SELECT * FROM run_rows").rows()}

    for s in look(config):
        assert whole(s) == {"live": True, "run": True, "sun": True}
    part_of(config, "run").unlink()
    for s in look(config):
        assert whole(s) == {"live": True, "run": False, "sun": True}
        assert undefined(counted(s, "run"))
    # A lost segment of several runs may have held rows of any.
    change(config, "UPDATE segment SET run_id = NULL WHERE path LIKE '%/run/part-1.parquet'")
    for s in look(config):
        assert whole(s) == dict.fromkeys(("live", "run", "sun"), False)


def test_a_file_that_is_listed_twice_is_counted_once_and_named(config: Config) -> None:
    for s in look(config):
        before = counted(s, "run")
    part = part_of(config, "run")
    copy = part.parent.parent / "copy" / part.name
    copy.parent.mkdir()
    copy.write_bytes(part.read_bytes())
    path, twin = (p.relative_to(config.home).as_posix() for p in (part, copy))
    columns = "rows, sha256, min_id, max_id, evidence_class, run_id, tail_through, last_seq"
    insert = f"INSERT INTO segment (path, {columns}) SELECT ?, {columns} FROM segment WHERE path = ?"
    change(config, insert, twin, path)
    for s in look(config):
        rows = pq.read_metadata(part).num_rows
        assert s.problems == (
            f"The trace file {path} holds the same bytes as {twin}; its {rows} executions are shown once.",
        )
        assert counted(s, "run") == before
    copy.unlink()  # the other one is then the only one
    for s in look(config):
        assert len(s.problems) == 1
        assert s.problems[0].startswith(f"The trace file {twin} is missing; ")
        assert len(s.ask("trace", "SELECT DISTINCT trace_id FROM trace WHERE run_id = 'run'").rows()) == sum(
            r["executions"] for r in before["arm_summary"]
        )
        assert undefined(counted(s, "run"))


# -- the stamp ---------------------------------------------------------------------------------------------------------


def test_the_stamp_changes_with_entries_listed_files_their_bytes_and_what_is_left_out(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    with closing(Views(config)) as views:

        def stamp() -> str:
            with views.snapshot() as s:
                return s.stamp

        seen.append(stamp())
        assert stamp() == seen[0]
        with open_workspace(config) as store, store.write() as tx:
            register_run(tx, manifest("another"))
        seen.append(stamp())
        part = part_of(config, "run")
        whole = part.read_bytes()
        part.write_bytes(whole[:-1] + b"!")  # no entry tells of it
        with views.snapshot() as s:
            assert len(s.problems) == 1
            seen.append(s.stamp)
        part.write_bytes(whole)
        with views.snapshot() as s:
            assert s.problems == ()
            seen.append(s.stamp)
        unlisted(config)
        seen.append(stamp())
        part_of(config, "sun").unlink()
        seen.append(stamp())
        assert stamp() == seen[-1]
        # Decay changes no mark: every file is checked again once a question has failed.
        monkeypatch.setattr("core.views.segments.sha256_file", lambda path: "0" * 64)
        views.explain(ValueError("as if a file could not be read"))
        seen.append(stamp())
    assert len(set(seen)) == len(seen)

"""Every view: its header, its empty self, its columns, its grain; and what reading is like while others write."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.acts.compact import compact_tail
from core.cli import main
from core.config import Config, load
from core.errors import StoreError, ViewError
from core.hashing import sha256_file
from core.ledger.store import open_workspace
from core.ledger.trace_tail import append
from core.records.annotation import TargetKind
from core.records.filter import Filter
from core.records.record import RecordState
from core.records.run import RunStatus
from core.records.trace import ArmName, Boundary, EvidenceClass, Origin, Trace
from core.traces.writer import write_parquet
from core.views.catalog import FOLDER, HEADER, VIEW_NAMES, parse, view_file
from core.views.read import ledger, overview, runs
from core.views.read.traces import (
    Found,
    IdKind,
    arms_of,
    columns,
    count,
    find_id,
    list_traces,
    one_trace,
    totals,
)
from core.views.tables import StoreReader
from core.views.views import Snapshot, Views
from tests.views.made import altered, list_part, made_trace, made_traces, store_of, written

GRAIN = {
    "trace": ["trace_id"],
    "run": ["run_id"],
    "annotation": ["id"],
    "record": ["namespace", "record_id"],
    "ledger_entry": ["seq"],
    "run_rows": ["run_id"],
    "episode": ["run_id", "origin", "contract", "arm", "seed", "episode_id"],
    "arm_summary": ["run_id", "origin", "contract", "arm"],
    "score_histogram": ["run_id", "origin", "contract", "arm", "family", "expected_trigger", "threshold", "bin"],
    "score_summary": ["run_id", "origin", "contract", "arm", "family", "boundary", "seed", "expected_trigger"],
    "null_audit": ["run_id", "origin", "contract", "arm", "family", "boundary"],
    "metric": ["run_id", "origin", "contract", "metric"],
    "property": ["run_id", "origin", "contract", "item"],
}
BASE = {"trace", "run", "annotation", "record", "ledger_entry", "run_rows"}
AGGREGATES = [n for n in VIEW_NAMES if n not in BASE]
ACCEPTED: dict[str, set[str]] = {
    "evidence_class": set(EvidenceClass),
    "origin": set(Origin),
    "arm": set(ArmName),
    "boundary": set(Boundary),
    "status": set(RunStatus),
    "target_kind": set(TargetKind),
    "state": set(RecordState),
    "outcome": {"right action", "right silence", "missed", "false action", "wrong record", "wrong payload"},
    "path": {"intervention", "null path"},
    "item": {"P1", "P2", "P3", "P4", "P5", "P6"},
}


def test_every_file_is_a_view_and_every_view_a_file() -> None:
    assert {p.stem for p in FOLDER.glob("*.sql")} == set(VIEW_NAMES) == set(GRAIN)


@pytest.mark.parametrize("name", VIEW_NAMES)
def test_the_header_is_whole_and_every_column_is_described(empty: Snapshot, name: str) -> None:
    file = view_file(name)
    assert set(file.header) == set(HEADER)
    table = empty.ask(name, f"SELECT * FROM {name}").table
    assert table.num_rows == 0
    assert list(file.columns) == table.column_names
    assert all(text.strip().endswith(".") for text in file.columns.values())


def test_a_file_without_a_header_line_is_refused() -> None:
    with pytest.raises(ViewError, match=r"The view file x\.sql lacks Grain, Source in its header\."):
        parse("x", "-- Title: X\n-- Evidence class: none\nSELECT 1")


@pytest.mark.parametrize("name", VIEW_NAMES)
def test_no_two_rows_have_the_same_grain(snapshot: Snapshot, name: str) -> None:
    grain = ", ".join(GRAIN[name])
    double = snapshot.ask(name, f"SELECT {grain}, count(*) FROM {name} GROUP BY ALL HAVING count(*) > 1")
    assert double.rows() == []


@pytest.mark.parametrize("name", VIEW_NAMES)
def test_values_are_accepted_ones_and_keys_are_set(snapshot: Snapshot, name: str) -> None:
    for column in set(view_file(name).columns) & set(ACCEPTED):
        seen = {r["v"] for r in snapshot.ask(name, f"SELECT DISTINCT {column} AS v FROM {name}").rows()}
        assert seen <= ACCEPTED[column], column
    key = GRAIN[name][0]
    assert snapshot.ask(name, f"SELECT count(*) AS n FROM {name} WHERE {key} IS NULL").one()["n"] == 0


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_never_pools_classes_origins_contracts_or_runs(
    snapshot: Snapshot, rows: list[Trace], name: str
) -> None:
    keys = ["evidence_class", "origin", "contract", "run_id"]
    assert set(keys) <= set(view_file(name).columns)
    found = {tuple(r.values()) for r in snapshot.ask(name, f"SELECT DISTINCT {', '.join(keys)} FROM {name}").rows()}
    stored = {(t.evidence_class.value, t.origin.value, t.contract, t.run_id) for t in rows}
    assert found <= stored
    if name in ("episode", "arm_summary", "score_summary", "metric"):
        assert found == stored


def test_an_aggregate_is_asked_for_one_run_or_refused(snapshot: Snapshot) -> None:
    for question in (runs.arm_summary, runs.episodes, runs.metrics, runs.properties, runs.score_histogram):
        with pytest.raises(ViewError, match="is asked for one run; none was named"):
            question(snapshot, "")
    with pytest.raises(ViewError, match="There is no run 'x' here"):
        runs.run(snapshot, "x")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Snapshot]:
    """Look at a workspace that does not exist."""
    views = Views(load(tmp_path / "none"))
    with views.snapshot() as snapshot:
        yield snapshot
    views.close()


def test_an_empty_workspace_answers_every_question(empty: Snapshot) -> None:
    seen = overview.overview(empty)
    assert (seen.as_of, seen.entries, seen.latest_controlled, seen.arms, seen.problems) == (0, 0, None, None, ())
    assert list_traces(empty, Filter()).answer.rows() == totals(empty, Filter()).rows() == []
    assert find_id(empty, "anything at all") is None
    assert ledger.entries(empty).rows() == runs.runs(empty).rows() == []
    with pytest.raises(ViewError, match="There is no execution 'x' here"):
        one_trace(empty, "x")


def test_one_trace_is_the_one_that_was_stored(snapshot: Snapshot, rows: list[Trace]) -> None:
    assert [one_trace(snapshot, t.trace_id) for t in rows[::7]] == rows[::7]


def test_columns_have_a_sentence_a_kind_and_their_closed_sets() -> None:
    by_name = {c.name: c for c in columns()}
    assert all(c.description for c in columns())
    assert by_name["arm"].values == ("C0", "C1", "C2", "C3", "C4")
    assert by_name["null_reason"].values[0] == "no_active_record"
    assert by_name["event_text"].values == ()
    assert (by_name["score"].kind, by_name["seed"].kind, by_name["steps"].kind) == ("number", "whole number", "nested")


def test_the_other_arms_are_those_of_the_same_run_episode_seed_and_boundary(tmp_path: Path) -> None:
    same = {"run_id": "run-a", "evidence_class": "controlled", "episode_id": "e", "seed": 1, "backbone": "b"}
    rng = random.Random(1)
    rows = [
        made_trace(rng, n, **same, arm=a, boundary=b)
        for n, (a, b) in enumerate((a, b) for a in ArmName for b in Boundary)
    ]
    rows += [made_trace(rng, 90, **(same | {"seed": 2}), arm="C0", boundary="restart")]
    views = Views(store_of(tmp_path / "home", rows))
    with views.snapshot() as snapshot:
        here = next(t for t in rows if t.arm is ArmName.C3 and t.boundary is Boundary.RESTART)
        expected = [t for t in rows[:10] if t.boundary is Boundary.RESTART and t.arm is not ArmName.C3]
        assert list(arms_of(snapshot, here)) == expected
    views.close()


def test_a_pasted_id_is_recognised_and_its_beginning_too(tmp_path: Path) -> None:
    ids = {"episode_id": "episode-77", "match_id": "match-0077", "fired_record": "record-abc", "expected_record": None}
    one = made_trace(random.Random(1), 1, run_id="run-a", evidence_class="controlled", **ids)
    two = made_trace(random.Random(2), 2, run_id="run-b", evidence_class="controlled", **(ids | {"episode_id": "e"}))
    views = Views(store_of(tmp_path / "home", [one], [two]))
    with views.snapshot() as s:

        def kind(text: str) -> tuple[IdKind, str, int] | None:
            found: Found | None = find_id(s, text)
            return None if found is None else (found.kind, found.id, found.executions)

        assert kind(f"  {one.trace_id} ") == (IdKind.TRACE, one.trace_id, 1)
        assert kind("00000001-") == (IdKind.TRACE, one.trace_id, 1)
        assert kind("run-a") == (IdKind.RUN, "run-a", 1)
        assert kind("episode-7") == (IdKind.EPISODE, "episode-77", 1)
        assert kind("match-007") == (IdKind.MATCH, "match-0077", 2)
        assert kind("record-abc") == (IdKind.RECORD, "record-abc", 2)
        assert kind("record-") is None  # seven characters
        assert kind("episode-8") is None
        assert kind("") is kind("\x00") is None
        found = find_id(s, "match-0077")
        assert found is not None
        assert count(s, found.filter) == 2
    views.close()


def test_two_ids_with_the_same_beginning_are_not_guessed_between(tmp_path: Path) -> None:
    rows = [made_trace(random.Random(n), n, episode_id=f"episode-{n}") for n in (1, 2)]
    views = Views(store_of(tmp_path / "home", rows))
    with views.snapshot() as s, pytest.raises(ViewError, match=r"Several ids begin with 'episode-' \(episode-1"):
        find_id(s, "episode-")
    views.close()


# -- refreshing and threads --------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return a workspace of six executions."""
    rows = made_traces(4, 6)
    return store_of(tmp_path / "home", rows[:3], rows[3:])


def test_a_new_snapshot_sees_what_another_process_committed_and_an_open_one_does_not(config: Config) -> None:
    views = Views(config)
    with views.snapshot() as before, open_workspace(config) as store:
        assert count(before, Filter()) == 6
        with store.write() as tx:
            append(tx, made_trace(random.Random(9), 50))
        with views.snapshot() as after:
            assert count(after, Filter()) == 7
            assert after.as_of == before.as_of + 1
            assert len(ledger.entries(after).rows()) == after.as_of
        assert count(before, Filter()) == 6
        compact_tail(config, store, at=1)
        with views.snapshot() as compacted:
            assert count(compacted, Filter()) == 7
        assert count(before, Filter()) == 6
    views.close()


def test_a_workspace_that_is_made_anew_is_read_anew(config: Config) -> None:
    views = Views(config)
    with views.snapshot() as snapshot:
        assert count(snapshot, Filter()) == 6
    for file in config.home.glob("store.sqlite*"):
        file.unlink()
    shutil.rmtree(config.traces)
    with views.snapshot() as snapshot:
        assert (count(snapshot, Filter()), snapshot.as_of, ledger.entries(snapshot).rows()) == (0, 0, [])
    with open_workspace(config, create=True) as store, store.write() as tx:
        append(tx, made_trace(random.Random(9), 50))
    with views.snapshot() as snapshot:
        assert count(snapshot, Filter()) == 1
        assert len(ledger.entries(snapshot).rows()) == snapshot.as_of
    views.close()


def test_four_threads_at_once_get_right_answers_while_a_writer_adds(config: Config) -> None:
    views = Views(config)
    written = [6]

    def read(_: int) -> list[tuple[int, int, int, int]]:
        seen = []
        for _ in range(12):
            low = written[0]
            with views.snapshot() as s:
                n = count(s, Filter())
                by_run = sum(r["executions"] for r in totals(s, Filter()).rows())
                seen.append((low, n, by_run, len(list_traces(s, Filter(), limit=1000).answer.rows())))
        return seen

    with open_workspace(config) as store, ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, i) for i in range(4)]
        for n in range(100, 115):
            with store.write() as tx:
                append(tx, made_trace(random.Random(n), n))
            written[0] += 1
            if n == 107:
                compact_tail(config, store, at=1)
        answers = [a for r in readers for a in r.result()]
    assert len(answers) == 48
    for low, n, by_run, listed in answers:
        assert low <= n <= 21  # acknowledged before it looked: seen
        assert n == by_run == listed
    views.close()


# -- damage ------------------------------------------------------------------------------------------------------------


def damaged(path: Path, how: str) -> str:
    """Damage a file and return what the sentence says about it."""
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
        return "is missing"
    if how == "folder":
        path.unlink()
        path.mkdir()
        return "cannot be read"
    if how == "altered":
        altered(path)
    elif how == "pages":
        half = len(data) // 2
        path.write_bytes(data[:4] + bytes(half - 4) + data[half:])  # the rows, not the footer
    else:
        path.write_bytes({"cut": data[:-20], "foreign": b"hello", "empty": b""}[how])
    return "is not the file that was listed (its SHA-256 differs)"


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("how", ["missing", "folder", "altered", "pages", "cut", "foreign", "empty"])
def test_a_damaged_segment_is_named_and_the_others_are_still_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, resident: bool
) -> None:
    if not resident:
        monkeypatch.setattr("core.views.segments.RESIDENT_ROWS", 0)
    rows = made_traces(4, 12)
    config = store_of(tmp_path / "home", rows)
    views = Views(config)
    with views.snapshot() as snapshot:
        assert (count(snapshot, Filter()), snapshot.problems) == (12, ())
    path = sorted(config.traces.rglob("*.parquet"))[0]
    lost = [t.trace_id for t in rows if t.run_id == path.parent.name]
    original = path.read_bytes()
    sentence = damaged(path, how)
    for opened in (views, again := Views(config)):
        with opened.snapshot() as snapshot:
            shown = {r["trace_id"] for r in snapshot.ask("trace", "SELECT * FROM trace").rows()}
            assert shown == {t.trace_id for t in rows} - set(lost)
            (problem,) = snapshot.problems
            assert problem.startswith(f"The trace file {path.relative_to(config.home).as_posix()} {sentence}")
            assert problem.endswith(f"; its {len(lost)} executions are not shown.")
            assert overview.overview(snapshot).problems == snapshot.problems
    if how == "folder":
        path.rmdir()
    path.write_bytes(original)
    with views.snapshot() as snapshot:
        assert (count(snapshot, Filter()), snapshot.problems) == (12, ())
    views.close()
    again.close()


def test_a_change_that_keeps_size_and_time_is_seen(config: Config) -> None:
    path = sorted(config.traces.rglob("*.parquet"))[0]
    views = Views(config)
    with views.snapshot() as snapshot:
        assert snapshot.problems == ()
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    with path.open("r+b") as f:
        f.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with views.snapshot() as snapshot:
        assert "is not the file that was listed" in snapshot.problems[0]
    views.close()


def test_a_file_that_vanishes_under_an_open_snapshot_is_one_sentence_and_named_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.views.segments.RESIDENT_ROWS", 0)
    config = store_of(tmp_path / "home", made_traces(4, 12))
    path = sorted(config.traces.rglob("*.parquet"))[0]
    views = Views(config)
    with views.snapshot() as snapshot:
        path.unlink()
        with pytest.raises(ViewError, match="The question could not be answered: ") as refused:
            snapshot.ask("trace", "SELECT * FROM trace")
        assert "\n" not in refused.value.message
    with views.snapshot() as snapshot:
        assert "is missing" in snapshot.problems[0]
    views.close()


def test_a_failed_question_has_every_file_checked_again(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decay of a disk changes bytes and no time; reading such a file fails."""
    views = Views(config)
    with views.snapshot() as snapshot:
        monkeypatch.setattr("core.views.segments.sha256_file", lambda path: "0" * 64)
    with views.snapshot() as snapshot:
        assert snapshot.problems == ()
        with pytest.raises(ViewError):
            snapshot.ask("trace", "SELECT no_such_column FROM trace")
    with views.snapshot() as snapshot:
        assert all("is not the file that was listed" in p for p in snapshot.problems)
        assert len(snapshot.problems) == len(list(config.traces.rglob("*.parquet")))
    views.close()


@pytest.mark.parametrize("listed", ["not parquet", "foreign columns", "other rows"])
def test_a_file_that_should_not_have_been_listed_is_named(tmp_path: Path, listed: str) -> None:
    config = store_of(tmp_path / "home", [])
    part = written(config.traces, [made_trace(random.Random(1), 1)])[0]
    if listed == "not parquet":
        part.path.write_bytes(b"not parquet")
    elif listed == "foreign columns":
        with part.path.open("rb") as f:
            write_parquet(part.path, pq.read_table(f).rename_columns({"seed": "grain"}))
    part = replace(part, sha256=sha256_file(part.path), rows=2 if listed == "other rows" else 1)
    with open_workspace(config, create=True) as store, store.write() as tx:
        list_part(tx, config, part)
    views = Views(config)
    with views.snapshot() as snapshot:
        assert count(snapshot, Filter()) == 0
        says = {
            "not parquet": "cannot be read (",
            "foreign columns": "holds foreign columns (grain)",
            "other rows": "holds 1 executions and was listed with 2",
        }
        assert says[listed] in snapshot.problems[0]
    views.close()


def test_a_segment_of_an_older_version_is_read_and_its_missing_columns_are_undefined(tmp_path: Path) -> None:
    rows = [made_trace(random.Random(n), n, run_id=f"run-{n}", evidence_class="demo") for n in range(3)]
    config = store_of(tmp_path / "home", [])
    old, new = written(config.traces, rows[:2])
    with old.path.open("rb") as f:
        fewer = pq.read_table(f).drop_columns(["store_reopened", "seed"])
    write_parquet(old.path, fewer)
    old = replace(old, sha256=sha256_file(old.path))
    with open_workspace(config, create=True) as store, store.write() as tx:
        for part in (old, new):
            list_part(tx, config, part)
        append(tx, rows[2])
    views = Views(config)
    with views.snapshot() as snapshot:
        assert snapshot.problems == ()
        found = snapshot.ask("trace", "SELECT trace_id, seed, store_reopened, arm FROM trace ORDER BY 1").rows()
        assert [tuple(r.values()) for r in found] == [
            (t.trace_id, None if t is rows[0] else t.seed, None if t is rows[0] else t.store_reopened, t.arm.value)
            for t in rows
        ]
    views.close()


def test_a_segment_listed_outside_the_trace_folders_is_not_read(tmp_path: Path) -> None:
    config = store_of(tmp_path / "home", [])
    part = written(tmp_path / "home" / "elsewhere", [made_trace(random.Random(1), 1)])[0]
    with open_workspace(config) as store, store.write() as tx:
        list_part(tx, config, part)
    views = Views(config)
    with views.snapshot() as snapshot:
        assert count(snapshot, Filter()) == 0
        assert "lies outside the trace folders" in snapshot.problems[0]
    views.close()


@pytest.mark.parametrize("content", [b"not a database at all, not at all" * 100, b"SQLite format 3\x00" + b"x" * 5000])
def test_a_store_that_is_none_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    config = load(tmp_path / "home")
    config.home.mkdir()
    config.store.write_bytes(content)
    views = Views(config)
    with pytest.raises(StoreError, match="The workspace's store cannot be read"), views.snapshot():
        pass
    views.close()


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    """Return the file of an empty workspace that nobody has open."""
    return store_of(tmp_path / "home", []).store


def said_of(store: Path) -> str:
    with pytest.raises(StoreError) as refused:
        StoreReader(store).read()
    return str(refused.value)


def test_a_full_disk_is_no_damaged_store(store_file: Path) -> None:
    """The limit on a file's size stands for the disk: the memory that readers share is a file too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        said = said_of(store_file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert said == (
        "The workspace's store cannot be read: the disk is full or failing (disk I/O error)."
        f" ({store_file}) Free some space and do it again."
    )
    with closing(StoreReader(store_file)) as reader:
        reader.read()


def test_a_name_in_the_schema_that_is_no_text_is_one_sentence(
    store_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(store_file)) as connection, connection:
        connection.execute("CREATE TABLE mine (a)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET name = CAST(x'6dff' AS TEXT) WHERE name = 'mine'")
    assert said_of(store_file) == (
        f"The workspace's store cannot be read: a name in its schema is no text. ({store_file})"
        " Run `python -m core ledger verify`."
    )
    monkeypatch.setattr("core.cli.base.is_prepared", lambda config: True)
    assert main(["ledger", "verify", "--home", str(store_file.parent)]) == 1
    said = capsys.readouterr()
    assert "The store's file is damaged and cannot be read." in said.out
    assert said.err == ""


def test_an_instant_that_is_none_is_one_sentence(store_file: Path) -> None:
    with closing(sqlite3.connect(store_file)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE entry SET at = 'noon'")
    assert said_of(store_file) == (
        "The workspace's store cannot be read: 'noon' is not an instant: write RFC 3339 with an offset, like"
        f" 2026-12-04T09:00:00-05:00. ({store_file}) Run `python -m core ledger verify`."
    )


def test_a_store_that_the_system_does_not_open_is_one_sentence(tmp_path: Path) -> None:
    circle, folder = tmp_path / "circle", tmp_path / "folder"
    circle.symlink_to("circle")
    folder.mkdir()
    assert said_of(folder) == f"The store is not a file. ({folder})"
    assert said_of(circle) == (
        f"The workspace's store cannot be read: Too many levels of symbolic links. ({circle})"
        " Give yourself the right to read it and to write in its folder, or copy the workspace."
    )

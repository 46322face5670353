from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.config import ROOT, load
from core.errors import CheckFailed, EvidenceMissing, InputError, StoreError
from core.evaluation import amend, frozen, manifest, run_files, runs, ship, summary, verify
from core.evaluation.claims import ClaimStatus
from core.evaluation.plan import Plan, Setup
from core.evaluation.rerun import by_key
from core.evaluation.runs import Finished
from core.evaluation.shard import Tools
from core.evaluation.ship import ShipRefused
from core.hashing import sha256_file
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, EvidenceFrozen
from core.ledger.ledger import HeadFile
from core.ledger.run_store import get_run
from core.ledger.run_store import runs as listed_runs
from core.ledger.store import open_workspace
from core.records.run import Decided, RunStatus
from core.records.trace import EvidenceClass
from core.views.read.standing import standing
from tests.evaluation import small


@dataclass(frozen=True)
class SmallComplete(Plan):
    """Four episodes that pass for the whole evaluation."""

    limit: int | None = 4

    @property
    def complete(self) -> bool:
        return True


@dataclass(frozen=True)
class World:
    """A workspace with a complete run, and an evidence folder in which contract and cases are frozen."""

    home: Path
    evidence: Path
    setup: Setup
    done: Finished


@pytest.fixture(autouse=True, scope="module")
def _code_stands_still() -> Iterator[None]:
    """Somebody may edit a file while the tests run; here that would be another run's code."""
    taken = manifest.take("controlled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "take", lambda contract, root=None: taken)
        patch.setattr(manifest, "commit", lambda root=None: "c" * 40)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    base = tmp_path_factory.mktemp("world")
    setup = replace(small.SETUP, evidence=base / "evidence")
    frozen.freeze([ROOT / "data/contracts", ROOT / "data/controlled"], "person:tester", setup.evidence)
    done = runs.evaluate(load(base / "home"), SmallComplete(jobs=2), setup=setup)
    return World(base / "home", setup.evidence, setup, done)


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    """A copy of it that a test may damage."""
    shutil.copytree(made.home.parent, tmp_path / "world")
    base = tmp_path / "world"
    return World(base / "home", base / "evidence", replace(made.setup, evidence=base / "evidence"), made.done)


def ship_it(world: World) -> ship.Shipped:
    return ship.ship(load(world.home), world.done.manifest, evidence=world.evidence, tools=small.tools)


def verify_it(world: World, count: int = 0, setup: Setup | None = None) -> verify.Verification:
    return verify.verify(load(world.home), count, evidence=world.evidence, setup=setup or world.setup)


def failed(found: verify.Verification) -> list[str]:
    return [c.sentence for c in found.checks if c.ok is False]


# -- the complete run --------------------------------------------------------------------------------------------------


def test_a_complete_run_gives_criteria_counted_from_its_rows(made: World) -> None:
    m = made.done.manifest
    assert (m.status, m.evidence_class, m.note, m.stored) == (RunStatus.COMPLETE, EvidenceClass.CONTROLLED, "", 40)
    config = load(made.home)
    assert summary.stored_run(config, None) == summary.stored_run(config, m.run_id) == m
    rows = summary.criteria(m, summary.rows_of(config, m))
    assert len(rows) == 11
    assert {r.run_id for r in rows} == {m.run_id}
    by_metric = {r.metric: r for r in rows}
    assert by_metric["memory_write_success"].decision is Decided.MET
    assert by_metric["frozen_backbone_integrity"].n == 4


def test_the_diagnostic_is_a_run_of_its_own_and_stays_failed_where_it_fails(made: World) -> None:
    config = load(made.home)
    found = summary.actuation_of(config, made.done.manifest)
    assert found is not None
    assert (found.kind, found.status, found.contract) == ("actuation", RunStatus.FAILED, "actuation")
    assert found.finished_at is not None
    assert made.done.manifest.started_at < found.started_at <= found.finished_at
    assert found.note == (
        f"Reads the triggered C3 executions of run {made.done.manifest.run_id}. "
        f"Agreement 0.000 of {found.stored // 2} episodes, required 0.80: not met. No claim rests on it."
    )
    (row,) = summary.actuation_criteria(found, summary.rows_of(config, made.done.manifest))
    assert (row.observed, row.decision, row.method) == (0.0, Decided.NOT_MET, "backbone")


def test_claims_are_read_off_the_criteria(made: World, tmp_path: Path) -> None:
    config = load(made.home)
    table = {c.claim: c for c in summary.claims_table(config)}
    rows = summary.criteria(made.done.manifest, summary.rows_of(config, made.done.manifest))
    whole = table["Under controlled conditions the complete mechanism meets its frozen contract"]
    worst = {r.decision for r in rows}
    expected = ClaimStatus.REJECTED if Decided.NOT_MET in worst else ClaimStatus.NOT_TESTED
    assert (whole.status, whole.run_id) == (expected, made.done.manifest.run_id)
    assert table["The unchanged trigger transfers to naturalistic wording"].status is ClaimStatus.NOT_TESTED
    own = table["The backbone carries out an exposed payload by itself"]
    assert own.status is ClaimStatus.NO_CLAIM
    assert own.limit.startswith("Criterion not met: 0.000 of ")
    assert [c.status for c in table.values() if c.evidence_class is None] == [ClaimStatus.NO_CLAIM] * 8
    with open_workspace(load(tmp_path / "empty"), create=True):
        empty = summary.claims_table(load(tmp_path / "empty"))
    assert {c.status for c in empty} == {ClaimStatus.NOT_TESTED, ClaimStatus.NO_CLAIM}
    assert all(c.run_id is None for c in empty)
    assert all(set(c.as_dict()) == {"claim", "status", "class", "run", "limit"} for c in empty)


def test_a_run_that_enters_no_criterion_is_refused_by_name(made: World) -> None:
    config = load(made.home)
    diagnostic = summary.actuation_of(config, made.done.manifest)
    assert diagnostic is not None
    with pytest.raises(InputError, match=f"Run {diagnostic.run_id} is of kind actuation, not controlled"):
        summary.stored_run(config, diagnostic.run_id)
    with pytest.raises(InputError, match="There is no run 'nothing' in this workspace"):
        summary.stored_run(config, "nothing")


def test_another_contract_than_the_runs_is_refused(made: World, tmp_path: Path) -> None:
    text = (ROOT / "data/contracts/controlled.csv").read_text()
    (tmp_path / "controlled.csv").write_text(text.replace("0.80", "0.70"))
    rows = summary.rows_of(load(made.home), made.done.manifest)
    with pytest.raises(CheckFailed, match="The contract controlled is not the one run .* was run under"):
        summary.criteria(made.done.manifest, rows, tmp_path)


# -- the rows a criterion rests on -------------------------------------------------------------------------------------


def parts_of(folder: Path) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = json.loads((folder / "parts.json").read_bytes())
    return parts


def relist(folder: Path, parts: list[dict[str, Any]]) -> None:
    """Write `parts.json` as whoever altered the files would: with the sizes and hashes that they have now."""
    for part in parts:
        path = folder / f"{part['name']}.parquet"
        part.update(bytes=path.stat().st_size, sha256=sha256_file(path), rows=pq.read_metadata(path).num_rows)
    (folder / "parts.json").write_text(json.dumps(parts))


def list_in_the_store(world: World, folder: Path) -> None:
    """Write what `parts.json` says into the store too, past the ledger."""
    with closing(sqlite3.connect(world.home / "store.sqlite")) as store, store:
        for part in parts_of(folder):
            told = (part["sha256"], part["rows"], f"%/{part['name']}.parquet")
            store.execute("UPDATE segment SET sha256 = ?, rows = ? WHERE path LIKE ?", told)


def rewrite(folder: Path, **columns: Any) -> None:
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        for name, value in columns.items():
            field = table.schema.field(name)
            cells = pa.array([value] * len(table), field.type)
            table = table.set_column(table.schema.get_field_index(name), field, cells)
        pq.write_table(table, path)
    relist(folder, parts_of(folder))


def nothing_is_counted(world: World) -> str:
    """Assert that criteria, claims, overview and shipping refuse alike; return the sentence."""
    config, m = load(world.home), world.done.manifest
    said = set()
    for count in (
        lambda: summary.rows_of(config, m),
        lambda: summary.claims_table(config),
        lambda: standing(config),
        lambda: ship_it(world),
    ):
        with pytest.raises(EvidenceMissing) as caught:
            count()
        said.add(caught.value.message)
    (sentence,) = said
    return sentence


@pytest.fixture
def folder(world: World) -> Path:
    """Return the folder of the complete run in a workspace that a test may damage."""
    return world.home / "traces" / "controlled" / world.done.manifest.run_id


def test_parts_left_out_of_their_list_are_missed(world: World, folder: Path) -> None:
    relist(folder, [p for p in parts_of(folder) if "C4" not in p["name"]])
    run_id = world.done.manifest.run_id
    assert nothing_is_counted(world) == (
        f"The store lists traces/controlled/{run_id}/2026-C4-restart.parquet for run {run_id}, "
        "and parts.json does not name it: nothing is counted."
    )


def test_a_part_listed_twice_under_another_name_is_no_part_of_the_run(world: World, folder: Path) -> None:
    again = next(p for p in parts_of(folder) if p["name"] == "2026-C3-restart") | {"name": "2026-C3-restart2"}
    shutil.copy(folder / "2026-C3-restart.parquet", folder / "2026-C3-restart2.parquet")
    relist(folder, [*parts_of(folder), again])
    run_id = world.done.manifest.run_id
    assert nothing_is_counted(world) == (
        f"parts.json names traces/controlled/{run_id}/2026-C3-restart2.parquet, "
        f"which the store does not list for run {run_id}: nothing is counted."
    )


def test_parts_written_anew_with_their_list_are_not_the_listed_ones(world: World, folder: Path) -> None:
    rewrite(folder, evidence_class="development", run_id="elsewhere", correct=True)
    run_id = world.done.manifest.run_id
    assert nothing_is_counted(world) == (
        f"parts.json gives traces/controlled/{run_id}/2026-C0-restart.parquet other rows or another SHA-256 "
        "than the store lists: nothing is counted."
    )


@pytest.mark.parametrize(
    ("column", "value", "own"),
    [
        ("run_id", "elsewhere", None),
        ("evidence_class", "development", "controlled"),
        ("origin", "published", "ours"),
        ("contract", None, "controlled"),
    ],
)
def test_rows_of_another_run_or_kind_are_refused_even_where_the_store_was_altered_too(
    world: World, folder: Path, column: str, value: str | None, own: str | None
) -> None:
    rewrite(folder, **{column: value})
    list_in_the_store(world, folder)
    run_id = world.done.manifest.run_id
    assert nothing_is_counted(world) == (
        f"An execution listed for run {run_id} says {column} {value!r} instead of {own or run_id!r}: "
        "nothing is counted."
    )


def test_an_execution_that_stands_twice_is_refused_even_where_the_store_was_altered_too(
    world: World, folder: Path
) -> None:
    shutil.copy(folder / "2026-C3-restart.parquet", folder / "2026-C2-restart.parquet")
    relist(folder, parts_of(folder))
    list_in_the_store(world, folder)
    assert re.fullmatch(r"Run \S+ holds the execution \w{64} twice: nothing is counted\.", nothing_is_counted(world))


def test_a_run_of_fewer_executions_than_it_planned_is_not_counted(world: World, folder: Path) -> None:
    kept = [p for p in parts_of(folder) if "C4" not in p["name"]]
    relist(folder, kept)
    count = sum(p["rows"] for p in kept)
    run_id = world.done.manifest.run_id
    with closing(sqlite3.connect(world.home / "store.sqlite")) as store, store:
        store.execute("DELETE FROM segment WHERE path LIKE '%-C4-%'")
    assert nothing_is_counted(world) == (
        f"The parts of run {run_id} hold {count} executions, and the store says 40: nothing is counted."
    )
    short = world.done.manifest.model_copy(update={"stored": count})
    with pytest.raises(EvidenceMissing, match=f"complete run {run_id} holds {count} of the 40 executions it planned"):
        summary.rows_of(load(world.home), short)


def test_the_folder_of_a_limited_run_is_not_taken_for_the_complete_one(world: World, folder: Path) -> None:
    limited = small.small_run(world.home, world.setup)
    shutil.rmtree(folder)
    shutil.copytree(limited.folder, folder)
    assert nothing_is_counted(world) == (
        f"The folder holds run '{limited.manifest.run_id}' instead of run {world.done.manifest.run_id}: "
        "nothing is counted."
    )
    manifest_too = (world.evidence.parent / "home/traces/controlled" / world.done.manifest.run_id) / "manifest.json"
    run_files.write_manifest(manifest_too.parent, world.done.manifest)
    assert "other rows or another SHA-256 than the store lists" in nothing_is_counted(world)


PART = {"name": "x", "rows": 1, "bytes": 1, "sha256": "", "min_id": "", "max_id": ""}
DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "null", "5", '"x"', "[1]", "[[]]", "[", DEEP, '{"a":' * 100_000,
        *(json.dumps([PART | {"name": n}]) for n in ("", "../x", "a/b", "..", "x\0", "x\n", 5, "n" * 200)),
        *(json.dumps([PART | change]) for change in ({"rows": -1}, {"rows": "1"}, {"bytes": 1e400}, {"sha256": None})),
        json.dumps([PART, PART]),
    ],
)  # fmt: skip
def test_a_damaged_list_of_parts_is_one_sentence(world: World, folder: Path, text: str) -> None:
    (folder / "parts.json").write_text(text)
    assert nothing_is_counted(world) in (
        "The run's list of parts cannot be read.",
        "The run's list of parts names a part twice.",
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", "5", "[", DEEP])
def test_a_damaged_manifest_is_one_sentence(world: World, folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    assert nothing_is_counted(world) == "The run has no readable manifest."


@pytest.mark.parametrize("text", ["", "[]", "5", "null", "[", DEEP, '{"a":' * 100_000, '{"run_id": ["x"]}'])
def test_a_diagnostic_that_does_not_say_what_it_reads_is_left_out(world: World, text: str) -> None:
    config, m = load(world.home), world.done.manifest
    diagnostic = summary.actuation_of(config, m)
    assert diagnostic is not None
    (world.home / "traces" / "controlled" / diagnostic.run_id / "reads.json").write_text(text)
    assert summary.actuation_of(config, m) is None
    table = {c.claim: c for c in summary.claims_table(config)}
    assert table["The backbone carries out an exposed payload by itself"].run_id is None


@pytest.mark.parametrize("text", ["[]", "5", DEEP])
def test_damaged_file_hashes_are_one_sentence(world: World, folder: Path, text: str) -> None:
    (folder / "hashes.json").write_text(text)
    with pytest.raises(EvidenceMissing, match=r"^The run has no readable file hashes\. "):
        run_files.read_hashes(folder)


# -- freeze ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with one case file, its read me file, and a file that is neither contract nor case."""
    root = tmp_path / "project"
    (root / "data/controlled").mkdir(parents=True)
    (root / "data/contracts").mkdir()
    (root / "data/controlled/cases.jsonl").write_text("one\n")
    (root / "data/controlled/README.md").write_text("words\n")
    (root / "good.csv").write_text("x")
    return root


def test_freezing_twice_adds_nothing_and_a_change_is_a_new_set(project: Path, tmp_path: Path) -> None:
    evidence, folder = tmp_path / "evidence", project / "data/controlled"
    file, name = folder / "cases.jsonl", "data/controlled/cases.jsonl"
    (first,) = frozen.freeze([folder], "person:tester", evidence, project)
    assert (first.file, first.sha256, first.before, first.added) == (name, sha256_file(file), None, True)
    assert frozen.freeze([file], "person:tester", evidence, project)[0].added is False
    file.write_text("two\n")
    again = frozen.freeze([file], "person:tester", evidence, project)[0]
    assert (again.added, again.before) == (True, first.sha256)
    assert frozen.frozen_files(evidence) == {name: sha256_file(file)}
    assert len(EvidenceLedger(evidence).entries()) == 3


def test_files_are_frozen_in_one_append(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, folder = tmp_path / "evidence", project / "data/controlled"
    for name in "ab":
        (folder / f"{name}.jsonl").write_text(name)
    heads: list[int] = []
    write_head = EvidenceLedger._write_head

    def counted(self: EvidenceLedger, head: HeadFile) -> None:
        heads.append(head.count)
        write_head(self, head)

    monkeypatch.setattr(EvidenceLedger, "_write_head", counted)
    assert [f.added for f in frozen.freeze([folder], "person:tester", evidence, project)] == [True] * 3
    assert heads == [4]  # the genesis entry and three files
    assert EvidenceLedger(evidence).verify().ok
    assert [f.added for f in frozen.freeze([folder], "person:tester", evidence, project)] == [False] * 3
    assert heads == [4]


def test_an_append_of_several_entries_of_which_one_has_no_place_appends_none(tmp_path: Path) -> None:
    ledger = EvidenceLedger(tmp_path)
    good = EvidenceFrozen(file="a", sha256="0" * 64)
    with pytest.raises(StoreError, match="has no place in the evidence ledger"):
        ledger.append_all(
            [(EntryKind.EVIDENCE_FROZEN, good, "file:a"), (EntryKind.RECORD_WRITTEN, good, "file:b")], "person:tester"
        )
    assert ledger.entries() == []
    assert ledger.append_all([], "person:tester") == []
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data/controlled/missing.csv", "There is no such file to freeze."),
        ("data/controlled/cases.jsonl/below", "There is no such file to freeze."),
        ("data/controlled/" + "n" * 300, "There is no such file to freeze."),
        ("data/contracts", "The folder holds no file to freeze."),
        ("../outside.csv", "Only files of this project can be frozen."),
        ("data/controlled/folder_link/outside.csv", "Only files of this project can be frozen."),
        ("", "Only contracts and cases are frozen."),
        ("data", "Only contracts and cases are frozen."),
        ("data/controlled/../..", "Only contracts and cases are frozen."),
        ("pyproject.toml", "Only contracts and cases are frozen."),
        ("data/evidence", "Only contracts and cases are frozen."),
        ("data/evidence/ledger.jsonl", "Only contracts and cases are frozen."),
        (".git/config", "Only contracts and cases are frozen."),
        ("data/controlled/README.md", "Read me files and files that can be made again are not frozen."),
        ("data/controlled/baseline_cache.jsonl", "Read me files and files that can be made again are not frozen."),
        ("data/controlled/.hidden", "Read me files and files that can be made again are not frozen."),
        ("data/controlled/link", "A link cannot be frozen."),
        ("data/controlled/circle", "A link cannot be frozen."),
        ("data/controlled/circle/below", "There is no such file to freeze."),
        ("data/controlled/folder_link", "A link cannot be frozen."),
        ("data/controlled", "A link cannot be frozen."),
        ("data/contracts/pipe", "What is no regular file cannot be frozen."),
        ("data/contracts/bell\x07.csv", "A name with characters that cannot be shown cannot be frozen."),
        ("data/contracts/two\nlines.csv", "A name with characters that cannot be shown cannot be frozen."),
        ("data/contracts/end\x00.csv", "A name with characters that cannot be shown cannot be frozen."),
        ("data/contracts/\u202efdc", "A name with characters that cannot be shown cannot be frozen."),
        ("data/contracts/\udcff", "A name with characters that cannot be shown cannot be frozen."),
    ],
)
def test_what_cannot_be_frozen_is_refused_and_nothing_is(
    project: Path, tmp_path: Path, name: str, message: str
) -> None:
    folder = project / "data/controlled"
    for file in (tmp_path / "outside.csv", project / "pyproject.toml", *map(folder.joinpath, LEFT_OUT)):
        file.write_text("x")
    (folder / "link").symlink_to("cases.jsonl")
    (folder / "circle").symlink_to("circle")
    (folder / "folder_link").symlink_to(tmp_path)
    if name.endswith("pipe"):
        os.mkfifo(project / name)
    with pytest.raises(InputError) as caught:
        frozen.freeze([folder / "cases.jsonl", project / name], "person:tester", tmp_path / "evidence", project)
    assert (caught.value.message, caught.value.next_step) == (
        message,
        "Name files or folders of data/contracts or data/controlled.",
    )
    assert not (tmp_path / "evidence").exists()


LEFT_OUT = ("baseline_cache.jsonl", ".hidden")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bell\x07.jsonl", "A name with characters that cannot be shown cannot be frozen."),
        ("two\nlines/cases.jsonl", "A name with characters that cannot be shown cannot be frozen."),
        ("pipe", "What is no regular file cannot be frozen."),
        ("link", "A link cannot be frozen."),
    ],
)
def test_a_folder_with_something_that_cannot_be_frozen_is_refused_whole(
    project: Path, tmp_path: Path, name: str, message: str
) -> None:
    folder = project / "data/controlled"
    bad = folder / name
    bad.parent.mkdir(exist_ok=True)
    if name == "pipe":
        os.mkfifo(bad)
    elif name == "link":
        bad.symlink_to(project / "good.csv")
    else:
        bad.write_text("x")
    (folder / ".lock").symlink_to("circle")  # an editor's; nothing whose name begins with a dot is looked at
    with pytest.raises(InputError) as caught:
        frozen.freeze([folder], "person:tester", tmp_path / "evidence", project)
    assert caught.value.message == message
    assert not (tmp_path / "evidence").exists()
    bad.unlink()
    if bad.parent != folder:
        bad.parent.rmdir()
    assert [f.file for f in frozen.freeze([folder], "person:tester", tmp_path / "evidence", project)] == [
        "data/controlled/cases.jsonl"
    ]


def test_the_projects_own_contracts_and_cases_can_all_be_frozen(tmp_path: Path) -> None:
    """Whatever a complete run asks to have been frozen is what `freeze` takes."""
    frozen.freeze([ROOT / f for f in frozen.FOLDERS], "person:tester", tmp_path)
    frozen.require(manifest.take("controlled"), tmp_path)


def test_more_executions_than_there_are_is_all_of_them(world: World) -> None:
    ship_it(world)
    said: list[str] = []
    found = verify.verify(load(world.home), 10**20, evidence=world.evidence, setup=world.setup, report=said.append)
    assert [c.sentence for c in found.checks if c.check == "slice"] == [
        f"Run {world.done.manifest.run_id} has 40 executions, so no more are run again.",
        "40 executions, run again past the cache, came out equal in every column.",
    ]
    assert said[-1] == "Running 40 executions again, past the cache ..."


def test_a_contract_changed_after_it_was_frozen_is_named(world: World) -> None:
    taken = manifest.take("controlled")
    moved = replace(taken, contract={"data/contracts/controlled.csv": "0" * 64})
    with pytest.raises(EvidenceMissing) as caught:
        frozen.require(moved, world.evidence)
    assert caught.value.message == (
        "Contract and cases must be frozen before anything is scored on them: "
        "data/contracts/controlled.csv was changed after it was frozen."
    )


# -- ship and verify ---------------------------------------------------------------------------------------------------


def test_a_shipped_run_verifies_with_its_slice(world: World) -> None:
    done = ship_it(world)
    assert set(ship.shipped_runs(world.evidence)) >= {world.done.manifest.run_id}
    assert done.folder == world.evidence / "runs" / world.done.manifest.run_id
    assert by_key(done.folder) == by_key(world.done.folder)
    found = verify_it(world, 4)
    assert failed(found) == []
    assert found.ok
    sentences = [c.sentence for c in found.checks if c.ok]
    assert any(s.startswith("Counted anew from 40 rows, run ") for s in sentences)
    assert sentences[-1] == "4 executions, run again past the cache, came out equal in every column."
    whole = "The evidence verifies: chain, frozen files, shipped files, criteria counted anew; "
    assert found.sentence == f"{whole}4 of 40 executions run again are equal."
    assert verify_it(world).sentence == f"{whole}no execution was run again."


def test_a_run_is_shipped_once_and_only_when_complete_and_committed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship_it(world)
    with pytest.raises(ShipRefused, match="is evidence already"):
        ship_it(world)
    for change, message in (
        (
            {"status": RunStatus.PARTIAL},
            "is partial and of class controlled: only a complete controlled run is shipped",
        ),
        ({"evidence_class": EvidenceClass.DEMO}, "is complete and of class demo: only a complete controlled run is"),
        ({"code_commit": "abc-dirty"}, "was made by code, models or data that differ from commit abc"),
    ):
        other = world.done.manifest.model_copy(update=change)
        with pytest.raises(ShipRefused, match=message):
            ship.ship(load(world.home), other, evidence=world.evidence, tools=small.tools)


def test_a_freeze_killed_before_the_head_moved_is_completed_by_the_next(world: World, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    frozen.freeze([ROOT / "data/contracts"], "person:tester", evidence)
    head = (evidence / "head.json").read_bytes()
    frozen.freeze([ROOT / "data/controlled"], "person:tester", evidence)
    (evidence / "head.json").write_bytes(head)
    again = frozen.freeze([ROOT / "data/controlled"], "person:tester", evidence)
    assert [f.added for f in again] == [False] * len(again)
    assert EvidenceLedger(evidence).verify().ok


@pytest.mark.parametrize("point", ["first file", "rename", "entry"])
def test_a_shipping_killed_at_any_point_leaves_no_half_evidence(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class Killed(BaseException):
        pass

    def die(*args: object, **kwargs: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if point == "first file":
            patch.setattr(ship, "_copy", die)
        elif point == "rename":
            patch.setattr(ship, "sync_folder", die)
        else:
            patch.setattr(EvidenceLedger, "append", die)
        # A kill runs no clean-up either.
        patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
        with pytest.raises(Killed):
            ship_it(world)
    assert ship.shipped_runs(world.evidence) == {}
    assert verify_it(world).ok
    notes = [c.sentence for c in verify_it(world).checks if c.check == "runs" and c.ok is None]
    assert notes[-1] == "No run has been shipped."
    assert verify_it(world).sentence == (
        "The evidence verifies: chain and frozen files. No controlled run has been shipped."
    )
    assert ("was not shipped to the end" in notes[0]) == (point == "entry")
    ship_it(world)
    assert verify_it(world).ok
    assert not list(world.evidence.glob(".shipping*"))


def test_verifying_says_what_it_is_at(world: World) -> None:
    run_id = ship_it(world).run_id
    said: list[str] = []
    found = verify.verify(load(world.home), 2, evidence=world.evidence, setup=world.setup, report=said.append)
    assert found.ok
    assert said[0] == "Walking the evidence ledger ..."
    assert f"Counting run {run_id} anew (2 of 2, 40 executions) ..." in said
    assert said[-1] == "Running 2 executions again, past the cache ..."


def test_every_kind_of_damage_is_named(world: World) -> None:
    run_id = ship_it(world).run_id
    folder = world.evidence / "runs" / run_id

    def damaged(path: Path, data: bytes) -> list[str]:
        kept = path.read_bytes()
        path.write_bytes(data)
        try:
            return failed(verify_it(world))
        finally:
            path.write_bytes(kept)

    part = folder / "2026-C3-restart.parquet"
    assert damaged(part, part.read_bytes()[:-1] + b"x")[0].startswith(f"Files of run {run_id} are missing or were")
    counted = folder / ship.CRITERIA
    assert damaged(counted, counted.read_bytes().replace(b'"met"', b'"not met"'))[0].startswith("Files of run")
    ledger = world.evidence / "ledger.jsonl"
    assert damaged(ledger, ledger.read_bytes().replace(b'"rows":40', b'"rows":41')) != []
    assert failed(verify_it(world)) == []
    part.unlink()
    assert part.name in failed(verify_it(world))[0]


def test_results_and_manifests_that_were_rewritten_with_their_hashes_are_still_noticed(world: World) -> None:
    """Whoever rewrites the ledger too can make hashes fit; counting anew and the manifest still tell."""
    run_id = world.done.manifest.run_id
    ship_it(world)
    folder = world.evidence / "runs" / run_id
    told = json.loads((folder / ship.CRITERIA).read_bytes())
    told["criteria"][0]["observed"] = 0.123
    (folder / ship.CRITERIA).write_text(json.dumps(told))
    body = ship.shipped_runs(world.evidence)[run_id]
    found = verify._counted(run_files.read_manifest(folder), folder, ROOT)
    assert found.ok is False
    assert found.sentence == f"Counted anew, run {run_id} comes to other results: triggered_action_accuracy."
    other = world.done.manifest.model_copy(update={"data_hash": "0" * 64})
    assert verify._manifest(other, body).sentence == f"The manifest of run {run_id} is not its entry's: data_hash."


def test_code_that_moved_on_is_said_and_does_not_fail(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ship_it(world)
    taken = manifest.take("controlled")
    moved = replace(taken, code={**taken.code, "core/new.py": "0" * 64})
    monkeypatch.setattr(manifest, "take", lambda contract, root=None: moved)
    found = verify_it(world)
    assert found.ok
    (code,) = [c for c in found.checks if c.check == "code"]
    assert code.ok is None
    assert code.sentence == (
        f"1 code files differ from those that made run {world.done.manifest.run_id}: core/new.py (added). "
        "The decision logic is unchanged. Whether its rows still come out is what the slice shows."
    )
    data = replace(taken, data={**taken.data, "data/controlled/train.jsonl": "0" * 64})
    monkeypatch.setattr(manifest, "take", lambda contract, root=None: data)
    assert failed(verify_it(world)) == [
        f"The data is not that of run {world.done.manifest.run_id}: data/controlled/train.jsonl (edited)."
    ]


OTHER = Path(__file__).with_name("small_other.py")


def test_a_slice_that_comes_out_otherwise_fails_by_name(world: World) -> None:
    ship_it(world)
    other = replace(world.setup, command=(sys.executable, str(OTHER)))
    (sentence,) = failed(verify_it(world, 2, other))
    assert sentence.startswith("2 of 2 executions came out otherwise: 2026-m")
    assert verify_it(world, 2, other).sentence == "The evidence does NOT verify."
    assert "output" in sentence


def test_a_slice_that_cannot_be_run_here_is_said(world: World) -> None:
    ship_it(world)

    class Foreign(small.SmallBackbone):
        name = "foreign@1"

    elsewhere = replace(world.setup, tools=lambda config: Tools(Foreign(), small.OverlapTrigger(), 0.3))
    found = verify_it(world, 2, elsewhere)
    assert found.ok
    assert found.checks[-1].sentence == "Not run again: the backbone here is foreign@1, not small@0."
    assert found.sentence.endswith("criteria counted anew; no execution was run again.")


# -- amend -------------------------------------------------------------------------------------------------------------


def test_an_amendment_keeps_the_old_run_and_shows_both_results_and_every_changed_row(world: World) -> None:
    ship_it(world)
    config, old = load(world.home), world.done.manifest
    mended = replace(world.setup, command=(sys.executable, str(OTHER)))
    done = amend.amend(
        config, old.run_id, "a typing error in the writer", plan=SmallComplete(jobs=2), setup=mended,
        evidence=world.evidence,
    )  # fmt: skip
    assert (done.new.amends, done.new.status) == (old.run_id, RunStatus.COMPLETE)
    assert len(done.criteria_before) == len(done.criteria_after) == 11
    assert {c.columns for c in done.changed} <= {
        ("output", "baseline_output"),
        ("baseline_output",),
        ("model_action", "output", "baseline_output"),
        ("model_action", "baseline_output"),
    }
    assert len(done.changed) == 40
    with open_workspace(config) as store, store.read() as conn:
        kept = get_run(conn, old.run_id)
        names = [m.run_id for m in listed_runs(conn, "controlled")]
    assert kept is not None
    assert (kept.status, kept.note) == (RunStatus.AMENDED, "a typing error in the writer")
    assert names == [done.new.run_id, old.run_id]
    assert summary.stored_run(config, None).run_id == done.new.run_id
    assert summary.stored_run(config, old.run_id).run_id == old.run_id
    last, body = EvidenceLedger(world.evidence).entries()[-1]
    assert (last.kind, body["replaced_by"], body["reason"]) == (
        "run_amended",
        done.new.run_id,
        "a typing error in the writer",
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"evaluator_hash": "0" * 64}, "evaluator hash"),
        ({"data_hash": "0" * 64}, "data hash"),
        ({"model_hash": "0" * 64}, "model hash"),
        ({"contract_sha256": "0" * 64, "seeds": (1,)}, "contract sha256, seeds"),
        ({"backbone_sha256": "0" * 64}, "backbone sha256"),
    ],
)
def test_an_amendment_of_anything_but_technical_code_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], named: str
) -> None:
    old = world.done.manifest
    monkeypatch.setattr(amend, "draft", lambda *args: old.model_copy(update=change))
    with pytest.raises(amend.AmendRefused) as caught:
        amend.amend(load(world.home), old.run_id, "why", plan=SmallComplete(), setup=world.setup)
    assert caught.value.message == (
        f"Run {old.run_id} cannot be amended: {named} differ. That would be another experiment."
    )


def test_an_amendment_without_reason_or_run_is_refused(world: World) -> None:
    with pytest.raises(InputError, match="An amendment needs its reason"):
        amend.amend(load(world.home), world.done.manifest.run_id, " ")
    with pytest.raises(InputError, match="There is no run 'nothing' in this workspace"):
        amend.amend(load(world.home), "nothing", "why")
    for reason, message in (("a\x00b", "holds a NUL character"), ("x" * 65_537, "is 65,537 bytes long")):
        with pytest.raises(InputError, match=f"The reason {message}"):
            amend.amend(load(world.home), world.done.manifest.run_id, reason)
    with open_workspace(load(world.home)) as store, store.read() as conn:
        assert [m for m in listed_runs(conn, "controlled") if m.status is not RunStatus.COMPLETE] == []

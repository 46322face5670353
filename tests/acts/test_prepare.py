"""Making a workspace: twice, killed in the middle, in the wrong place, with damaged evidence."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from core import config as configuration
from core.acts import prepare as prepare_act
from core.acts import prepared
from core.acts.prepare import PrepareRefused, prepare
from core.acts.prepared import is_prepared
from core.cli.base import main
from core.config import ROOT, Config
from core.errors import ConfigError, EvidenceMissing, LedgerCorrupt, MissingPackage
from core.evaluation.run_files import Part, write_manifest, write_parts
from core.evaluation.runs import _alone as evaluation_alone
from core.hashing import sha256_file
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, RunAmended, RunShipped
from core.ledger.ledger import verify
from core.ledger.lost import StoreLost
from core.ledger.run_store import runs
from core.ledger.store import open_workspace
from core.ledger.trace_tail import segments
from core.records.run import RunStatus
from core.traces.writer import write_part
from core.views.segments import verify_files
from core.views.views import Views
from tests.pages.homes import executions, manifest

KINDS = ("controlled", "actuation")
RUNS = ("0192f0c1-0000-7000-8000-000000000001", "0192f0c1-0000-7000-8000-000000000002")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an evidence with two shipped runs of 80 executions in two parts each."""
    evidence = tmp_path / "evidence"
    monkeypatch.setattr(prepared, "EVIDENCE", evidence)
    for run_id, kind in zip(RUNS, KINDS, strict=True):
        ship(evidence, run_id, kind=kind)
    return evidence


def ship(evidence: Path, run_id: str, **changed: Any) -> None:
    traces = executions(run_id=run_id)
    written = [write_part(evidence.parent / "made", traces[n::2], f"shard-{n}") for n in (0, 1)]
    run = evidence / "runs" / run_id
    run.mkdir(parents=True)
    for segment in written:
        shutil.copy(segment.path, run)
    parts = [Part(s.path.stem, s.rows, s.path.stat().st_size, s.sha256, s.min_id, s.max_id) for s in written]
    write_parts(run, parts)
    told = manifest(run_id, planned=len(traces), stored=len(traces), **changed)
    write_manifest(run, told)
    hashes = {name: getattr(told, name) for name in RunShipped.model_fields if name.endswith("_hash")}
    body = RunShipped(
        run_id=run_id,
        run_kind=told.kind,
        evidence_class=told.evidence_class,
        origin=told.origin,
        contract=told.contract,
        contract_sha256=told.contract_sha256,
        backbone_sha256=told.backbone_sha256,
        rows=len(traces),
        files={f"data/evidence/runs/{run_id}/{p.name}": sha256_file(p) for p in sorted(run.iterdir())}
        | {"data/controlled/baseline_cache.jsonl": "0" * 64},
        **hashes,
    )
    EvidenceLedger(evidence).append(EntryKind.RUN_SHIPPED, body, f"run:{run_id}", "person:tester")


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return configuration.load(tmp_path / "mine")


def state(settings: Config) -> tuple[list[str], list[tuple[str, int, str | None]], int]:
    with open_workspace(settings) as store, store.read() as conn:
        listed = [(s.path, s.rows, s.run_id) for s in segments(conn)]
        found = sorted(m.run_id for m in runs(conn))
        report = verify(store)
    assert report.ok, report.findings
    return found, listed, report.count


def test_a_new_workspace_holds_the_shipped_runs_and_verifies(shipped: Path, settings: Config) -> None:
    assert not is_prepared(settings)
    said: list[str] = []
    done = prepare(settings, report=said.append)
    assert (done.workspace_class, done.runs, done.added) == ("user", RUNS, RUNS)
    assert is_prepared(settings)
    assert settings.home.stat().st_mode & 0o777 == 0o700
    assert said == [
        f"Taking over the shipped run {run} ({kind}, {len(executions()):,} executions) ..."
        for run, kind in zip(RUNS, KINDS, strict=True)
    ]
    found, listed, _ = state(settings)
    assert found == list(RUNS)
    assert listed == [(f"traces/controlled/{run}/shard-{n}.parquet", 40, run) for run in RUNS for n in (0, 1)]
    for path, _, run in listed:
        assert run is not None
        assert sha256_file(settings.home / path) == sha256_file(shipped / "runs" / run / Path(path).name)
    views = Views(settings)
    with views.snapshot() as snapshot:
        counted = snapshot.ask("trace", "SELECT run_id, count(*) AS n FROM trace GROUP BY 1 ORDER BY 1").table
        assert snapshot.problems == ()
    views.close()
    assert counted.to_pylist() == [{"run_id": run, "n": 80} for run in RUNS]


def test_done_twice_it_changes_nothing(shipped: Path, settings: Config) -> None:
    prepare(settings)
    before = state(settings)
    again = prepare(settings)
    assert again.added == ()
    assert again.runs == RUNS
    assert state(settings) == before


def test_a_run_shipped_later_is_added(shipped: Path, settings: Config) -> None:
    prepare(settings)
    assert is_prepared(settings)
    later = "0192f0c1-0000-7000-8000-000000000003"
    ship(shipped, later)
    assert not is_prepared(settings)
    assert prepare(settings).added == (later,)
    assert state(settings)[0] == [*RUNS, later]


def test_a_new_workspace_takes_over_the_newest_run_of_each_kind(shipped: Path, settings: Config) -> None:
    later = "0192f0c1-0000-7000-8000-000000000003"
    ship(shipped, later)
    assert prepare(settings).added == (RUNS[1], later)
    assert state(settings)[0] == [RUNS[1], later]


def test_files_that_the_evidence_ledger_does_not_name_are_no_evidence(shipped: Path, settings: Config) -> None:
    """A shipping that was killed before its ledger entry leaves such a folder."""
    shutil.copytree(shipped / "runs" / RUNS[0], shipped / "runs" / "0192f0c1-0000-7000-8000-000000000009")
    assert prepare(settings).runs == RUNS
    assert state(settings)[0] == list(RUNS)


def test_an_amended_run_is_marked_and_kept(shipped: Path, settings: Config) -> None:
    prepare(settings)
    later = "0192f0c1-0000-7000-8000-000000000003"
    ship(shipped, later, amends=RUNS[0])
    body = RunAmended(run_id=RUNS[0], replaced_by=later, reason="The device was written down wrongly.")
    EvidenceLedger(shipped).append(EntryKind.RUN_AMENDED, body, f"run:{RUNS[0]}", "person:tester")
    for _ in range(2):
        prepare(settings)
        with open_workspace(settings) as store, store.read() as conn:
            marked = {m.run_id: (m.status, m.note) for m in runs(conn)}
        assert marked[RUNS[0]] == (RunStatus.AMENDED, "The device was written down wrongly.")
        assert marked[later] == (RunStatus.COMPLETE, "")
    assert len(state(settings)[1]) == 6


def test_an_evidence_ledger_that_does_not_verify_is_not_taken_over(shipped: Path, settings: Config) -> None:
    ledger = shipped / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"rows":80', b'"rows":81', 1))
    with pytest.raises(LedgerCorrupt, match="Entry 2"):
        prepare(settings)
    assert not is_prepared(settings)


@pytest.mark.parametrize("at", ["replace", "register", "commit", "marker"])
def test_killed_anywhere_the_next_time_finishes_it(at: str, shipped: Path, settings: Config) -> None:
    code = f"""
import os, signal, sys
from pathlib import Path
from core import config
from core.acts import prepare as p, prepared
from core.ledger.store import Tx
prepared.EVIDENCE = Path({str(shipped)!r})
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
place = {{"replace": (Path, "replace"), "register": (p, "register_run"), "commit": (Tx, "seal"),
          "marker": (prepared, "mark_prepared")}}[{at!r}]
if {at!r} == "commit":
    count = iter(range(3))
    whole = Tx.seal
    def third(self):
        if next(count) == 1: die()
        whole(self)
    Tx.seal = third
else:
    setattr(*place, die)
p.prepare(config.load({str(settings.home)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not is_prepared(settings)
    prepare(settings)
    assert is_prepared(settings)
    found, listed, _ = state(settings)
    assert found == list(RUNS)
    assert len(listed) == 4
    assert not list(settings.home.rglob("*.tmp"))


def test_two_at_once_take_each_run_over_once(shipped: Path, settings: Config) -> None:
    code = f"""
from pathlib import Path
from core import config
from core.acts import prepare as p, prepared
prepared.EVIDENCE = Path({str(shipped)!r})
print(len(p.prepare(config.load({str(settings.home)!r})).added))
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    added = [int(child.communicate()[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sum(added) == 2
    assert len(state(settings)[1]) == 4


def test_a_damaged_shipped_file_is_named_and_nothing_of_its_run_is_taken_over(shipped: Path, settings: Config) -> None:
    part = shipped / "runs" / RUNS[1] / "shard-1.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    (part.parent / "parts.json").unlink()
    with pytest.raises(EvidenceMissing) as caught:
        prepare(settings)
    assert str(caught.value) == (
        "A file of a shipped run is missing or not the one that was shipped: parts.json, shard-1.parquet."
        f" ({part.parent}) Restore data/evidence from the release."
    )
    assert not is_prepared(settings)
    assert state(settings)[0] == [RUNS[0]]


def test_a_folder_with_other_things_is_refused_and_left_alone(shipped: Path, settings: Config) -> None:
    settings.home.mkdir(mode=0o755)
    (settings.home / "thesis.txt").write_text("mine")
    with pytest.raises(PrepareRefused) as caught:
        prepare(settings)
    assert str(caught.value) == (
        "The folder is not empty and holds no workspace (it has 'thesis.txt')."
        f" ({settings.home}) Give an empty or a new folder with --home."
    )
    assert [p.name for p in settings.home.iterdir()] == ["thesis.txt"]
    assert settings.home.stat().st_mode & 0o777 == 0o755


def test_a_workspace_of_the_demo_name_is_a_demo_one(shipped: Path, tmp_path: Path) -> None:
    assert prepare(configuration.load(tmp_path / "workspace-demo")).workspace_class == "demo"
    assert prepare(configuration.load(tmp_path / "other"), demo=True).workspace_class == "demo"


def test_a_demo_workspace_is_made_anew_and_a_users_never(shipped: Path, settings: Config, tmp_path: Path) -> None:
    demo = configuration.load(tmp_path / "workspace-demo")
    prepare(demo)
    with open_workspace(demo) as store:
        old = store.ledger_id
    (demo.home / "notes.txt").write_text("not Duebook's")
    assert prepare(demo, demo=True, force=True).added == RUNS
    with open_workspace(demo) as store:
        assert store.ledger_id != old
    assert (demo.home / "notes.txt").read_text() == "not Duebook's"
    prepare(settings)
    before = state(settings)
    for demo_too in (False, True):
        with pytest.raises(PrepareRefused, match=r"^This is a user's workspace; it is never made anew\.$"):
            raise_message(settings, demo=demo_too, force=True)
    with pytest.raises(PrepareRefused, match=r"^This is a user's workspace; it cannot become a demo\.$"):
        raise_message(settings, demo=True, force=False)
    assert state(settings) == before


def raise_message(settings: Config, *, demo: bool, force: bool) -> None:
    try:
        prepare(settings, demo=demo, force=force)
    except PrepareRefused as e:
        raise PrepareRefused(e.message) from e


@pytest.mark.parametrize(
    ("lock", "sentence"),
    [
        ("console.lock", "The console of this workspace is running."),
        ("work/evaluate.lock", "An evaluation is running in this workspace."),
    ],
)
def test_a_demo_workspace_in_which_something_runs_is_not_made_anew(
    shipped: Path, tmp_path: Path, lock: str, sentence: str
) -> None:
    demo = configuration.load(tmp_path / "workspace-demo")
    prepare(demo)
    (demo.home / "work" / "run").mkdir(parents=True)
    with holding(demo.home / lock):
        with pytest.raises(PrepareRefused) as caught:
            prepare(demo, force=True)
        assert str(caught.value) == f"{sentence} ({demo.home}) End it first."
    assert is_prepared(demo)
    assert (demo.home / "work" / "run").is_dir()
    assert prepare(demo, force=True).added == RUNS
    assert not (demo.home / "work" / "run").exists()


@contextmanager
def holding(lock: Path) -> Iterator[None]:
    """Hold a lock from another process."""
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True);"
            "sys.stdin.read()",
            str(lock),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        holder.communicate()


def test_a_lock_that_the_evaluation_takes_is_the_one_that_is_looked_at(shipped: Path, tmp_path: Path) -> None:
    demo = configuration.load(tmp_path / "workspace-demo")
    prepare(demo)
    with evaluation_alone(demo), pytest.raises(PrepareRefused, match=r"^An evaluation is running in this workspace\."):
        prepare(demo, force=True)


def lose(settings: Config, how: str) -> None:
    """Lose the store; `mark` and `traces`: its last witness is that."""
    settings.store.unlink()
    if how == "emptied":
        settings.store.write_bytes(b"")
    if how == "traces":
        (settings.home / "prepared.json").unlink()
    if how in ("mark", "log"):
        shutil.rmtree(settings.traces)
    if how == "log":
        (settings.home / "prepared.json").unlink()
        (settings.home / "logs").mkdir()
        (settings.home / "logs" / "console.log").write_text("")


def look(settings: Config) -> None:
    """Open the views, as a page and `sql` do."""
    with closing(Views(settings)) as views, views.snapshot():
        pass


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("how", ["gone", "emptied", "mark", "traces", "log"])
def test_a_lost_store_is_said_and_never_made_anew_in_silence(
    how: str, shipped: Path, settings: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(settings)
    lose(settings, how)
    (settings.home / "prepare.lock").touch()
    before = contents(settings.home)
    sentence = (
        f"The workspace's store is lost: its file is {'empty' if how == 'emptied' else 'gone'}, and other files of the"
        f" workspace are still there. ({settings.store}) Restore it from a copy."
    )
    for act in (prepare, open_workspace, verify_files, look):
        with pytest.raises(StoreLost) as caught:
            act(settings)
        assert str(caught.value) == sentence
    for command in ("claims", "criteria controlled", "ledger verify", "sql SELECT+1", "annotate run x --label x", "up"):
        assert main([*(w.replace("+", " ") for w in command.split()), "--home", str(settings.home)]) == 2
        assert capsys.readouterr().err == f"{sentence}\n"
    assert main(["doctor", "--home", str(settings.home)]) == 1
    assert "fail workspace: The workspace's store is lost" in capsys.readouterr().out
    assert contents(settings.home) == before


def test_a_lost_demo_is_made_anew_by_force_and_a_lost_users_workspace_never(
    shipped: Path, settings: Config, tmp_path: Path
) -> None:
    demo = configuration.load(tmp_path / "workspace-demo")
    for how in ("gone", "emptied"):
        prepare(demo)
        lose(demo, how)
        with pytest.raises(StoreLost, match=r"or make the demo anew with `python -m core prepare --demo --force`\.$"):
            prepare(demo, demo=True)
        assert prepare(demo, demo=True, force=True).added == RUNS
        assert state(demo)[0] == list(RUNS)
    prepare(settings)
    lose(settings, "gone")
    with pytest.raises(PrepareRefused, match=r"^This is a user's workspace; it is never made anew\."):
        prepare(settings, demo=True, force=True)
    (settings.home / "prepared.json").unlink()
    with pytest.raises(StoreLost):
        prepare(settings, demo=True, force=True)
    assert len(list(settings.traces.rglob("*.parquet"))) == 4


def test_making_anew_that_was_killed_is_finished_as_a_demo(shipped: Path, tmp_path: Path) -> None:
    demo = configuration.load(tmp_path / "any")
    prepare(demo, demo=True)
    prepared.mark_removal(demo.home)
    demo.store.unlink()
    assert not is_prepared(demo)
    assert prepare(demo).workspace_class == "demo"
    assert is_prepared(demo)


def test_a_backbone_that_cannot_be_made_ready_is_said_and_is_no_failure(
    shipped: Path, settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(spec: str, config: Config) -> None:
        raise MissingPackage("torch is not installed.", next_step="Run `make models`.")

    monkeypatch.setattr(prepare_act, "load", not_installed)
    done = prepare(settings, models=True)
    assert (done.backbone, done.backbone_failure) == (None, "torch is not installed. Run `make models`.")
    assert done.added == RUNS
    assert is_prepared(settings)


def test_a_place_that_cannot_be_written_is_a_sentence(shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match=r"^The workspace cannot be made: Not a directory\. .*--home\.$"):
        prepare(configuration.load(tmp_path / "file" / "mine"))


def test_the_mark_of_another_time_is_not_trusted(shipped: Path, settings: Config) -> None:
    prepare(settings)
    (settings.home / "prepared.json").write_text("[]")
    assert not is_prepared(settings)
    (settings.home / "prepared.json").write_text(json.dumps({"evidence_head": None}))
    assert not is_prepared(settings)
    (settings.home / "prepared.json").write_text(json.dumps({"evidence_head": prepared.evidence_head()}))
    assert is_prepared(settings)
    settings.store.rename(settings.home / "gone")
    assert not is_prepared(settings)

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from core.config import load
from core.errors import CheckFailed, EvidenceMissing, InputError
from core.evaluation import manifest, run_files, runs
from core.evaluation.child import ChildEnded
from core.evaluation.plan import Plan
from core.evaluation.rerun import Rows, by_key, choose, compare, rerun
from core.evaluation.runs import EvaluationRefused, Finished
from core.evaluation.shard import Shard, planned, regenerated
from core.ledger.ledger import verify
from core.ledger.run_store import get_run
from core.ledger.store import open_workspace
from core.ledger.trace_tail import segments
from core.records.run import Manifest, RunStatus
from core.records.trace import ArmName, Boundary, EvidenceClass, StepStatus
from core.traces.dataset import from_row
from tests.evaluation.small import SETUP, SMALL, broken, small_run

TWO_ARMS = (ArmName.C0, ArmName.C3)


@pytest.fixture(autouse=True, scope="module")
def _code_stands_still() -> Iterator[None]:
    """Somebody may edit a file while the tests run; here that would be another run's code."""
    taken = manifest.take("controlled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "take", lambda contract, root=None: taken)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """An uninterrupted small run: 4 episodes in every arm and boundary."""
    return small_run(tmp_path_factory.mktemp("small") / "home")


@pytest.fixture(scope="module")
def two_arms(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, float]:
    """The rows of an uninterrupted run of two arms, and how long it took."""
    home, start = tmp_path_factory.mktemp("two") / "home", time.monotonic()
    run_apart(home)
    return by_key(only_run(home)), time.monotonic() - start


def run_apart(home: Path, wait: bool = True) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, SMALL, "run", str(home), "4", "2", ",".join(TWO_ARMS)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if wait:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    return process


def only_run(home: Path) -> Path:
    (folder,) = (home / "traces" / "demo").iterdir()
    return folder


def stored(home: Path, run_id: str) -> Manifest:
    with open_workspace(load(home)) as store, store.read() as conn:
        found = get_run(conn, run_id)
    assert found is not None
    return found


def test_a_finished_run_is_listed_verified_and_says_what_it_rests_on(finished: Finished) -> None:
    m = finished.manifest
    assert (m.status, m.evidence_class, m.planned, m.stored) == (RunStatus.PARTIAL, EvidenceClass.DEMO, 40, 40)
    assert m.note == "Limited to 40 executions on purpose: enters no criterion."
    home = finished.folder.parents[2]
    assert run_files.read_manifest(finished.folder) == stored(home, m.run_id) == m
    hashes = run_files.read_hashes(finished.folder)
    assert (hashes.code_hash, hashes.data_hash, hashes.evaluator_hash) == (m.code_hash, m.data_hash, m.evaluator_hash)
    with open_workspace(load(home)) as store:
        with store.read() as conn:
            listed = {home / s.path: (s.rows, s.sha256) for s in segments(conn)}
        assert verify(store).ok
    parts = run_files.read_parts(finished.folder)
    assert listed == {finished.folder / f"{n}.parquet": (p.rows, p.sha256) for n, p in parts.items()}
    assert run_files.problems(finished.folder, parts) == []
    assert sorted(p.name for p in finished.folder.glob("*.parquet")) == sorted(f"{n}.parquet" for n in parts)
    assert [p.name for p in (home / "work").iterdir()] == ["evaluate.lock"]


def test_every_stored_row_is_a_trace(finished: Finished) -> None:
    rows = [r for p in sorted(finished.folder.glob("*.parquet")) for r in pq.read_table(p).to_pylist()]
    traces = [from_row(r) for r in rows]
    assert len(traces) == 40
    assert {(t.arm, t.boundary) for t in traces} == {(a, b) for a in ArmName for b in Boundary}
    assert len({t.execution_key for t in traces}) == len({t.trace_id for t in traces}) == 40
    assert all(t.integrity_ok and t.run_id == finished.manifest.run_id for t in traces)
    for t in traces:
        reached = [s.step for s in t.steps if s.status is not StepStatus.NOT_REACHED]
        assert [s.step for s in t.step_times] == reached, (t.arm, t.boundary)


def test_a_restart_is_another_process_that_opened_the_store_after_the_writer_had_exited(finished: Finished) -> None:
    # The worker itself refuses to answer while the writer's process still exists (small.Watched).
    for row in by_key(finished.folder).values():
        trace = from_row(row)
        times = {t.step.value: t for t in trace.step_times}
        if trace.boundary is Boundary.RESTART:
            assert trace.writer_pid != trace.responder_pid
            assert trace.store_reopened
            opened = times["boundary"]
            assert opened.elapsed_us >= 0
            assert opened.at < trace.created_at
            assert trace.arm is ArmName.C0 or times["write"].at < opened.at
        else:
            assert trace.writer_pid == trace.responder_pid
            assert not trace.store_reopened
        assert trace.memory_write_ok is (None if trace.arm is ArmName.C0 else True)


def test_one_writer_exits_for_each_seed_and_arm(finished: Finished) -> None:
    restarts = [r for r in by_key(finished.folder).values() if r["boundary"] == "restart"]
    writers = {(r["seed"], r["arm"]): {s["writer_pid"] for s in restarts if s["arm"] == r["arm"]} for r in restarts}
    assert all(len(pids) == 1 for pids in writers.values())
    assert len({next(iter(p)) for p in writers.values()}) == len(writers) == 5


def test_one_worker_gives_the_same_rows_as_two(two_arms: tuple[Rows, float], tmp_path: Path) -> None:
    alone = small_run(tmp_path / "home", jobs=1, arms=TWO_ARMS)
    assert compare(two_arms[0], by_key(alone.folder)) == []


def test_a_slice_executed_again_gives_equal_rows(finished: Finished, tmp_path: Path) -> None:
    rows = by_key(finished.folder)
    assert {(rows[k]["arm"], rows[k]["boundary"]) for k in choose(rows, 10)} == {
        (a, b) for a in ArmName for b in Boundary
    }
    keys = [k for k in choose(rows, 20) if rows[k]["arm"] in TWO_ARMS]
    assert len(keys) == 8
    assert rerun(load(tmp_path / "home"), finished.manifest, rows, keys, SETUP) == []


def test_a_row_that_comes_out_otherwise_is_named_with_its_columns(finished: Finished, tmp_path: Path) -> None:
    rows = by_key(finished.folder)
    key = choose(rows, 1)[0]
    rows[key] = rows[key] | {"output": "something else", "trace_id": "may vary"}
    (changed,) = rerun(load(tmp_path / "home"), finished.manifest, rows, [key], SETUP)
    assert (changed.execution_key, changed.columns) == (key, ("output",))


# -- killed ------------------------------------------------------------------------------------------------------------


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    for _ in range(600):
        if not any(is_there(p) for p in pids):
            return
        time.sleep(0.05)
    raise AssertionError(f"processes survived their parent: {[p for p in pids if is_there(p)]}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_killed_twenty_times_it_ends_equal_to_the_uninterrupted_run(
    two_arms: tuple[Rows, float], tmp_path: Path
) -> None:
    expected, seconds = two_arms
    rng, home = random.Random(2026), tmp_path / "home"
    kills = 0
    while kills < 20:
        process = run_apart(home, wait=False)
        time.sleep(rng.uniform(0.15, 0.9) * seconds)
        workers = children_of(process.pid)
        victim = rng.choice([process.pid, process.pid, *workers])
        if process.poll() is None and is_there(victim):
            os.kill(victim, signal.SIGKILL)
            kills += 1
        process.communicate()
        wait_until_gone(workers)
    run_apart(home)
    # A folder without a manifest is that of a run killed before it was registered: nobody's.
    begun = [m.parent for m in (home / "traces" / "demo").glob("*/manifest.json")]
    ended = [f for f in begun if run_files.read_manifest(f).status is RunStatus.PARTIAL]
    assert ended
    for folder in ended:
        assert compare(expected, by_key(folder)) == []
        assert compare(expected, {r["execution_key"]: r for p in folder.glob("*.parquet") for r in rows_in(p)}) == []
    names = {f.name for f in ended}
    with open_workspace(load(home)) as store:
        assert verify(store).ok
        with store.read() as conn:
            assert sum(s.rows for s in segments(conn) if s.run_id in names) == len(expected) * len(ended)


def rows_in(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_ctrl_c_leaves_no_process_and_a_run_that_goes_on(two_arms: tuple[Rows, float], tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = run_apart(home, wait=False)
    while not (workers := children_of(process.pid)):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in errors
    wait_until_gone(workers)
    run_apart(home)
    assert compare(two_arms[0], by_key(only_run(home))) == []


def test_a_worker_that_dies_is_said_and_the_same_command_goes_on(two_arms: tuple[Rows, float], tmp_path: Path) -> None:
    home, said = tmp_path / "home", list[str]()
    with pytest.raises(ChildEnded) as caught:
        small_run(home, broken("crash", "2026-C0-restart"), arms=TWO_ARMS, jobs=1)
    folder = only_run(home)
    assert caught.value.message == (
        f"A worker process ended with exit code 7 before it had answered. 3 of 4 shards of run {folder.name} are kept."
    )
    assert caught.value.next_step == "Run the same command again: it goes on from there."
    assert stored(home, folder.name).status is RunStatus.RUNNING
    done = small_run(home, said=said, arms=TWO_ARMS)
    assert (done.resumed, done.ran, done.manifest.run_id) == (True, 4, folder.name)
    assert said[0].startswith(f"Going on with run {folder.name}, begun 20")
    assert compare(two_arms[0], by_key(folder)) == []


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a run that lacks its last shard."""
    home = tmp_path_factory.mktemp("stopped") / "home"
    with pytest.raises(ChildEnded):
        small_run(home, broken("crash", "2026-C0-restart"), arms=TWO_ARMS, jobs=1)
    return home


@pytest.fixture
def unfinished(stopped: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(stopped, tmp_path / "home"))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("flip", "The part 2026-C3-restart.parquet is not the file that was written (its SHA-256 differs)"),
        ("cut", r"The part 2026-C3-restart.parquet has 100 bytes instead of [\d,]+"),
        ("lose", "The part 2026-C3-restart.parquet is missing"),
    ],
)
def test_a_damaged_part_is_named_and_run_again(
    unfinished: Path, two_arms: tuple[Rows, float], damage: str, sentence: str
) -> None:
    part = only_run(unfinished) / "2026-C3-restart.parquet"
    data = part.read_bytes()
    if damage == "lose":
        part.unlink()
    else:
        part.write_bytes(data[:100] if damage == "cut" else data[:200] + bytes([data[200] ^ 1]) + data[201:])
    with pytest.raises(EvidenceMissing, match=re.escape(part.name)):
        run_files.read_rows(part.parent)
    said = list[str]()
    done = small_run(unfinished, said=said, arms=TWO_ARMS)
    assert done.ran == 8
    assert any(re.fullmatch(sentence.replace("(", r"\(").replace(")", r"\)") + "; it is run again.", s) for s in said)
    assert compare(two_arms[0], by_key(done.folder)) == []


def test_an_error_in_a_worker_fails_the_run_and_keeps_its_rows(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with pytest.raises(CheckFailed) as caught:
        small_run(home, broken("fail", "2026-C0-restart"), arms=TWO_ARMS, jobs=1)
    folder = only_run(home)
    assert caught.value.message == (
        "The run stopped by an error: A worker met ZeroDivisionError: one by nothing It is kept as failed."
    )
    failed = stored(home, folder.name)
    assert (failed.status, failed.stored) == (RunStatus.FAILED, 12)
    assert failed.note == "Stopped by an error: A worker met ZeroDivisionError: one by nothing"
    with open_workspace(load(home)) as store, store.read() as conn:
        assert sum(s.rows for s in segments(conn)) == 12
    again = small_run(home, arms=TWO_ARMS)
    assert again.manifest.run_id != folder.name
    assert not again.resumed


# -- refused -----------------------------------------------------------------------------------------------------------


def test_a_second_evaluation_in_one_workspace_is_refused(tmp_path: Path) -> None:
    config = load(tmp_path / "home")
    with runs._alone(config) as say:
        say("0199")
        with pytest.raises(EvaluationRefused) as caught:
            small_run(config.home)
    assert caught.value.message == (
        f"An evaluation is running in this workspace already (process {os.getpid()}, run 0199)."
    )


def test_what_began_under_other_code_is_kept_as_failed(unfinished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = only_run(unfinished).name
    taken = manifest.take("controlled")
    other = replace(taken, code={**taken.code, "core/new.py": "0" * 64})
    monkeypatch.setattr(manifest, "take", lambda contract, root=None: other)
    with pytest.raises(EvaluationRefused) as caught:
        small_run(unfinished, arms=TWO_ARMS, resume=old)
    assert caught.value.message == f"Run {old} cannot be resumed: code hash differ from what it began with."
    said = list[str]()
    done = small_run(unfinished, said=said, arms=TWO_ARMS)
    assert done.manifest.run_id != old
    assert said[0] == f"Run {old} stays unfinished (code hash changed); it is kept as failed."
    failed = stored(unfinished, old)
    assert (failed.status, failed.stored) == (RunStatus.FAILED, 12)
    assert failed.note == "Not finished: code hash changed before it was resumed."


def test_a_new_run_can_be_asked_for(unfinished: Path) -> None:
    old = only_run(unfinished).name
    assert small_run(unfinished, arms=TWO_ARMS, new=True).manifest.run_id != old
    assert stored(unfinished, old).note == "Not finished: a new run was asked for before it was resumed."
    with pytest.raises(EvaluationRefused, match=f"Run {old} is not an unfinished controlled run"):
        small_run(unfinished, arms=TWO_ARMS, resume=old)


def test_bad_plans_are_refused_in_words(tmp_path: Path) -> None:
    for plan, message in (
        ({"limit": 0}, "--limit takes 1 to 720 episodes, not 0."),
        ({"limit": -1}, "--limit takes 1 to 720 episodes, not -1."),
        ({"limit": 721}, "--limit takes 1 to 720 episodes, not 721."),
        ({"limit": 10**9}, "--limit takes 1 to 720 episodes, not 1000000000."),
        ({"jobs": -1}, "--jobs takes a number of processes, not -1."),
        ({"resume": "nothing"}, "There is no run 'nothing' in this workspace."),
    ):
        with pytest.raises(InputError) as caught:
            small_run(tmp_path / "home", **plan)
        assert caught.value.message == message


def test_a_complete_run_is_refused_under_a_contract_that_was_not_frozen(tmp_path: Path) -> None:
    with pytest.raises(EvidenceMissing) as caught:
        small_run(tmp_path / "home", replace(SETUP, evidence=tmp_path / "evidence"), limit=None)
    assert caught.value.message.startswith(
        "Contract and cases must be frozen before anything is scored on them: data/contracts/actuation.csv was never"
    )


# -- the plan ----------------------------------------------------------------------------------------------------------


def test_the_plan_is_7200_executions_in_30_shards() -> None:
    plan = Plan()
    assert (len(plan.shards), plan.executions, plan.seeds) == (30, 7200, (2026, 2027, 2028))
    assert plan.evidence_class is EvidenceClass.CONTROLLED
    assert plan.shards[0] == Shard(2026, ArmName.C0, Boundary.SAME_PROCESS)


def test_a_limited_plan_takes_whole_pairs_of_every_family_early() -> None:
    plan = Plan(limit=24)
    chosen = planned(2026, 24)
    assert (len(plan.shards), plan.executions, plan.seeds) == (10, 240, (2026,))
    assert len({e.match_id for e in chosen}) == 12
    assert len({e.family for e in chosen}) == 6
    assert set(chosen) <= set(planned(2026, 40))
    assert Plan(limit=250).seeds == (2026, 2027)
    assert Plan(limit=250).executions == 2500
    assert Plan(limit=720).executions == 7200


def test_about_five_percent_of_c3_trials_answer_past_the_cache() -> None:
    chosen = [
        (e.episode_id, b)
        for seed in (2026, 2027, 2028)
        for e in planned(seed)
        for b in Boundary
        if regenerated("controlled", e.episode_id, seed, b, "small@0")
    ]
    assert 0.03 < len(chosen) / 1440 < 0.07


def test_a_killed_workers_leavings_are_cleaned(unfinished: Path) -> None:
    staged = unfinished / "work" / only_run(unfinished).name / "staging" / "half.parquet"
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(b"half")
    small_run(unfinished, arms=TWO_ARMS)
    assert not staged.exists()
    assert shutil.disk_usage(unfinished).total > 0

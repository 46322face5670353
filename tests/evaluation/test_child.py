from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from core.evaluation.child import Child, ChildEnded, ChildFailed, Message
from core.evaluation.pool import Pool, Seat

ECHO = """
import os, sys, time
sys.path.insert(0, {root!r})
from core.errors import InputError
from core.evaluation.child import serve

def answer(message):
    print("a library that prints")
    if message.get("do") == "die":
        os._exit(9)
    if message.get("do") == "refuse":
        raise InputError("No.", where="here", next_step="Ask again.")
    if message.get("do") == "break":
        raise ValueError("broken")
    if message.get("do") == "sleep":
        open(message["sign"], "w").close()
        time.sleep(600)
    return {{"pid": os.getpid(), "got": message}}

serve(answer)
"""


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "echo.py"
    script.write_text(ECHO.format(root=str(Path(__file__).resolve().parents[2])))
    return (sys.executable, str(script))


def test_answers_come_back_and_prints_go_to_the_log(command: tuple[str, ...], tmp_path: Path) -> None:
    child = Child(command, tmp_path / "log")
    assert child.ask({"text": "å\n"}) == {"pid": child.pid, "got": {"text": "å\n"}}
    with pytest.raises(ChildFailed) as caught:
        child.ask({"do": "refuse"})
    assert (caught.value.message, caught.value.where, caught.value.next_step) == ("No.", "here", "Ask again.")
    with pytest.raises(ChildFailed, match="A worker met ValueError: broken"):
        child.ask({"do": "break"})
    assert child.ask({})["pid"] == child.pid
    assert child.end() == 0
    log = (tmp_path / "log").read_text()
    assert log.count("a library that prints") == 4
    assert "ValueError: broken" in log


def test_a_child_that_dies_is_said(command: tuple[str, ...], tmp_path: Path) -> None:
    child = Child(command, tmp_path / "log")
    with pytest.raises(ChildEnded, match="A worker process ended with exit code 9 before it had answered"):
        child.ask({"do": "die"})
    child.end()
    killed = Child(command, tmp_path / "log")
    killed.kill()
    with pytest.raises(ChildEnded, match="A worker process was ended by signal 9 before it had answered"):
        killed.ask({})
    killed.end()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_a_child_in_the_middle_of_a_job_does_not_survive_its_parent(command: tuple[str, ...], tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    parent = os.fork() if sys.version_info < (3, 12) else None
    if parent is None:
        pytest.skip("covered by the runs that are killed")
    if parent == 0:
        Child(command, tmp_path / "log").ask({"do": "sleep", "sign": str(sign)})
        os._exit(0)
    for _ in range(1200):
        if sign.exists():
            break
        time.sleep(0.05)
    children = [int(p.name) for p in Path("/proc").glob("[0-9]*") if _parent(p) == parent]
    assert children
    os.kill(parent, 9)
    os.waitpid(parent, 0)
    for _ in range(1200):
        if all(gone(c) for c in children):
            return
        time.sleep(0.05)
    raise AssertionError("a child outlived its parent")


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def test_a_pool_answers_every_task_in_the_calling_thread(command: tuple[str, ...], tmp_path: Path) -> None:
    answers: dict[str, Message] = {}

    def task(n: int) -> object:
        return lambda seat: seat.child.ask({"n": n})

    Pool(command, 2, tmp_path).work([(str(n), task(n)) for n in range(6)], answers.__setitem__)  # type: ignore[misc]
    assert sorted(answers) == list("012345")
    assert len({a["pid"] for a in answers.values()}) <= 2
    assert all(gone(a["pid"]) for a in answers.values())


def test_the_first_failure_ends_the_others(command: tuple[str, ...], tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    seen: list[int] = []

    def sleeps(seat: Seat) -> Message:
        seen.append(seat.child.pid)
        return seat.child.ask({"do": "sleep", "sign": str(sign)})

    def fails(seat: Seat) -> Message:
        while not sign.exists():
            time.sleep(0.05)
        return seat.child.ask({"do": "refuse"})

    with pytest.raises(ChildFailed, match="No."):
        Pool(command, 2, tmp_path).work([("a", sleeps), ("b", fails)], lambda name, answer: None)
    assert all(gone(pid) for pid in seen)

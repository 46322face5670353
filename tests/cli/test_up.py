"""`up` as a person meets it: a real console, found again, on another port, ended with its parent."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.acts import prepared
from core.cli import main, up
from core.config import ROOT
from core.errors import InputError

Start = Callable[..., "subprocess.Popen[str]"]

PATIENCE_S = 180
"""How long a test waits for what takes a second or two on an idle machine: it ends a hang, and judges no speed."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Give a way to start `up`; whatever still runs at the end is ended."""
    children: list[subprocess.Popen[str]] = []

    def begin(home: Path, port: int, *options: str) -> subprocess.Popen[str]:
        # The shipped evidence is not what is tested here.
        code = (
            "import sys; from pathlib import Path; from core.acts import prepared; from core.cli import main;"
            "prepared.EVIDENCE = Path('/nowhere'); sys.exit(main(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", code, "--home", str(home), "up", "--port", str(port), *options]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield begin
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        child.communicate(timeout=PATIENCE_S)


def free_port() -> int:
    """Return a free port that nobody else is given meanwhile: the system hands out those above 32767 by itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as s:
            try:
                s.bind((up.HOST, port))
            except OSError:
                continue
            return port


def opened(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait until `up` has answered, and return its document."""
    assert child.stdout is not None
    document: dict[str, Any] = json.loads(child.stdout.readline())
    assert "error" not in document, document
    return document


def health(address: str) -> str:
    with urllib.request.urlopen(f"{address}/_stcore/health", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def wait_until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "\nState:\tZ" in status.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_prints_its_address_and_a_signal_ends_both(number: signal.Signals, start: Start, tmp_path: Path) -> None:
    home, port = tmp_path / "mine", free_port()
    child = start(home, port, "--json")
    document = opened(child)
    assert document["address"] == f"http://127.0.0.1:{port}"
    assert document["already_up"] is False
    assert document["pid"] == child.pid
    assert health(document["address"]) == "ok"
    assert (home / "store.sqlite").is_file()
    child.send_signal(number)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (0, "")
    assert err == "The console has ended.\n"
    assert is_gone(document["console_pid"])
    assert not (home / "console.json").exists()
    assert up.running_at(home) is None


def test_a_second_one_says_where_the_first_is(start: Start, tmp_path: Path) -> None:
    home, port = tmp_path / "mine", free_port()
    first = opened(start(home, port, "--json"))
    assert up.running_at(home) == first["address"]
    second = start(home, port)
    out, err = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, err) == (0, "")
    assert out == f"Duebook is already open at {first['address']}\nWorkspace: {home}\n"
    again = json.loads(start(home, free_port(), "--json").communicate(timeout=PATIENCE_S)[0])
    assert again == first | {"already_up": True}


def test_a_taken_port_moves_to_the_next_free_one(start: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((up.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        child = start(tmp_path / "mine", port, "--json")
        document = opened(child)
        assert document["port"] > port
        assert health(document["address"]) == "ok"
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=PATIENCE_S)
    assert f"Port {port} is taken; the console uses {document['port']}.\n" in err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_parent_killed_outright_leaves_no_console_behind(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "mine"
    child = start(home, free_port(), "--json")
    document = opened(child)
    child.kill()
    child.wait()
    assert wait_until(lambda: is_gone(document["console_pid"]))
    assert wait_until(lambda: up.running_at(home) is None)
    again = opened(start(home, document["port"], "--json"))
    assert again["port"] == document["port"]


def test_a_console_that_ends_by_itself_is_a_sentence(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "mine"
    child = start(home, free_port(), "--json")
    document = opened(child)
    os.kill(document["console_pid"], signal.SIGKILL)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 1
    assert err == (
        f"The console ended by itself with exit code -9. ({home / 'logs' / 'console.log'}) The file says why.\n"
    )
    assert not (home / "console.json").exists()


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_number_that_is_no_port_is_refused(
    port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "EVIDENCE", tmp_path / "none")
    assert main(["up", f"--port={port}"]) == 2
    assert capsys.readouterr().err == f"{port} is not a port. Give a number from 1 to 65535.\n"


def test_no_free_port_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "_is_free", lambda port: False)
    with pytest.raises(InputError) as caught:
        up.free_port(8501)
    assert str(caught.value) == "No port from 8501 to 8550 is free. Give another with --port (make: PORT=)."
    with pytest.raises(InputError, match="No port from 65530 to 65535 is free"):
        up.free_port(65530)


def test_a_port_given_up_a_moment_ago_is_free() -> None:
    """Its closed connections still hold the address; the next console must not move for their sake."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((up.HOST, 0))
        server.listen()
        port = int(server.getsockname()[1])
        assert not up._is_free(port)
        server.accept()[0].close()  # the probe's own connection
        with socket.create_connection((up.HOST, port), timeout=10) as client:
            accepted, _ = server.accept()
            accepted.close()  # closing first leaves this side waiting
            client.recv(1)
    assert up._is_free(port)


def test_the_state_file_of_another_time_is_not_believed(tmp_path: Path) -> None:
    state: Any
    for state in ("", "[]", "{}", '{"port": 1}', "\x00"):
        (tmp_path / "console.json").write_text(state)
        (tmp_path / "console.lock").touch()
        assert up._read_state(tmp_path) is None
        assert up.running_at(tmp_path) is None

"""`up`: the console under one parent, on this machine only.

Promise: one console a workspace (a lock that both processes hold, so that even a killed parent is noticed); a second
`up` prints the first one's address. A busy port moves to the next free one. When the parent ends, however it ends, the
console ends with it. Refused: any address but the loopback.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from core import clock
from core.cli.base import Result, Subparsers, progress
from core.config import ROOT, Config
from core.errors import DuebookError, InputError, quoted
from core.files import unwritable

HOST = "127.0.0.1"
DEFAULT_PORT = 8501
PORTS_TRIED = 50
START_LIMIT_S = 180.0
"""A console that dies ends the wait at once; one that is slow on a loaded machine is waited for."""
STOP_LIMIT_S = 8.0
WARM_LIMIT_S = 20.0
LOG_LIMIT_BYTES = 5_000_000


class ConsoleFailed(DuebookError):
    """The console process did not start, or ended by itself."""

    code = "console"
    exit_code = 1


def register(subparsers: Subparsers) -> None:
    """Add `up`."""
    parser = subparsers.add_parser("up", help="the console in a browser, on this machine only")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="first port to try (default %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, config: Config) -> Result:
    """Start the console and stay until it ends; or say where it already runs.

    Raises
    ------
    InputError : the port is no port, or no port is free.
    ConsoleFailed : the console did not come up, or ended by itself.
    """
    if not 1 <= args.port <= 65535:
        raise InputError(f"{quoted(args.port)} is not a port.", next_step="Give a number from 1 to 65535.")
    with _lock(config.home) as lock:
        if lock is None:
            return _already_up(config.home)
        return _serve(args, config, lock)


def _serve(args: argparse.Namespace, config: Config, lock: int) -> Result:
    log = _open_log(config.home)
    stop = _Stop()
    port = args.port
    while True:
        port = free_port(port)
        child = _spawn(config, port, lock, log)
        stop.watch(child)
        if _wait_until_open(child, port, stop):
            break
        if stop.asked:
            _end(child)
            return Result(None, "", already_said=True)
        if child.poll() is not None and not _is_free(port):  # somebody took the port between the probe and the start
            port += 1
            continue
        _end(child)
        raise ConsoleFailed("The console did not start.", where=str(log), next_step="The file says why.")
    if port != args.port:
        progress(f"Port {args.port} is taken; the console uses {port}.")
    _warm(port)
    state = _state(config.home, port, child.pid)
    _write_state(config.home, state)
    address = state["address"]
    args.say_now(
        Result(
            state | {"already_up": False},
            f"Duebook is open at {address}\nWorkspace: {config.home}\nNo scheduler yet. Ctrl-C ends it.",
        )
    )
    code = child.wait()
    _state_file(config.home).unlink(missing_ok=True)
    if stop.asked:
        progress("The console has ended.")
        return Result(None, "", already_said=True)
    raise ConsoleFailed(
        f"The console ended by itself with exit code {code}.", where=str(log), next_step="The file says why."
    )


def _already_up(home: Path) -> Result:
    """Wait for the console that holds the lock to answer, and say where it is."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        state = _read_state(home)
        if state is not None and _healthy(int(state["port"])):
            text = f"Duebook is already open at {state['address']}\nWorkspace: {home}"
            return Result(state | {"already_up": True}, text)
        with _lock(home) as lock:
            if lock is not None:
                raise ConsoleFailed("The console on this workspace was just ending.", next_step="Start it again.")
        time.sleep(0.2)
    raise ConsoleFailed(
        "Another console holds this workspace and does not answer.",
        where=str(_state_file(home)),
        next_step="End the process named in that file, then start again.",
    )


def running_at(home: Path) -> str | None:
    """Return the address of the console that holds this workspace, or None where none does."""
    if not (home / "console.lock").exists():
        return None
    with _lock(home) as lock:
        state = _read_state(home) if lock is None else None
    return None if state is None else str(state["address"])


@contextlib.contextmanager
def _lock(home: Path) -> Iterator[int | None]:
    """Hold the workspace's console lock; yields its descriptor, or None where another process holds it.

    The descriptor is handed to the console too: the lock lasts as long as either process.
    """
    try:
        descriptor = os.open(home / "console.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as e:
        raise unwritable(home / "console.lock", e) from e
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


class _Stop:
    """Turns SIGINT, SIGTERM and SIGHUP into an orderly end of the console."""

    def __init__(self) -> None:
        self.asked = False
        self.child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self)

    def watch(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        if self.asked:  # the signal came while the child was being made
            child.terminate()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if self.child is not None and self.child.poll() is None:
            # The second time somebody asks, or when it hangs, it is not asked politely.
            self.child.kill() if again else self.child.terminate()
            signal.signal(signal.SIGALRM, self)
            signal.setitimer(signal.ITIMER_REAL, STOP_LIMIT_S)


def _spawn(config: Config, port: int, lock: int, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py")]
    # On the command line these win over STREAMLIT_* variables and over a user's own configuration.
    command += ["--server.address", HOST, "--server.port", str(port), "--server.headless", "true"]
    command += ["--server.scriptHealthCheckEnabled", "true"]
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"DUEBOOK_HOME": str(config.home)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C reaches the parent alone, which passes it on once
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )


def _die_with_parent() -> None:
    """Ask Linux to end this process when its parent dies, even by kill -9 (elsewhere the lock tells of an orphan)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _wait_until_open(child: subprocess.Popen[bytes], port: int, stop: _Stop) -> bool:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and child.poll() is None and not stop.asked:
        if _healthy(port):
            return child.poll() is None
        time.sleep(0.1)
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def free_port(first: int) -> int:
    """Return the first free port on the loopback from `first` on.

    Raises
    ------
    InputError : none of the next fifty is free.
    """
    last = min(first + PORTS_TRIED, 65536)
    for port in range(first, last):
        if _is_free(port):
            return port
    raise InputError(
        f"No port from {first} to {last - 1} is free.", next_step="Give another with --port (make: PORT=)."
    )


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A port that was just given up is free: without this its closed connections hold it for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _healthy(port: int) -> bool:
    return _asked(port, "health", 2)


def _warm(port: int) -> None:
    """Let the console run its front page once, so that the first reader need not wait for imports and a first count.

    Streamlit's script check is asked for it; where it cannot answer, or is slow, the first page is merely slower.
    """
    _asked(port, "script-health-check", WARM_LIMIT_S)


def _asked(port: int, check: str, limit_s: float) -> bool:
    try:
        # An opener without proxies: the loopback is never asked through one.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{HOST}:{port}/_stcore/{check}", timeout=limit_s) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _state_file(home: Path) -> Path:
    return home / "console.json"


def _state(home: Path, port: int, console_pid: int) -> dict[str, Any]:
    return {
        "address": f"http://{HOST}:{port}",
        "port": port,
        "pid": os.getpid(),
        "console_pid": console_pid,
        "home": str(home),
        "started_at": clock.format_instant(clock.now()),
    }


def _write_state(home: Path, state: dict[str, Any]) -> None:
    temporary = _state_file(home).with_suffix(".tmp")
    temporary.write_text(json.dumps(state) + "\n", encoding="utf-8")
    temporary.replace(_state_file(home))


def _read_state(home: Path) -> dict[str, Any] | None:
    try:
        state = json.loads(_state_file(home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and {"port", "address"} <= state.keys() else None


def _open_log(home: Path) -> Path:
    folder = home / "logs"
    folder.mkdir(mode=0o700, exist_ok=True)
    log = folder / "console.log"
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".old.log"))
    log.touch(mode=0o600)
    return log

"""Child processes that speak JSON lines and never outlive their parent.

The child's standard input is a pipe whose other end only the parent holds: when the parent is gone, however it went,
the pipe ends and the child leaves at once. Promise: one line in, one line out; what libraries print goes to the log.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from core.config import ROOT
from core.errors import CheckFailed, DuebookError

Message = dict[str, Any]
Handler = Callable[[Message], Message]


class ChildEnded(DuebookError):
    """A child process ended before it had answered."""

    code = "worker_ended"
    exit_code = 1


class ChildFailed(CheckFailed):
    """A child process answered with an error."""

    code = "worker_failed"


class Child:
    """A child process, seen from its parent. Used by one thread at a time; `kill` may be called by any.

    Parameters
    ----------
    command : the command line.
    log : what it writes to standard error is appended here.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
            )
        self.pid = self._process.pid

    def ask(self, message: Mapping[str, Any]) -> Message:
        """Send one message and wait for the answer.

        Raises
        ------
        ChildEnded : it ended instead of answering.
        ChildFailed : it answered with an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (OSError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            code = self._process.wait()
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise ChildEnded(f"A worker process {how} before it had answered.", where=str(self.log))
        answer: Message = json.loads(line)
        if error := answer.get("error"):
            raise ChildFailed(str(error["message"]), where=error.get("where"), next_step=error.get("next"))
        return answer

    def end(self) -> int:
        """Close the pipe, wait until the process has exited, and return its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        code = self._process.wait()
        self._process.stdout.close()
        return code

    def kill(self) -> None:
        """End it now; whoever uses it sees it ended."""
        self._process.kill()


def serve(handler: Handler) -> None:
    """Answer messages from standard input until it ends; a parent that died ends this process at once.

    Parameters
    ----------
    handler : message -> answer; an error it raises is sent back as words.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    answers = _private_output()
    inbox: SimpleQueue[Message | None] = SimpleQueue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(inbox, busy), daemon=True).start()
    while (message := inbox.get()) is not None:
        try:
            answer = handler(message)
        except DuebookError as e:
            answer = {"error": e.as_dict()}
        except Exception as e:  # the parent gets a sentence, the log the traceback
            sys.excepthook(type(e), e, e.__traceback__)
            answer = {"error": {"message": f"A worker met {type(e).__name__}: {e}", "where": None, "next": None}}
        busy.clear()
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _private_output() -> BinaryIO:
    """Keep standard output for answers alone: whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _listen(inbox: SimpleQueue[Message | None], busy: threading.Event) -> None:
    for line in sys.stdin.buffer:
        busy.set()
        inbox.put(json.loads(line))
    if busy.is_set():
        os._exit(3)  # the parent is gone in the middle of a job
    inbox.put(None)

"""A pool of child processes that work through tasks; the first failure or Ctrl-C ends them all.

Promise: results are handed over in the calling thread, one at a time; when `work` returns or raises, no child is left.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from core.evaluation.child import Child, Message

POLL_SECONDS = 0.2
"""How often the waiting thread looks up, so that Ctrl-C is answered at once on every system."""

Task = Callable[["Seat"], Message]


class Seat:
    """One place in the pool: a long-lived child, and short-lived ones beside it."""

    def __init__(self, pool: Pool, number: int) -> None:
        self._pool = pool
        self._number = number
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The long-lived child, started on first use."""
        if self._child is None:
            self._child = self._pool.start(self._number)
        return self._child

    def once(self, message: Message) -> tuple[Message, int]:
        """Ask a fresh child one thing and wait for its exit; returns its answer and its exit code."""
        child = self._pool.start(self._number)
        try:
            answer = child.ask(message)
        finally:
            code = child.end()
        return answer, code

    def leave(self) -> None:
        """End the long-lived child."""
        if self._child is not None:
            self._child.end()


class Pool:
    """Runs tasks on `jobs` seats.

    Parameters
    ----------
    command : starts a child.
    jobs : how many tasks run at once.
    logs : folder for what the children say on standard error.
    """

    def __init__(self, command: Sequence[str], jobs: int, logs: Path) -> None:
        self._command = command
        self._jobs = jobs
        self._logs = logs
        self._children: list[Child] = []
        self._lock = threading.Lock()
        self._stopping = False

    def start(self, number: int) -> Child:
        """Start a child; it is ended with the pool."""
        with self._lock:
            if self._stopping:
                raise RuntimeError("the pool is stopping")
            child = Child(self._command, self._logs / f"worker-{number}.log")
            self._children.append(child)
            return child

    def work(self, tasks: Iterable[tuple[str, Task]], done: Callable[[str, Message], None]) -> None:
        """Run all tasks, first come first served.

        Parameters
        ----------
        tasks : (name, task) pairs.
        done : told the name and the answer of each finished task, in this thread.

        Raises
        ------
        ChildEnded, ChildFailed : of the first task that failed; the others are ended.
        """
        waiting = deque(tasks)
        results: SimpleQueue[tuple[str, Message | BaseException]] = SimpleQueue()
        left = len(waiting)
        threads = [
            threading.Thread(target=self._drive, args=(Seat(self, n), waiting, results), daemon=True)
            for n in range(min(self._jobs, left))
        ]
        for t in threads:
            t.start()
        try:
            while left:
                try:
                    name, answer = results.get(timeout=POLL_SECONDS)
                except Empty:
                    continue
                if isinstance(answer, BaseException):
                    raise answer
                done(name, answer)
                left -= 1
        except BaseException:
            self._stop(waiting)
            raise
        finally:
            for t in threads:
                t.join()

    def _drive(
        self,
        seat: Seat,
        waiting: deque[tuple[str, Task]],
        results: SimpleQueue[tuple[str, Message | BaseException]],
    ) -> None:
        try:
            while True:
                try:
                    name, task = waiting.popleft()
                except IndexError:
                    return
                try:
                    results.put((name, task(seat)))
                except BaseException as e:
                    results.put((name, e))
                    return
        finally:
            seat.leave()

    def _stop(self, waiting: deque[tuple[str, Task]]) -> None:
        waiting.clear()
        with self._lock:
            self._stopping = True
            for child in self._children:
                child.kill()

"""Keeps baseline outputs by the exact question: a shipped read-only file, and a local SQLite file for the rest.

Promise: an output comes back only for equal prompt bytes, tokenizer, chat template, settings, number format, weights
and torch version; a write acknowledged is there after kill -9. Refused: a damaged shipped line, by its number.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from core.backbone.base import GENERATION, Identity
from core.errors import MissingPackage, ModelError
from core.files import write_whole
from core.hashing import json_hash, sha256_hex

_KEY = re.compile(r"[0-9a-f]{64}")
_OPENING = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "CREATE TABLE IF NOT EXISTS output (key TEXT PRIMARY KEY, output TEXT NOT NULL) WITHOUT ROWID",
)


def torch_version() -> str:
    """Return torch's public version, like 2.13.0 (the build suffix does not enter), without importing it.

    Raises
    ------
    MissingPackage : torch is not installed.
    """
    try:
        return metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError as e:
        raise MissingPackage("torch is not installed.", next_step="Run: pip install torch==2.13.0") from e


def cache_key(prompt: bytes, identity: Identity) -> str:
    """Return the key of one question to one frozen model.

    Raises
    ------
    MissingPackage : torch is not installed.
    """
    return json_hash(
        {
            "prompt_sha256": sha256_hex(prompt),
            "tokenizer_sha256": identity.tokenizer_sha256,
            "template_sha256": identity.template_sha256,
            "generation": GENERATION,
            "dtype": identity.dtype,
            "weights_sha256": identity.weights_sha256,
            "torch": torch_version(),
        }
    )


def read_shipped(path: Path) -> dict[str, str]:
    """Read a shipped cache: one `{"key", "output"}` a line, keys strictly rising.

    Raises
    ------
    ModelError : a line is damaged, out of order or twice there; the line is named.
    """
    outputs: dict[str, str] = {}
    last = ""
    with path.open("rb") as f:
        for number, line in enumerate(f, start=1):
            problem = None
            try:
                row = json.loads(line)
                if not (isinstance(row, dict) and row.keys() == {"key", "output"} and isinstance(row["output"], str)):
                    problem = "is not an object of key and output"
                elif not (isinstance(row["key"], str) and _KEY.fullmatch(row["key"])):
                    problem = "has a key that is not 64 hex digits"
                elif row["key"] <= last:
                    problem = "is out of order or there twice"
            except (ValueError, RecursionError):
                problem = "is not JSON"
            if problem:
                raise ModelError(
                    f"Line {number} of the shipped baseline cache {problem}.",
                    where=f"{path}:{number}",
                    next_step="Restore the file as it was shipped.",
                )
            last = row["key"]
            outputs[last] = row["output"]
    return outputs


class BaselineCache:
    """Outputs of the frozen backbone by question.

    Parameters
    ----------
    shipped : a committed JSONL file, or None; read once, on first use.
    local : SQLite file for everything else; made on the first write. Several processes may share it.
    """

    def __init__(self, shipped: Path | None, local: Path) -> None:
        self.shipped = shipped
        self.local = local
        self._outputs: dict[str, str] | None = None
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._inherited: list[sqlite3.Connection | None] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the local file; the next question opens it again."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
            self._connection = None

    __del__ = close

    def get(self, key: str) -> str | None:
        """Return the stored output of a question, or None.

        Raises
        ------
        ModelError : the shipped or the local file is damaged.
        """
        with self._lock:
            if (found := self._shipped().get(key)) is not None:
                return found
            if not self.local.exists():
                return None
            with self._open() as connection:
                row = connection.execute("SELECT output FROM output WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def put(self, key: str, output: str) -> None:
        """Store an output; the first one stored for a question stays.

        Raises
        ------
        ModelError : the local file is damaged or cannot be written.
        """
        with self._lock, self._open() as connection:
            connection.execute("INSERT OR IGNORE INTO output (key, output) VALUES (?, ?)", (key, output))

    def export(self, path: Path, keys: Iterable[str]) -> int:
        """Write the outputs of `keys` as a shipped cache, sorted, atomically.

        Returns
        -------
        How many lines were written.

        Raises
        ------
        ModelError : a key has no stored output.
        """
        lines = []
        for key in sorted(set(keys)):
            if (output := self.get(key)) is None:
                raise ModelError(f"No stored output for key {key}: it cannot be shipped.", where=str(self.local))
            lines.append(json.dumps({"key": key, "output": output}, ensure_ascii=False) + "\n")
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_whole(path, what="The shipped cache", kind=ModelError, next_step="Free some space.") as f:
            f.writelines(line.encode() for line in lines)
        return len(lines)

    def _shipped(self) -> dict[str, str]:
        if self._outputs is None:
            self._outputs = read_shipped(self.shipped) if self.shipped and self.shipped.is_file() else {}
        return self._outputs

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._pid != os.getpid():  # after a fork: not used, and not closed, which would drop the parent's locks
                self._inherited.append(self._connection)
                self._connection = None
            if self._connection is None:
                self.local.parent.mkdir(parents=True, exist_ok=True)
                self._connection = sqlite3.connect(
                    self.local, timeout=60, isolation_level=None, check_same_thread=False
                )
                self._pid = os.getpid()
                for statement in _OPENING:
                    self._connection.execute(statement)
            yield self._connection
        except OSError as e:
            raise ModelError(f"The cache cannot be written: {e.strerror}.", where=str(self.local.parent)) from e
        except sqlite3.DatabaseError as e:
            self.close()
            if isinstance(e, sqlite3.OperationalError):  # locked, full, read-only: the file itself is sound
                raise ModelError(f"The local baseline cache cannot be used now: {e}.", where=str(self.local)) from e
            raise ModelError(
                f"The local baseline cache is damaged: {e}.",
                where=str(self.local),
                next_step="It can be made again: delete the file and run again.",
            ) from e

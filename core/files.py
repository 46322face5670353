"""Writes a file whole or not at all: under another name in the same folder, on disk, and only then under its own.

Promise: at every moment, a kill included, the name holds the earlier file or the whole new one; whatever goes wrong is
one sentence. Refused: a name that is none, a folder, a link, a pipe or a device under that name.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from core.errors import ConfigError, DuebookError, InputError


@contextmanager
def write_whole(
    path: Path,
    *,
    what: str = "The output",
    kind: type[DuebookError] = InputError,
    next_step: str = "Name a file in a folder that can be written to.",
) -> Iterator[BinaryIO]:
    """Open a file that takes its name when the block ends, and vanishes where the block raises.

    Parameters
    ----------
    what : how an error calls the file.
    kind : the error's class.
    next_step : what the reader of the error can do.

    Raises
    ------
    InputError, or `kind` : see the module's refusals; the folder is missing or cannot be written; the disk is full.
    """
    try:
        if (problem := _problem(path)) is not None:
            raise kind(f"{what} {problem}.", where=str(path), next_step=next_step)
        temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")  # not the name and more: that could be too long
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as e:
        raise kind(f"{what} cannot be written: {e.strerror or e}.", where=str(path), next_step=next_step) from e


def open_lock(path: Path) -> TextIO:
    """Open a lock file of a workspace; it, and its folder, are made where they are missing.

    Raises
    ------
    ConfigError : the workspace cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path.open("a+", encoding="utf-8")
    except OSError as e:
        raise unwritable(path, e) from e


def unwritable(path: Path, error: OSError) -> ConfigError:
    """Return what to say of a workspace in which the system refuses a file."""
    return ConfigError(
        f"The workspace cannot be written: {error.strerror or error}.",
        where=str(path),
        next_step="Give yourself the right to write there, free some space, or give another folder with --home.",
    )


def sync_folder(folder: Path) -> None:
    """Put a folder's entries on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _problem(path: Path) -> str | None:
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raw = b"\0"
    if path.name in ("", "..") or b"\0" in raw:
        return "has no file's name"
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        return "is a folder, not a file"
    return None if stat.S_ISREG(mode) else "is not a regular file"

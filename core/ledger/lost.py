"""Says that a workspace has lost its store: everything else of it is there, the file is gone or empty.

Promise: a lost store is never made anew in silence, for that would show an empty ledger, or another one, as if nothing
had happened. Light: every command asks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.config import Config
from core.errors import StoreError

PREPARED = "prepared.json"
"""The mark of a workspace that was made whole; while a demo is made anew it names only the class."""


class StoreLost(StoreError):
    """The workspace was made, and its store is gone or empty."""

    code = "store_lost"


def read_mark(home: Path) -> dict[str, Any]:
    """Return the workspace's mark; an empty one where there is none that can be read."""
    return json_object(home / PREPARED)


def json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object a file holds; an empty one where it holds none."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def being_made_anew(home: Path) -> bool:
    """Return whether a demo workspace's making anew has begun and not ended."""
    return set(read_mark(home)) == {"workspace_class"}


def refuse_lost(config: Config) -> None:
    """Do nothing where the store is there, or where nothing says that it ever was.

    Raises
    ------
    StoreLost : the file is gone or has no byte, and the mark, a run or a console's log is left of the workspace.
    """
    refuse_lost_file(config.store)


def refuse_lost_file(path: Path) -> None:
    """Do as `refuse_lost` does, for the store's file."""
    try:
        if path.stat().st_size > 0:
            return
        what = "is empty"
    except FileNotFoundError:
        what = "is gone"
    home = path.parent
    left = (home / PREPARED).exists() or (home / "logs" / "console.log").exists() or _holds_a_run(home / "traces")
    if not left or being_made_anew(home):
        return
    anew = ", or make the demo anew with `python -m core prepare --demo --force`"
    raise StoreLost(
        f"The workspace's store is lost: its file {what}, and other files of the workspace are still there.",
        where=str(path),
        next_step=f"Restore it from a copy{anew if read_mark(home).get('workspace_class') == 'demo' else ''}.",
    )


def _holds_a_run(traces: Path) -> bool:
    return any(traces.glob("*/*/manifest.json"))

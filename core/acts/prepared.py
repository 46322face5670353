"""The mark of a workspace that is whole: which shipped runs it took over. Light: every command asks it first."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from core.config import DATA, Config

SHIPPED_RUNS = DATA / "evidence" / "runs"
"""One folder a shipped run: `manifest.json` and its Parquet parts."""
PREPARED = "prepared.json"


def shipped_folders() -> list[Path]:
    """Return the folders of the shipped runs, in the order of their ids."""
    return sorted(p.parent for p in SHIPPED_RUNS.glob("*/manifest.json"))


def is_prepared(config: Config) -> bool:
    """Return whether the workspace has a store and every run that this checkout ships."""
    try:
        taken = json.loads((config.home / PREPARED).read_bytes())["runs"]
        return config.store.is_file() and set(taken) >= {folder.name for folder in shipped_folders()}
    except (OSError, ValueError, KeyError, TypeError):
        return False


def mark_prepared(home: Path, runs: Sequence[str], workspace_class: str) -> None:
    """Write the mark; the last step of preparing."""
    temporary = home / f".{PREPARED}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps({"runs": list(runs), "workspace_class": workspace_class}) + "\n", encoding="utf-8")
    temporary.replace(home / PREPARED)

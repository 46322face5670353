"""The mark of a workspace that is whole: which state of the shipped evidence it took over. Light: all commands ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.config import DATA, Config
from core.errors import ConfigError
from core.files import write_whole
from core.ledger.lost import PREPARED, being_made_anew, json_object, read_mark

EVIDENCE = DATA / "evidence"
"""The committed evidence: its ledger, the ledger's head, and a folder a shipped run."""

__all__ = ["EVIDENCE", "PREPARED", "being_made_anew", "evidence_head", "is_prepared", "mark_prepared", "mark_removal"]


def evidence_head() -> str | None:
    """Return the hash of the evidence ledger's last entry, or None where nothing is shipped."""
    head = json_object(EVIDENCE / "head.json").get("hash")
    return head if isinstance(head, str) else None


def is_prepared(config: Config) -> bool:
    """Return whether the workspace has a store and everything that this checkout ships."""
    mark = read_mark(config.home)
    if "evidence_head" not in mark or mark["evidence_head"] != evidence_head():
        return False
    return config.store.is_file() and config.store.stat().st_size > 0


def mark_prepared(home: Path, head: str | None, runs: Sequence[str], workspace_class: str) -> None:
    """Write the mark; the last step of preparing."""
    _write_mark(home, {"evidence_head": head, "runs": list(runs), "workspace_class": workspace_class})


def mark_removal(home: Path) -> None:
    """Say that a demo workspace is being made anew; what is missing from now on is not lost."""
    _write_mark(home, {"workspace_class": "demo"})


def _write_mark(home: Path, mark: dict[str, Any]) -> None:
    with write_whole(home / PREPARED, what="The workspace's mark", kind=ConfigError, next_step="Free some space.") as f:
        f.write(json.dumps(mark).encode() + b"\n")

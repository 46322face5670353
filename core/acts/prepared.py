"""The mark of a workspace that is whole: which state of the shipped evidence it took over. Light: all commands ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.config import DATA, Config
from core.errors import ConfigError
from core.files import write_whole

EVIDENCE = DATA / "evidence"
"""The committed evidence: its ledger, the ledger's head, and a folder a shipped run."""
PREPARED = "prepared.json"


def evidence_head() -> str | None:
    """Return the hash of the evidence ledger's last entry, or None where nothing is shipped."""
    head = _json_object(EVIDENCE / "head.json").get("hash")
    return head if isinstance(head, str) else None


def is_prepared(config: Config) -> bool:
    """Return whether the workspace has a store and everything that this checkout ships."""
    mark = _json_object(config.home / PREPARED)
    return "evidence_head" in mark and mark["evidence_head"] == evidence_head() and config.store.is_file()


def mark_prepared(home: Path, head: str | None, runs: Sequence[str], workspace_class: str) -> None:
    """Write the mark; the last step of preparing."""
    mark = {"evidence_head": head, "runs": list(runs), "workspace_class": workspace_class}
    with write_whole(home / PREPARED, what="The workspace's mark", kind=ConfigError, next_step="Free some space.") as f:
        f.write(json.dumps(mark).encode() + b"\n")


def _json_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

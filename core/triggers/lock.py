"""A trigger's lock: what was fixed before its test split was scored, and the check that nothing has moved since.

Refused: a lock whose own hash does not match its content; weights or code other than the locked ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.config import MODELS, ROOT
from core.errors import InputError, ModelError
from core.hashing import json_hash, sha256_file, sha256_hex

LOCKED = ("method", "code_hash", "data_hash", "weights_sha256", "threshold", "c1_threshold", "feature_means")
CODE = ("core/triggers/learned/features.py", "core/triggers/learned/mlp.py", "core/triggers/lexical.py")
"""What turns two texts into a score, or into C1's similarity; `code_hash` covers these files."""

MLP_FOLDER = MODELS / "trigger_mlp"
RETRAIN = "Restore the folder from the release, or retrain with `python models/trigger_mlp/train.py --force`."


def code_hash() -> str:
    """Return the SHA-256 over the sorted `path hash` lines of the scoring code."""
    lines = sorted(f"{path} {sha256_file(ROOT / path)}\n" for path in CODE)
    return sha256_hex("".join(lines).encode())


def lock_hash(lock: dict[str, Any]) -> str:
    """Return the hash a lock carries about itself: over everything else in it."""
    return json_hash({k: v for k, v in lock.items() if k != "lock_sha256"})


def load_lock(folder: Path = MLP_FOLDER) -> dict[str, Any]:
    """Read a lock and check it against itself.

    Raises
    ------
    ModelError : missing, not readable, without one of its keys, or changed after locking.
    """
    path = folder / "lock.json"
    try:
        lock = json.loads(path.read_bytes())
        found = lock_hash(lock) if isinstance(lock, dict) else ""
    except FileNotFoundError as e:
        raise ModelError("The trigger has no lock.json.", where=str(path), next_step=RETRAIN) from e
    except (OSError, ValueError, RecursionError, InputError) as e:  # InputError: NaN, which no lock holds
        raise ModelError("The trigger's lock is damaged and cannot be read.", where=str(path), next_step=RETRAIN) from e
    missing = [k for k in (*LOCKED, "lock_sha256") if not isinstance(lock, dict) or k not in lock]
    if missing:
        raise ModelError(f"The trigger's lock lacks {', '.join(missing)}.", where=str(path), next_step=RETRAIN)
    if found != lock["lock_sha256"]:
        raise ModelError(
            "The trigger's lock was changed after locking: "
            f"it says {lock['lock_sha256']}, its content hashes to {found}.",
            where=str(path),
            next_step=RETRAIN,
        )
    return dict(lock)


def check_lock(lock: dict[str, Any], weights: bytes, folder: Path) -> None:
    """Check weights and scoring code against a lock.

    Raises
    ------
    ModelError : either hash differs; both hashes are named.
    """
    for what, locked, found in (
        ("weights", lock["weights_sha256"], sha256_hex(weights)),
        ("scoring code", lock["code_hash"], code_hash()),
    ):
        if locked != found:
            raise ModelError(
                f"The trigger's {what} and its lock differ: locked {locked}, found {found}.",
                where=str(folder),
                next_step=RETRAIN,
            )

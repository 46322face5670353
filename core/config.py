"""The one reader of the environment. Everything else receives a `Config`.

Promise: paths are absolute. Refused: a home that exists and is not a folder.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
"""The project folder: shipped data and models are read from here."""

DATA = ROOT / "data"
MODELS = ROOT / "models"


@dataclass(frozen=True)
class Config:
    """What the process was told about its surroundings."""

    home: Path
    """The workspace: holds all state."""
    cache: Path
    """Derived files that can be made again (the converted backbone, the baseline cache)."""
    user: str
    """The operating-system user, `person:<user>` in the ledger."""
    ledger_key: bytes | None
    """Key for HMAC heads, kept outside the home; None where none was given."""
    device: str
    """Torch device asked for: `auto`, `cpu`, `cuda`, `mps`."""
    backbone: str
    """The frozen backbone: `packaged` or `org/name@<40 hex>`."""

    @property
    def store(self) -> Path:
        """The operational store's file."""
        return self.home / "store.sqlite"

    @property
    def traces(self) -> Path:
        """The folder of listed Parquet segments."""
        return self.home / "traces"


def load(home: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the environment once.

    Parameters
    ----------
    home : overrides `DUEBOOK_HOME` (default `./workspace-demo`).

    Raises
    ------
    ConfigError : the home is a file; the ledger key is shorter than 16 bytes.
    """
    folder = Path(home or environ.get("DUEBOOK_HOME") or "workspace-demo").expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(
            "The workspace is a file, not a folder.", where=str(folder), next_step="Give a folder with --home."
        )
    key = environ.get("DUEBOOK_LEDGER_KEY", "").encode() or None
    if key is not None and len(key) < 16:
        raise ConfigError("DUEBOOK_LEDGER_KEY is shorter than 16 bytes.", next_step="Use a longer key or unset it.")
    try:
        user = environ.get("DUEBOOK_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        user = f"uid{os.getuid()}"
    return Config(
        home=folder,
        cache=Path(environ.get("DUEBOOK_CACHE") or ROOT / ".cache").expanduser().resolve(),
        user=user,
        ledger_key=key,
        device=environ.get("DUEBOOK_DEVICE", "auto"),
        backbone=environ.get("DUEBOOK_BACKBONE", "packaged"),
    )

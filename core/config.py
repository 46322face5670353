"""The one reader of the environment. Everything else receives a `Config`.

Promise: paths are absolute. Refused: a home or cache that cannot be a folder; one whose name, or a user whose name,
cannot be shown on one line; a ledger key too short to keep a secret.
"""

from __future__ import annotations

import getpass
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import HIDDEN, ConfigError

ROOT = Path(__file__).resolve().parent.parent
"""The project folder: shipped data and models are read from here."""

DATA = ROOT / "data"
MODELS = ROOT / "models"

LEDGER_KEY_BYTES = 16
"""A shorter key could be guessed."""
USER_CHARACTERS = 200
"""The name stands in every ledger entry."""


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
    """Key for HMAC heads, kept outside the home, any bytes as the environment holds them; None where none was given."""
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
    home : overrides `DUEBOOK_HOME` (default `./workspace-demo`, also where that is empty).

    Raises
    ------
    ConfigError : the home or the cache cannot be a folder; the user's name cannot be shown; the ledger key is shorter
        than 16 bytes (an empty one too: who sets it believes that heads are keyed).
    """
    key = environ.get("DUEBOOK_LEDGER_KEY")
    if key is not None and len(os.fsencode(key)) < LEDGER_KEY_BYTES:
        raise ConfigError(
            f"The ledger key is {'empty' if not key else f'shorter than {LEDGER_KEY_BYTES} bytes'}.",
            where="DUEBOOK_LEDGER_KEY",
            next_step=f"Use a key of at least {LEDGER_KEY_BYTES} bytes, or unset it.",
        )
    return Config(
        home=_folder("workspace", *_home(home, environ)),
        cache=_folder("cache", environ.get("DUEBOOK_CACHE") or str(ROOT / ".cache"), "Set DUEBOOK_CACHE to a folder."),
        user=_user(environ),
        ledger_key=None if key is None else os.fsencode(key),
        device=environ.get("DUEBOOK_DEVICE", "auto"),
        backbone=environ.get("DUEBOOK_BACKBONE", "packaged"),
    )


def _home(home: Path | str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the home's name, and what to do about a bad one."""
    if home is not None:
        return str(home), "Give a folder with --home."
    if named := environ.get("DUEBOOK_HOME"):
        return named, "Set DUEBOOK_HOME to a folder, or give one with --home."
    return "workspace-demo", "Give a folder with --home."


def _folder(what: str, name: str, next_step: str) -> Path:
    """Return the absolute path of a folder that exists or could."""
    try:
        if not name:
            raise ValueError("its name is empty")
        if hidden := HIDDEN.search(name):
            raise ValueError(f"its name holds the character U+{ord(hidden[0]):04X}")
        folder = Path(name).expanduser().resolve()
        is_file = _is_file(folder)
    except RuntimeError as e:
        reason = "there is no user of that name" if name.startswith("~") else "its links lead in a circle"
        raise ConfigError(f"The {what} cannot be used: {reason}.", where=name, next_step=next_step) from e
    except (OSError, ValueError) as e:
        reason = (e.strerror if isinstance(e, OSError) else None) or str(e)
        raise ConfigError(f"The {what} cannot be used: {reason}.", where=name or None, next_step=next_step) from e
    if is_file:
        raise ConfigError(f"The {what} is a file, not a folder.", where=str(folder), next_step=next_step)
    return folder


def _is_file(folder: Path) -> bool:
    """Return whether something that is no folder stands there; raises where links lead in a circle."""
    try:
        return not stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _user(environ: Mapping[str, str]) -> str:
    try:
        user = environ.get("DUEBOOK_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        user = f"uid{os.getuid()}"
    if HIDDEN.search(user) or user != user.strip() or len(user) > USER_CHARACTERS:
        raise ConfigError(
            f"The user's name is no word of at most {USER_CHARACTERS} characters on one line.",
            where=user[:USER_CHARACTERS],
            next_step="Set DUEBOOK_USER to a name.",
        )
    return user

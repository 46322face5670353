"""Who acts, and how that is known. Read anew for every act and passed to it; the act decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from core.config import Config
from core.errors import PermissionRefused
from core.ledger.rows import ActorRow
from core.ledger.store import fetch_row


class IdentityHow(StrEnum):
    """How an actor is known."""

    ASSERTED = "asserted"
    """It says so itself; permissions are advisory."""
    SECRET = "secret"
    """It gave the secret the directory holds a hash of."""
    HEADER = "header"
    """A trusted proxy says so."""


@dataclass(frozen=True)
class Identity:
    """An actor and how it is known."""

    actor: str
    """`agent:`, `role:` or `person:` and a name."""
    how: IdentityHow = IdentityHow.ASSERTED
    """How that is known."""


def asserted(config: Config) -> Identity:
    """Return the operating-system user, as it calls itself."""
    return Identity(f"person:{config.user}")


def require(conn: Connection, identity: Identity, authority: str) -> None:
    """Do nothing where the actor holds the authority now (or admin).

    Raises
    ------
    PermissionRefused : it does not, or it is not in the directory.
    """
    row = fetch_row(conn, ActorRow, identity.actor)
    if row is None:
        raise PermissionRefused(
            f"{identity.actor} is not in this workspace's directory of actors.",
            next_step="Act as the user who made the workspace, or open one of your own.",
        )
    if authority not in row.authorities and "admin" not in row.authorities:
        raise PermissionRefused(f"{identity.actor} does not hold the authority to {authority}.")

"""The intervention: the one object through which a payload reaches the output. Never built on the null path."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from core.hashing import canonical_json


@dataclass(frozen=True)
class Intervention:
    """Direct payload actuation (paper section 3.5): the payload is the system's action, the backbone is not asked."""

    record_id: str
    """The record retrieved."""
    payload: str
    """The payload bound to it in this arm."""

    def as_json(self) -> str:
        """Return the stored spelling."""
        return canonical_json(asdict(self)).decode()

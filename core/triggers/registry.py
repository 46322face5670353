"""The fixed table of triggers: a name is looked up here and nowhere else; nothing is imported by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.errors import DuebookError, InputError, quoted
from core.triggers.base import Trigger
from core.triggers.constant import AlwaysTrigger, NeverTrigger
from core.triggers.learned import mlp

_TABLE: dict[str, Callable[[], Trigger]] = {"never": NeverTrigger, "always": AlwaysTrigger, "mlp": mlp.load}
NAMES = tuple(_TABLE)


@dataclass(frozen=True)
class TriggerInfo:
    """One row of `triggers`."""

    name: str
    """The name it is looked up by."""
    available: bool
    """Whether it can judge here and now."""
    threshold: float | None
    """Its locked threshold; None while it is not available."""
    weights_sha256: str | None
    """Hash of its weights; empty where nothing is fitted."""
    device: str | None
    """Where it computes."""
    why_not: str | None
    """What is missing and how to get it; None when it is available."""


def installed() -> list[TriggerInfo]:
    """Return every known trigger and whether it can be used."""
    return [_info(name) for name in NAMES]


def get(name: str) -> Trigger:
    """Return a trigger by name.

    Raises
    ------
    InputError : there is none of that name.
    ModelError, MissingPackage : it cannot be loaded here.
    """
    if name not in _TABLE:
        raise InputError(f"There is no trigger {quoted(name)}: choose one of {', '.join(NAMES)}.")
    return _TABLE[name]()


def _info(name: str) -> TriggerInfo:
    try:
        trigger = get(name)
    except DuebookError as e:
        return TriggerInfo(name, False, None, None, None, str(e))
    return TriggerInfo(name, True, trigger.threshold, trigger.weights_sha256, trigger.device, None)

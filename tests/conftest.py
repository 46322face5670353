"""Keeps the user's own clock, environment and workspace out of every test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from core.config import ROOT

os.environ["HF_HUB_OFFLINE"] = "1"  # huggingface_hub reads it once, at import

# A busy machine is slow and not wrong: no example has a deadline, and drawing slowly is no failure.
# Where a change is judged the examples are fixed, so that it is judged by itself; anywhere else they are new each time.
settings.register_profile(
    "duebook", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("duebook")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DUEBOOK_LEDGER_KEY", "DUEBOOK_DEVICE", "DUEBOOK_BACKBONE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DUEBOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DUEBOOK_USER", "tester")
    # AppTest leaves the page it ran as `__main__`, and a spawned process would run that page.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    # The converted backbone is derived, read-only and slow to make: tests share it.
    monkeypatch.setenv("DUEBOOK_CACHE", str(ROOT / ".cache"))

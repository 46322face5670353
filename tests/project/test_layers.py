"""The import contracts hold, and each would notice its own breach."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from core.config import ROOT

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code that a test may break."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("core", "pages"):
        copytree(ROOT / name, folder / name, ignore=ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return folder


def test_the_contracts_hold() -> None:
    code, text = lint(ROOT)
    assert code == 0, text


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("core/records/base.py", "import core.controller.step", "Layers: reading order is one direction"),
        ("core/views/__init__.py", "import core.cli.base", "Layers: reading order is one direction"),
        ("core/acts/prepared.py", "import streamlit", "The core knows no screen"),
        ("pages/__init__.py", "import duckdb", "Pages ask and act through core only"),
        ("core/ledger/chain.py", "import torch", "The ledger knows no model"),
    ],
)
def test_a_breach_is_named(file: str, line: str, contract: str, copy: Path) -> None:
    path = copy / file
    before = path.read_text()
    path.write_text(f"{before}\n{line}\n")
    try:
        code, text = lint(copy)
    finally:
        path.write_text(before)
    assert code == 1
    assert f"{contract} BROKEN" in " ".join(text.split())


def test_every_package_of_the_core_has_its_place() -> None:
    """A folder that no layer names would be free to import anything."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    placed = {name.strip() for layer in layers for name in layer.replace(":", "|").split("|")}
    there = {f"core.{p.stem}" for p in (ROOT / "core").glob("[a-z]*.py")}
    there |= {f"core.{p.parent.name}" for p in (ROOT / "core").glob("*/__init__.py")}
    assert there - placed == set()

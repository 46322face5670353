r"""The chain: what an entry's hash covers.

hash = SHA-256("duebook-entry-1\n" + prev + "\n" + RFC 8785 JSON of {ledger_id, seq, at, as_of, kind, actor, identity,
subject, body}). The previous hash of the first entry is 64 zeros. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from core.hashing import canonical_json, sha256_hex

PREFIX = b"duebook-entry-1\n"

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value that holds no float and no integer beyond 2^53.

    For such values the standard library writes the same bytes, thirty times faster; only the order of keys outside
    ASCII differs, and those go the slow way. A property test holds the two equal.
    """
    fast = _ENCODER.encode(value)
    return fast.encode() if fast.isascii() else canonical_json(value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry exactly as it is stored: instants and body are the texts that were hashed."""

    seq: int
    at: str
    """Wall clock of the writing process."""
    as_of: str
    """The instant the act was judged at; equal to `at` unless set on purpose."""
    kind: str
    actor: str
    identity: str
    """How the actor was known: asserted, secret, header."""
    subject: str
    """What it is about: `run:<id>`, `annotation:<id>`..."""
    body: str
    """Canonical JSON."""
    prev: str
    hash: str


FIELDS = ("seq", "at", "as_of", "kind", "actor", "identity", "subject", "body", "prev", "hash")
"""The columns of an entry, in order."""


def hashed_bytes(ledger_id: str, entry: Entry, seq: int | None = None) -> bytes:
    """Return the canonical JSON an entry's hash covers, `body` spliced in as it is stored.

    The keys of canonical JSON are sorted, so the parts around the body can be written apart: a stored body that is
    not canonical changes the hash like any other edit.
    """
    before: dict[str, Any] = {"actor": entry.actor, "as_of": entry.as_of, "at": entry.at}
    after: dict[str, Any] = {
        "identity": entry.identity,
        "kind": entry.kind,
        "ledger_id": ledger_id,
        "seq": entry.seq if seq is None else seq,
        "subject": entry.subject,
    }
    return canonical(before)[:-1] + b',"body":' + entry.body.encode() + b"," + canonical(after)[1:]


def entry_hash(ledger_id: str, entry: Entry, *, prev: str | None = None, seq: int | None = None) -> str:
    """Return the hash an entry should have, after `prev` and at `seq` where they are given."""
    link = entry.prev if prev is None else prev
    return sha256_hex(PREFIX + link.encode() + b"\n" + hashed_bytes(ledger_id, entry, seq))

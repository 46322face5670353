"""Walking a chain and naming the first entry that is not what was written.

Promise: of an intact chain every entry is hashed and linked; of a broken one the first bad entry is named, with what
was done to it as far as the rest of the chain can tell. Streams: one entry is held at a time. Pure; both ledgers (the
workspace's and the committed evidence) are walked by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.errors import InputError
from core.hashing import GENESIS_HASH
from core.ledger.chain import FIELDS, Entry, canonical, entry_hash
from core.ledger.kinds import EntryKind

RENUMBERED_AT_MOST = 1_000
"""How many removed entries are looked for behind a renumbering."""


class Tampering(StrEnum):
    """What was done."""

    EDITED = "edited"
    """The entry's content or its hash was changed in place."""
    REMOVED = "removed"
    """The entry is gone; later ones stand."""
    RELINKED = "re-linked"
    """The entry's link or its content was changed and a hash recomputed, so that the next link no longer fits."""
    REORDERED = "reordered"
    """The entry stands at another place."""
    INSERTED = "inserted"
    """The entry was not there when the next one was written, or stands past the head."""
    CUT_OFF = "cut-off"
    """The ledger ends before this entry."""
    HEAD = "head"
    """The head itself was changed."""
    STATE = "state"
    """A table differs from what the ledger says."""
    DAMAGED = "damaged"
    """The file itself cannot be read."""
    SCHEMA = "schema"
    """The file's header, or a table, index, trigger or view, is not as the migrations make it."""
    TEXT = "text"
    """A free text differs from its hash, or belongs to no entry."""


@dataclass(frozen=True)
class Finding:
    """One thing that does not verify."""

    kind: Tampering
    seq: int | None
    """The first entry it concerns; None where no entry can be named."""
    sentence: str
    """What was found, in words."""


@dataclass(frozen=True)
class Head:
    """The number of entries and the last one's hash."""

    count: int
    hash: str


@dataclass
class Walked:
    """What the walk saw."""

    count: int = 0
    """Entries that verified, from the first on."""
    hash: str = GENESIS_HASH
    """The last verified entry's hash."""
    finding: Finding | None = None
    """Why the walk stopped early, or did not end at the head."""
    marks: dict[int, str] = field(default_factory=dict)
    """Hashes of the entries asked for."""


Row = tuple[Any, ...]
"""The values of `FIELDS` as they are stored, whatever their types."""


def walk(
    rows: Iterable[Row],
    ledger_id: str,
    head: Head | None,
    *,
    place_of_successor: Callable[[str], int | None],
    visit: Callable[[Entry, dict[str, Any]], None] | None = None,
    marks: Collection[int] = (),
) -> Walked:
    """Verify the entries in the order they stand.

    Parameters
    ----------
    rows : every entry, as stored.
    ledger_id : covered by every hash.
    head : what the ledger says of itself; None: it does not.
    place_of_successor : the place (1-based) of a stored entry whose `prev` is the given hash, or None.
    visit : called with each verified entry and its parsed body.
    marks : sequences whose hashes are wanted.
    """
    seen = Walked()
    before = ""  # the hash before the last verified entry's
    pairs = _with_next(rows)
    for row, following in pairs:
        entry, body = _parsed(row)
        n = seen.count + 1
        intact = (
            entry is not None
            and body is not None
            and entry.seq == n
            and entry.prev == seen.hash
            and (entry.kind == EntryKind.GENESIS) == (n == 1)
            and _hash(ledger_id, entry) == entry.hash
        )
        if not intact or entry is None or body is None:
            next_link = following[FIELDS.index("prev")] if following else head.hash if head else None
            if entry is None:
                seen.finding = Finding(Tampering.EDITED, n, f"Entry {n} was edited: it no longer reads as an entry.")
            else:
                seen.finding = _what_happened(
                    entry, n, seen.hash, before, next_link, ledger_id, head, place_of_successor, following
                )
            return seen
        before, seen.hash, seen.count = seen.hash, entry.hash, n
        if n in marks:
            seen.marks[n] = entry.hash
        if visit is not None:
            visit(entry, body)
    seen.finding = _at_the_end(seen, head)
    return seen


def _with_next(rows: Iterable[Row]) -> Iterator[tuple[Row, Row | None]]:
    iterator = iter(rows)
    row = next(iterator, None)
    while row is not None:
        following = next(iterator, None)
        yield row, following
        row = following


def _parsed(row: Row) -> tuple[Entry | None, dict[str, Any] | None]:
    """Return the entry, None where a value has another type; and its body, None where it is not canonical JSON."""
    if type(row[0]) is not int or any(type(value) is not str for value in row[1:]):
        return None, None
    entry = Entry(*row)
    try:
        body = _DECODER.decode(entry.body)
        whole = isinstance(body, dict) and canonical(body) == entry.body.encode() and entry.kind in _KINDS
    except (ValueError, RecursionError, InputError):
        return entry, None
    return entry, body if whole else None


_KINDS = frozenset(k.value for k in EntryKind)


def _refused(number: str) -> float:
    raise ValueError(f"{number} has no place in an entry")


_DECODER = json.JSONDecoder(parse_float=_refused, parse_constant=_refused)


def _hash(ledger_id: str, entry: Entry, *, prev: str | None = None, seq: int | None = None) -> str:
    try:
        return entry_hash(ledger_id, entry, prev=prev, seq=seq)
    except (ValueError, InputError):  # an edited text may have no canonical form at all
        return ""


def _what_happened(
    entry: Entry,
    n: int,
    prev: str,
    prev_prev: str,
    next_link: str | None,
    ledger_id: str,
    head: Head | None,
    place_of_successor: Callable[[str], int | None],
    following: Row | None,
) -> Finding:
    own = _hash(ledger_id, entry) == entry.hash
    as_n = _hash(ledger_id, entry, seq=n) == entry.hash
    if entry.prev == prev:
        if own and entry.seq == n:
            return Finding(Tampering.EDITED, n, f"Entry {n} was edited: no such entry is ever written here.")
        if own:
            return Finding(Tampering.REMOVED, n, f"Entry {n} was removed and entry {entry.seq} linked past it.")
        if as_n:
            return Finding(Tampering.EDITED, n, f"Entry {n} was edited: its number reads {entry.seq}.")
        if next_link is not None and _hash(ledger_id, entry, seq=n) == next_link:
            return Finding(Tampering.EDITED, n, f"Entry {n} was edited: its hash was changed.")
        if n == 1 and following is not None and _other_id(following, entry.hash, ledger_id):
            return Finding(Tampering.HEAD, n, "The ledger's id was changed: no entry fits it.")
        return Finding(Tampering.EDITED, n, f"Entry {n} was edited: its content does not give its hash.")
    if n > 1 and entry.prev == prev_prev and _hash(ledger_id, entry, seq=n - 1) == entry.hash:
        return Finding(Tampering.INSERTED, n - 1, f"Entry {n - 1} was inserted: the next one follows entry {n - 2}.")
    if _hash(ledger_id, entry, prev=prev, seq=n) == entry.hash:
        return Finding(Tampering.RELINKED, n, f"Entry {n} was re-linked: its link to entry {n - 1} was changed.")
    if (place := place_of_successor(prev)) is not None:
        return Finding(Tampering.REORDERED, n, f"Entry {n} was reordered: it stands at place {place}.")
    if entry.seq != n and own:
        return Finding(Tampering.REMOVED, n, f"Entry {n} was removed.")
    if own:
        if next_link == entry.hash and n > 1:
            return Finding(
                Tampering.RELINKED,
                n - 1,
                f"Entry {n - 1} was edited and its hash recomputed: entry {n} links to another hash.",
            )
        return Finding(Tampering.RELINKED, n, f"Entry {n} was re-linked: its link was changed and its hash recomputed.")
    last = min(n + RENUMBERED_AT_MOST, head.count if head else n + RENUMBERED_AT_MOST)
    if any(_hash(ledger_id, entry, seq=s) == entry.hash for s in range(n + 1, last + 1)):
        return Finding(Tampering.REMOVED, n, f"Entry {n} was removed and later ones renumbered.")
    if entry.seq != n:
        return Finding(Tampering.REMOVED, n, f"Entry {n} was removed, and entry {entry.seq} was edited.")
    return Finding(Tampering.EDITED, n, f"Entry {n} was edited: neither its content nor its link fits.")


def _other_id(following: Row, link: str, ledger_id: str) -> bool:
    second, _ = _parsed(following)
    return second is not None and second.prev == link and _hash(ledger_id, second) != second.hash


def _at_the_end(seen: Walked, head: Head | None) -> Finding | None:
    if head is None:
        return None
    n = seen.count
    if head.count != n and head.hash == seen.hash:
        return Finding(Tampering.HEAD, n, f"The head's count was changed: it reads {head.count}, the chain has {n}.")
    if head.count > n:
        return Finding(
            Tampering.CUT_OFF, n + 1, f"The ledger was cut off: it ends at entry {n}, its head at {head.count}."
        )
    if head.count < n:
        return Finding(
            Tampering.INSERTED, head.count + 1, f"Entry {head.count + 1} was inserted: it stands past the head."
        )
    if head.hash != seen.hash:
        return Finding(
            Tampering.RELINKED,
            n or None,
            f"Entry {n} does not have the hash the head holds: it was edited and re-hashed, or the head was.",
        )
    return None

"""The ledger as a whole: is it what was written, and its head for keeping elsewhere.

Promise: `verify` reads one snapshot, streaming; it names the first entry that was edited, removed, re-linked,
reordered, inserted or cut off, every state row and text that differs from what the ledger says, every table, index and
trigger that is not as Duebook makes it, and says what it could not exclude. It never repairs anything.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from sqlalchemy import Connection

from core.clock import now
from core.errors import InputError, LedgerCorrupt
from core.hashing import canonical_json
from core.ledger import fold
from core.ledger.chain import FIELDS
from core.ledger.kinds import EntryKind, LedgerClass
from core.ledger.rows import SHA256
from core.ledger.shape import differences, read_shape
from core.ledger.store import Store, StoreDamaged, StoreForeign
from core.ledger.walk import Finding, Head, Row, Tampering, Walked, walk
from core.records.base import Instant, Noun, refusal

__all__ = [
    "EntryKind",
    "Finding",
    "HeadFile",
    "LedgerClass",
    "Tampering",
    "VerifyReport",
    "head",
    "read_head",
    "verify",
]

HEAD_BYTES = 10_000
"""No head is longer."""
FINDINGS_KEPT = 100
"""Differences listed in a report; the rest is counted."""

UNKEYED_CHAIN = "An unkeyed chain cannot exclude a full rewrite: keep a head elsewhere and verify against it."
UNKEYED_HEAD = "The head is not keyed: whoever rewrites the chain and the head together is not noticed."
NO_KEY = "The head is keyed, and no key was given: its own integrity was not checked."


class HeadFile(Noun):
    """A head as it is exported: enough to notice any change to the entries it counts."""

    duebook_head: Literal[1] = 1
    """Version of this document."""
    ledger_id: str
    """The ledger it was taken of."""
    count: int = Field(ge=0)
    """How many entries it had."""
    hash: str = Field(pattern=SHA256)
    """The last one's hash."""
    at: Instant
    """When the head was taken."""
    hmac: str | None = Field(default=None, pattern=SHA256)
    """HMAC-SHA256 over ledger id, count and hash, where a key was given."""

    def keyed(self, key: bytes | None) -> HeadFile:
        """Return this head under a key; without one it stays unkeyed."""
        return self if key is None else self.model_copy(update={"hmac": self._mac(key)})

    def fits(self, key: bytes) -> bool:
        """Return whether the head was taken under this key and not changed since."""
        return self.hmac is not None and hmac.compare_digest(self.hmac, self._mac(key))

    def _mac(self, key: bytes) -> str:
        covered = canonical_json({"count": self.count, "hash": self.hash, "ledger_id": self.ledger_id})
        return hmac.new(key, b"duebook-head-1\n" + covered, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class VerifyReport:
    """What a verification found."""

    ledger: str
    """`workspace` or `evidence`."""
    ledger_id: str
    count: int
    """Entries that verified, from the first on."""
    hash: str
    """The last verified entry's hash."""
    first_bad: int | None
    """The first bad entry, where one can be named."""
    findings: tuple[Finding, ...]
    """Everything that does not verify, the chain's first; at most 100."""
    found: int
    """How many there are in all."""
    notes: tuple[str, ...]
    """What this verification could not exclude."""

    @property
    def ok(self) -> bool:
        """Whether everything verified."""
        return self.found == 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as one JSON object."""
        return {
            "ledger": self.ledger,
            "ledger_id": self.ledger_id,
            "ok": self.ok,
            "count": self.count,
            "hash": self.hash,
            "first_bad": self.first_bad,
            "findings": [{"kind": f.kind.value, "seq": f.seq, "sentence": f.sentence} for f in self.findings],
            "found": self.found,
            "notes": list(self.notes),
        }

    def require_ok(self) -> None:
        """Do nothing where everything verified.

        Raises
        ------
        LedgerCorrupt : with the first finding's sentence.
        """
        if self.findings:
            raise LedgerCorrupt(
                self.findings[0].sentence,
                where=f"{self.ledger} ledger",
                next_step="Restore the file from a copy that verifies.",
            )


def head(store: Store, key: bytes | None = None) -> HeadFile:
    """Return the ledger's head, keyed where a key is given.

    Raises
    ------
    LedgerCorrupt : the head row is missing.
    """
    with store.read() as conn:
        row = _head_row(conn)
    if row is None:
        raise LedgerCorrupt("The ledger's head row is missing.", where=str(store.path))
    return HeadFile(ledger_id=row[0], count=row[1].count, hash=row[1].hash, at=now()).keyed(key)


def read_head(path: Path) -> HeadFile:
    """Read an exported head.

    Raises
    ------
    InputError : there is no such file, or it is not a head.
    """
    make_one = "Make one with `python -m core ledger head --json`."
    try:
        if path.exists() and not path.is_file():  # a device or a pipe may never end
            raise InputError("The head file is no regular file.", where=str(path), next_step=make_one)
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES + 1)
    except OSError as e:
        raise InputError(
            f"The head file cannot be read: {e.strerror or e}.", where=str(path), next_step=make_one
        ) from e
    if len(data) > HEAD_BYTES:
        raise InputError(f"The head file is longer than {HEAD_BYTES:,} bytes.", where=str(path), next_step=make_one)
    try:
        return HeadFile.model_validate_json(data)
    except ValidationError as e:
        raise refusal(e, InputError, where=str(path), next_step=make_one) from e


def verify(store: Store, *, head: HeadFile | None = None, key: bytes | None = None) -> VerifyReport:
    """Verify the chain, the state tables folded from it, and the texts, in one snapshot.

    Parameters
    ----------
    head : an earlier head to hold the chain against.
    key : the key that head was taken under.

    Raises
    ------
    StoreError : the store cannot be read for another reason than damage.
    """
    try:
        return _verify(store, head, key)
    except StoreDamaged as e:
        return damaged("workspace", e)


def damaged(ledger: str, error: StoreDamaged) -> VerifyReport:
    """Return the report on a ledger whose file cannot be read."""
    found = Findings()
    if isinstance(error, StoreForeign):
        for sentence in error.found:
            found.add(Finding(Tampering.SCHEMA, None, sentence))
    else:
        found.add(Finding(Tampering.DAMAGED, None, error.message))
    return found.report(ledger, "", Walked(), ())


def _verify(store: Store, head: HeadFile | None, key: bytes | None) -> VerifyReport:
    found = Findings()
    with store.read() as conn, _undecoded(conn):
        unlike = list(differences(read_shape(conn)))
        for difference in unlike:
            found.add(Finding(Tampering.SCHEMA, None, difference.sentence))
        if any(d.unreadable for d in unlike):  # changed since the store was opened
            return found.report("workspace", "", Walked(), (UNKEYED_CHAIN,))
        row = _head_row(conn)
        if row is None:
            found.add(Finding(Tampering.HEAD, None, "The ledger's head row is missing."))
            if head is None:  # without the ledger's id no entry can be checked
                return found.report("workspace", "", Walked(), (UNKEYED_CHAIN,))
        ledger_id, own = row or (head.ledger_id if head else "", None)
        texts = fold.Texts(conn, found.add)
        walked = walk(
            _rows(conn),
            ledger_id,
            own,
            place_of_successor=lambda link: _successor(conn, link),
            visit=texts.visit,
            marks=(head.count,) if head else (),
        )
        found.add(walked.finding)
        if walked.finding is None or walked.finding.kind in (Tampering.HEAD, Tampering.CUT_OFF):
            for finding in fold.compare_tables(conn, walked.count):
                found.add(finding)
            texts.finish()
    notes = against(head, key, ledger_id, walked, found.add)
    return found.report("workspace", ledger_id, walked, notes)


def against(
    head: HeadFile | None, key: bytes | None, ledger_id: str, walked: Walked, add: Callable[[Finding], None]
) -> tuple[str, ...]:
    """Hold a walked chain against an exported head; return what could not be excluded."""
    if head is None:
        return (UNKEYED_CHAIN,)
    notes = []
    if key is not None and head.hmac is not None and not head.fits(key):
        add(Finding(Tampering.HEAD, None, "The head does not fit the key: it was changed, or taken under another."))
    if head.hmac is None:
        notes.append(UNKEYED_HEAD)
    elif key is None:
        notes.append(NO_KEY)
    if head.ledger_id != ledger_id:
        add(Finding(Tampering.HEAD, None, "The head was taken of another ledger."))
    elif walked.finding is None or walked.finding.kind in (Tampering.HEAD, Tampering.INSERTED):
        if head.count > walked.count:
            add(
                Finding(
                    Tampering.CUT_OFF,
                    walked.count + 1,
                    f"The ledger was cut off: it ends at entry {walked.count}, the head given counts {head.count}.",
                )
            )
        elif head.count and walked.marks[head.count] != head.hash:
            add(
                Finding(
                    Tampering.RELINKED,
                    head.count,
                    f"The chain was rewritten at or before entry {head.count}: its hash is not the one of the head"
                    " given, though every link fits.",
                )
            )
    return tuple(notes)


class Findings:
    """What was found, in the order it was found; the rest beyond `FINDINGS_KEPT` is counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._count = 0
        self._first: int | None = None

    def add(self, finding: Finding | None) -> None:
        """Take up one finding."""
        if finding is None:
            return
        self._count += 1
        if len(self._kept) < FINDINGS_KEPT:
            self._kept.append(finding)
        if finding.seq is not None and (self._first is None or finding.seq < self._first):
            self._first = finding.seq

    def report(self, ledger: str, ledger_id: str, walked: Walked, notes: tuple[str, ...]) -> VerifyReport:
        """Return the report."""
        kept = tuple(sorted(self._kept, key=lambda f: f is not walked.finding))
        return VerifyReport(ledger, ledger_id, walked.count, walked.hash, self._first, kept, self._count, notes)


class _undecoded:  # noqa: N801  # reads like the function it stands for
    """While it is open, bytes that are not UTF-8 come as they are: damage must be named, not raised by the driver."""

    def __init__(self, conn: Connection) -> None:
        self._driver: Any = conn.connection.driver_connection

    def __enter__(self) -> None:
        self._driver.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")

    def __exit__(self, *_: object) -> None:
        self._driver.text_factory = str


def _head_row(conn: Connection) -> tuple[str, Head] | None:
    rows = conn.exec_driver_sql("SELECT ledger_id, seq, hash FROM ledger_head").all()
    return (rows[0][0], Head(rows[0][1], rows[0][2])) if len(rows) == 1 else None


def _rows(conn: Connection) -> Iterator[Row]:
    # Past the decoding types: what is verified is what is stored. By key, so that memory does not grow.
    query = f"SELECT {', '.join(FIELDS)} FROM entry WHERE seq > ? ORDER BY seq LIMIT 2000"
    last = -(2**63)
    while rows := conn.exec_driver_sql(query, (last,)).all():
        yield from (tuple(r) for r in rows)
        last = rows[-1][0]


def _successor(conn: Connection, link: str) -> int | None:
    row = conn.exec_driver_sql("SELECT seq FROM entry WHERE prev = ? LIMIT 1", (link,)).one_or_none()
    return None if row is None else int(row[0])

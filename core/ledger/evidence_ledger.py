"""The evidence ledger: the same entries and chain as the workspace's, committed as JSON Lines beside its head.

Promise: an append holds a file lock, is flushed to disk, and counts once the head, replaced atomically, names it; what
a killed append left behind the head is cut (half a line) or taken up (a whole entry that fits) by the next one.
Refused: appending to a ledger that does not verify. Bodies are in the clear: nothing private belongs here.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from core.clock import format_instant, now
from core.config import DATA
from core.errors import InputError, LedgerCorrupt, StoreError
from core.files import write_whole
from core.ledger.chain import FIELDS, Entry, canonical, entry_hash
from core.ledger.kinds import Body, EntryKind, Genesis, LedgerClass, body_json
from core.ledger.ledger import Findings, HeadFile, VerifyReport, against, read_head
from core.ledger.walk import Finding, Head, Row, Tampering, Walked, walk

EVIDENCE_KINDS = frozenset(
    {
        EntryKind.EVIDENCE_FROZEN,
        EntryKind.RUN_SHIPPED,
        EntryKind.RUN_AMENDED,
        EntryKind.METHOD_LOCKED,
        EntryKind.HOLDOUT_OPENED,
    }
)
"""What may be appended here; the genesis entry is made with the file."""


class EvidenceLedger:
    """The chain in `<folder>/ledger.jsonl` and its head in `<folder>/head.json`.

    Parameters
    ----------
    folder : data/evidence of the project, unless told otherwise.
    """

    def __init__(self, folder: Path = DATA / "evidence") -> None:
        self.path = folder / "ledger.jsonl"
        self.head_path = folder / "head.json"

    def append(
        self,
        kind: EntryKind,
        body: Body,
        subject: str,
        actor: str,
        identity: str = "asserted",
        key: bytes | None = None,
    ) -> Entry:
        """Append one entry and move the head; the first append makes both files.

        Parameters
        ----------
        kind, body, subject : what happened, to what (`run:<id>`, `file:<path>`).
        actor, identity : who says so.
        key : keys the head file.

        Raises
        ------
        StoreError : the kind has no place here, or the body is not of it.
        LedgerCorrupt : the ledger does not verify; nothing is appended.
        """
        return self.append_all([(kind, body, subject)], actor, identity, key)[0]

    def append_all(
        self,
        told: Sequence[tuple[EntryKind, Body, str]],
        actor: str,
        identity: str = "asserted",
        key: bytes | None = None,
    ) -> list[Entry]:
        """Append several entries in one write, or none, and move the head once.

        Parameters
        ----------
        told : kind, body and subject of each entry, in order.
        actor, identity, key : as for `append`.

        Raises
        ------
        StoreError, LedgerCorrupt : as for `append`; nothing is appended.
        """
        texts = []
        for kind, body, _ in told:
            if kind not in EVIDENCE_KINDS:
                raise StoreError(f"An entry of kind {kind} has no place in the evidence ledger.")
            texts.append(canonical(body_json(kind, body)).decode())
        if not told:
            return []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as file:
            walked, ledger_id = self._recovered(file)
            lines: list[bytes] = []
            if walked.count == 0:
                genesis = Genesis(ledger_class=LedgerClass.EVIDENCE, after=None)
                first = canonical(body_json(EntryKind.GENESIS, genesis)).decode()
                walked = _add(lines, ledger_id, walked, EntryKind.GENESIS, first, "evidence", actor, identity)[1]
            entries = []
            for (kind, _, subject), text in zip(told, texts, strict=True):
                entry, walked = _add(lines, ledger_id, walked, kind, text, subject, actor, identity)
                entries.append(entry)
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
            self._write_head(HeadFile(ledger_id=ledger_id, count=walked.count, hash=walked.hash, at=now()).keyed(key))
        return entries

    def mend(self) -> None:
        """Finish what a killed append left: half a line is cut off, whole entries past the head are taken up.

        Raises
        ------
        LedgerCorrupt : the ledger does not verify; nothing is changed.
        """
        if not self.path.exists():
            return
        with self._locked() as file:
            walked, ledger_id = self._recovered(file)
            beside = self.head()
            if walked.count and (beside is None or beside.count != walked.count):
                self._write_head(HeadFile(ledger_id=ledger_id, count=walked.count, hash=walked.hash, at=now()))

    def entries(self) -> list[tuple[Entry, dict[str, Any]]]:
        """Return every entry with its parsed body, verified.

        Raises
        ------
        LedgerCorrupt : the ledger does not verify.
        """
        collected: list[tuple[Entry, dict[str, Any]]] = []
        self._verify(None, None, collected).require_ok()
        return collected

    def verify(self, *, head: HeadFile | None = None, key: bytes | None = None) -> VerifyReport:
        """Verify the chain against the head beside it, and against an earlier one where given.

        Parameters
        ----------
        head : an earlier head, kept elsewhere.
        key : the key heads are taken under.
        """
        return self._verify(head, key, [])

    def head(self) -> HeadFile | None:
        """Return the head beside the ledger, or None where there is no ledger yet.

        Raises
        ------
        InputError : the head file is there and is not a head.
        """
        return read_head(self.head_path) if self.head_path.exists() else None

    def ledger_id(self) -> str | None:
        """Return the id its entries carry, or None where there is none to read."""
        lines, _ = _lines(self.path.read_bytes() if self.path.exists() else b"")
        return _id_in(lines) or None

    def _verify(
        self, head: HeadFile | None, key: bytes | None, collected: list[tuple[Entry, dict[str, Any]]]
    ) -> VerifyReport:
        findings = Findings()
        beside: HeadFile | None = None
        try:
            beside = self.head()
        except InputError as e:
            findings.add(Finding(Tampering.HEAD, None, f"The head beside the ledger is not readable: {e.message}"))
        lines, torn = _lines(self.path.read_bytes() if self.path.exists() else b"")
        if beside is None and lines and not self.head_path.exists():
            findings.add(Finding(Tampering.HEAD, None, "The head beside the ledger is missing."))
        if torn and len(lines) >= (beside.count if beside else 0):
            findings.add(
                Finding(
                    Tampering.INSERTED,
                    len(lines) + 1,
                    "Half an entry stands past the head: an append was interrupted; the next one cuts it off.",
                )
            )
        elif torn:
            lines.append(torn)
        ledger_id = _id_in(lines) or (beside.ledger_id if beside else "")
        if beside is not None and beside.ledger_id != ledger_id:
            findings.add(Finding(Tampering.HEAD, None, "The head beside the ledger is another ledger's."))
            beside = None
        walked = _walked(lines, ledger_id, beside, head, collected)
        findings.add(walked.finding)
        if beside is not None and key is not None and beside.hmac is not None and not beside.fits(key):
            findings.add(Finding(Tampering.HEAD, None, "The head beside the ledger does not fit the key."))
        notes = against(head, key, ledger_id, walked, findings.add)
        return findings.report("evidence", ledger_id, walked, notes)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file  # closing the file releases the lock

    def _recovered(self, file: BinaryIO) -> tuple[Walked, str]:
        """Return the verified chain, after the traces of a killed append were cut or taken up."""
        file.seek(0)
        data = file.read()
        beside = self.head()
        lines, torn = _lines(data)
        if torn and len(lines) >= (beside.count if beside else 0):
            file.truncate(len(data) - len(torn))  # half a line past the head: never acknowledged
        elif torn:
            lines.append(torn)
        ledger_id = _id_in(lines) or (beside.ledger_id if beside else str(uuid.uuid4()))
        walked = _walked(lines, ledger_id, beside, None, [])
        finding = walked.finding
        if beside is not None and walked.count == len(lines) and walked.marks.get(beside.count) == beside.hash:
            finding = None  # whole entries past the head that fit it: the head's turn had not come
        if beside is not None and beside.ledger_id != ledger_id:
            finding = Finding(Tampering.HEAD, None, "The head beside it is another ledger's.")
        if finding is not None:
            raise LedgerCorrupt(
                f"The evidence ledger does not verify, nothing was appended: {finding.sentence}",
                where=str(self.path),
                next_step="Restore data/evidence from version control.",
            )
        return walked, ledger_id

    def _write_head(self, head: HeadFile) -> None:
        step = "Restore data/evidence from version control and do it again."
        with write_whole(self.head_path, what="The evidence ledger's head", kind=StoreError, next_step=step) as file:
            file.write(canonical(head.model_dump(mode="json")) + b"\n")


def _add(
    lines: list[bytes],
    ledger_id: str,
    walked: Walked,
    kind: EntryKind,
    body: str,
    subject: str,
    actor: str,
    identity: str,
) -> tuple[Entry, Walked]:
    at = format_instant(now())
    bare = Entry(walked.count + 1, at, at, kind.value, actor, identity, subject, body, walked.hash, "")
    entry = replace(bare, hash=entry_hash(ledger_id, bare))
    values = {f: getattr(entry, f) for f in FIELDS} | {"body": json.loads(body), "ledger_id": ledger_id}
    lines.append(canonical(values) + b"\n")
    return entry, Walked(count=entry.seq, hash=entry.hash)


def _walked(
    lines: list[bytes],
    ledger_id: str,
    beside: HeadFile | None,
    head: HeadFile | None,
    collected: list[tuple[Entry, dict[str, Any]]],
) -> Walked:
    rows = [_row(line, ledger_id) for line in lines]
    links = {row[FIELDS.index("prev")]: place for place, row in enumerate(rows, 1)}
    return walk(
        rows,
        ledger_id,
        Head(beside.count, beside.hash) if beside else None,
        place_of_successor=links.get,
        visit=lambda entry, body: collected.append((entry, body)),
        marks=[h.count for h in (beside, head) if h is not None],
    )


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole lines, and what stands after the last line feed."""
    *whole, torn = data.split(b"\n")
    return whole, torn


def _row(line: bytes, ledger_id: str) -> Row:
    """Return a line's values; one that is not the canonical line of an entry has no values at all."""
    try:
        value = json.loads(line)
        if canonical(value) != line or value.pop("ledger_id") != ledger_id or value.keys() != set(FIELDS):
            return (None,) * len(FIELDS)
        value["body"] = canonical(value["body"]).decode()
    except (ValueError, KeyError, AttributeError, RecursionError, InputError):
        return (None,) * len(FIELDS)
    return tuple(value[f] for f in FIELDS)


def _id_in(lines: list[bytes]) -> str:
    try:
        found = json.loads(lines[0])["ledger_id"]
    except (ValueError, KeyError, IndexError, TypeError):
        return ""
    return found if isinstance(found, str) else ""

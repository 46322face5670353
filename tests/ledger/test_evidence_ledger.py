from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import LedgerCorrupt, StoreError
from core.ledger.chain import Entry, entry_hash
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import AnnotationAdded, EntryKind, EvidenceFrozen, RunAmended
from core.ledger.ledger import UNKEYED_CHAIN, Tampering
from core.ledger.rows import AnnotationRow
from tests.ledger.ledgers import annotation

KEY = b"sixteen bytes or more"


def freeze(ledger: EvidenceLedger, name: str, key: bytes | None = None) -> Entry:
    body = EvidenceFrozen(file=f"data/contracts/{name}.csv", sha256="a" * 64)
    return ledger.append(EntryKind.EVIDENCE_FROZEN, body, f"file:{body.file}", "person:tester", key=key)


@pytest.fixture
def ledger(tmp_path: Path) -> EvidenceLedger:
    made = EvidenceLedger(tmp_path / "evidence")
    for name in ("a", "b", "c", "d"):
        freeze(made, name)
    return made


def test_no_ledger_yet_is_no_failure(tmp_path: Path) -> None:
    ledger = EvidenceLedger(tmp_path)
    report = ledger.verify()
    assert report.ok
    assert report.count == 0
    assert ledger.entries() == []
    assert ledger.head() is None
    assert list(tmp_path.iterdir()) == []


def test_the_first_append_begins_the_chain(tmp_path: Path) -> None:
    ledger = EvidenceLedger(tmp_path / "evidence")
    entry = freeze(ledger, "controlled")
    assert entry.seq == 2
    (genesis, begun), (frozen, body) = ledger.entries()
    assert (genesis.kind, begun["ledger_class"], begun["after"]) == ("genesis", "evidence", None)
    assert frozen == entry
    assert body == {"file": "data/contracts/controlled.csv", "sha256": "a" * 64}
    assert sorted(p.name for p in ledger.path.parent.iterdir()) == ["head.json", "ledger.jsonl"]


def test_every_line_is_an_entry_of_the_same_chain_rule(ledger: EvidenceLedger) -> None:
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    prev = "0" * 64
    for n, line in enumerate(lines, 1):
        body = json.dumps(line["body"], sort_keys=True, separators=(",", ":"))
        values = {k: v for k, v in line.items() if k not in ("ledger_id", "body")}
        assert line["seq"] == n
        assert line["prev"] == prev
        assert entry_hash(line["ledger_id"], Entry(**values, body=body)) == line["hash"]
        prev = line["hash"]
    head = ledger.head()
    assert head is not None
    assert (head.count, head.hash, head.ledger_id) == (5, prev, lines[0]["ledger_id"])
    assert ledger.verify().ok
    assert ledger.verify().notes == (UNKEYED_CHAIN,)


def test_an_amendment_carries_its_reason_in_the_clear(ledger: EvidenceLedger) -> None:
    body = RunAmended(run_id="r1", replaced_by="r2", reason="the device was recorded wrongly")
    ledger.append(EntryKind.RUN_AMENDED, body, "run:r1", "person:tester")
    assert ledger.entries()[-1][1]["reason"] == "the device was recorded wrongly"


def test_only_facts_about_evidence_are_taken(ledger: EvidenceLedger) -> None:
    a = annotation()
    row = AnnotationRow(**a.model_dump(exclude={"text"}), text=None)
    with pytest.raises(StoreError) as refused:
        ledger.append(EntryKind.ANNOTATION_ADDED, AnnotationAdded(after=row), "x", "person:tester")
    assert str(refused.value) == "An entry of kind annotation_added has no place in the evidence ledger."


Lines = list[bytes]


def edited(lines: Lines) -> Lines:
    return [line.replace(b"data/contracts/b", b"data/contracts/x") for line in lines]


def rehashed(lines: Lines) -> Lines:
    value = json.loads(edited(lines)[2])
    body = json.dumps(value["body"], sort_keys=True, separators=(",", ":"))
    bare = Entry(**{k: v for k, v in value.items() if k not in ("ledger_id", "body")}, body=body)
    value["hash"] = entry_hash(value["ledger_id"], bare)
    return [*lines[:2], json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), *lines[3:]]


def inserted(lines: Lines) -> Lines:
    value = json.loads(rehashed(lines)[2])
    return [*lines[:2], json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), *lines[2:]]


CASES: list[tuple[str, Callable[[Lines], Lines], Tampering, int, str]] = [
    ("edited", edited, Tampering.EDITED, 3, "Entry 3 was edited: its content does not give its hash."),
    ("spelled otherwise", lambda ls: [*ls[:2], ls[2].replace(b'":"', b'": "', 1), *ls[3:]], Tampering.EDITED, 3,
     "Entry 3 was edited: it no longer reads as an entry."),
    ("no JSON", lambda ls: [*ls[:2], b"<<<<<<< HEAD", *ls[2:]], Tampering.EDITED, 3,
     "Entry 3 was edited: it no longer reads as an entry."),
    ("not UTF-8", lambda ls: [*ls[:2], b"\xff" + ls[2], *ls[3:]], Tampering.EDITED, 3,
     "Entry 3 was edited: it no longer reads as an entry."),
    ("a number edited", lambda ls: [*ls[:2], ls[2].replace(b'"seq":3', b'"seq":4'), *ls[3:]], Tampering.EDITED, 3,
     "Entry 3 was edited: its number reads 4."),
    ("one hash recomputed", rehashed, Tampering.RELINKED, 3,
     "Entry 3 was edited and its hash recomputed: entry 4 links to another hash."),
    ("removed", lambda ls: [*ls[:2], *ls[3:]], Tampering.REMOVED, 3, "Entry 3 was removed."),
    ("swapped", lambda ls: [*ls[:2], ls[3], ls[2], *ls[4:]], Tampering.REORDERED, 3,
     "Entry 3 was reordered: it stands at place 4."),
    ("inserted", inserted, Tampering.INSERTED, 3, "Entry 3 was inserted: the next one follows entry 2."),
    ("doubled", lambda ls: [*ls[:3], ls[2], *ls[3:]], Tampering.INSERTED, 3,
     "Entry 3 was inserted: the next one follows entry 2."),
    ("cut off", lambda ls: ls[:3], Tampering.CUT_OFF, 4, "The ledger was cut off: it ends at entry 3, its head at 5."),
    ("emptied", lambda ls: [], Tampering.CUT_OFF, 1, "The ledger was cut off: it ends at entry 0, its head at 5."),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "seq", "sentence"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_tampering_is_named_with_its_first_bad_entry_and_nothing_is_appended(
    ledger: EvidenceLedger, change: Callable[[Lines], Lines], kind: Tampering, seq: int, sentence: str
) -> None:
    lines = change(ledger.path.read_bytes().splitlines())
    ledger.path.write_bytes(b"".join(line + b"\n" for line in lines))
    before = ledger.path.read_bytes()
    report = ledger.verify()
    assert not report.ok
    assert (report.findings[0].kind, report.findings[0].seq, report.findings[0].sentence) == (kind, seq, sentence)
    with pytest.raises(LedgerCorrupt) as refused:
        freeze(ledger, "e")
    assert str(refused.value) == (
        f"The evidence ledger does not verify, nothing was appended: {sentence} ({ledger.path})"
        " Restore data/evidence from version control."
    )
    assert ledger.path.read_bytes() == before
    with pytest.raises(LedgerCorrupt, match="Entry|cut off"):
        ledger.entries()


def test_a_head_that_is_missing_damaged_or_anothers_is_named(ledger: EvidenceLedger, tmp_path: Path) -> None:
    whole = ledger.head_path.read_bytes()
    ledger.head_path.unlink()
    assert [f.sentence for f in ledger.verify().findings] == ["The head beside the ledger is missing."]
    ledger.head_path.write_text("{}")
    assert ledger.verify().findings[0].sentence == (
        "The head beside the ledger is not readable: ledger_id is missing; count is missing; hash is missing;"
        " at is missing."
    )
    other = EvidenceLedger(tmp_path / "other")
    freeze(other, "a")
    ledger.head_path.write_bytes(other.head_path.read_bytes())
    assert [f.sentence for f in ledger.verify().findings] == ["The head beside the ledger is another ledger's."]
    with pytest.raises(LedgerCorrupt, match="The head beside it is another ledger's"):
        freeze(ledger, "e")
    ledger.head_path.write_bytes(whole)
    assert ledger.verify().ok


def test_a_keyed_head_beside_the_ledger_is_checked_under_the_key(tmp_path: Path) -> None:
    ledger = EvidenceLedger(tmp_path)
    freeze(ledger, "a", key=KEY)
    assert ledger.verify(key=KEY).ok
    forged = json.loads(ledger.head_path.read_bytes()) | {"hmac": "0" * 64}
    ledger.head_path.write_text(json.dumps(forged))
    assert [f.sentence for f in ledger.verify(key=KEY).findings] == ["The head beside the ledger does not fit the key."]


def test_an_earlier_head_kept_elsewhere_names_a_rewrite(ledger: EvidenceLedger) -> None:
    kept = ledger.head()
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    prev = "0" * 64
    for line in lines:
        line["actor"] = "person:mallory"
        body = json.dumps(line["body"], sort_keys=True, separators=(",", ":"))
        bare = Entry(**{k: v for k, v in line.items() if k not in ("ledger_id", "body", "prev")}, body=body, prev=prev)
        line["prev"], line["hash"] = prev, entry_hash(line["ledger_id"], bare)
        prev = line["hash"]
    ledger.path.write_text("".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines))
    beside = json.loads(ledger.head_path.read_text()) | {"hash": prev}
    ledger.head_path.write_text(json.dumps(beside))
    assert ledger.verify().ok
    report = ledger.verify(head=kept)
    assert (report.findings[0].kind, report.findings[0].seq) == (Tampering.RELINKED, 5)


# Interrupted appends


def test_half_a_line_past_the_head_is_said_and_cut_by_the_next_append(ledger: EvidenceLedger) -> None:
    whole = ledger.path.read_bytes()
    with ledger.path.open("ab") as f:
        f.write(whole.splitlines()[-1][:50])
    report = ledger.verify()
    assert [(f.kind, f.seq, f.sentence) for f in report.findings] == [
        (
            Tampering.INSERTED,
            6,
            "Half an entry stands past the head: an append was interrupted; the next one cuts it off.",
        )
    ]
    assert freeze(ledger, "e").seq == 6
    assert ledger.verify().ok
    assert ledger.path.read_bytes().startswith(whole)


def test_a_whole_entry_past_the_head_is_said_and_taken_up_by_the_next_append(ledger: EvidenceLedger) -> None:
    head = ledger.head_path.read_bytes()
    freeze(ledger, "e")
    ledger.head_path.write_bytes(head)  # killed before the head's turn
    assert ledger.verify().findings[0].sentence == "Entry 6 was inserted: it stands past the head."
    assert freeze(ledger, "f").seq == 7
    assert ledger.verify().ok
    assert [body.get("file", "") for _, body in ledger.entries()][-2:] == [
        "data/contracts/e.csv",
        "data/contracts/f.csv",
    ]


def test_killed_before_the_first_head_the_chain_goes_on(ledger: EvidenceLedger) -> None:
    ledger.head_path.unlink()
    assert freeze(ledger, "e").seq == 6
    assert ledger.verify().ok


def test_mending_finishes_a_killed_append_and_changes_nothing_else(ledger: EvidenceLedger) -> None:
    whole, head = ledger.path.read_bytes(), ledger.head_path.read_bytes()
    ledger.mend()
    assert (ledger.path.read_bytes(), ledger.head_path.read_bytes()) == (whole, head)
    freeze(ledger, "e")
    ledger.head_path.write_bytes(head)  # killed before the head's turn
    ledger.mend()
    assert ledger.verify().ok
    assert len(ledger.entries()) == 6
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b"contracts/a", b"contracts/z"))
    with pytest.raises(LedgerCorrupt):
        ledger.mend()


def append_some(folder: Path, name: str) -> None:
    for n in range(15):
        freeze(EvidenceLedger(folder), f"{name}-{n}")


def test_two_processes_append_without_losing_a_line(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=append_some, args=(tmp_path, name)) for name in ("a", "b")]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [c.exitcode for c in children] == [0, 0]
    ledger = EvidenceLedger(tmp_path)
    assert ledger.verify().ok
    assert {body["file"] for _, body in ledger.entries()[1:]} == {
        f"data/contracts/{name}-{n}.csv" for name in ("a", "b") for n in range(15)
    }
    assert sorted(os.listdir(tmp_path)) == ["head.json", "ledger.jsonl"]

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import LedgerCorrupt
from core.ledger import annotation_store
from core.ledger.chain import entry_hash
from core.ledger.ledger import NO_KEY, UNKEYED_CHAIN, UNKEYED_HEAD, Tampering, VerifyReport, head, verify
from core.ledger.store import head_seq, open_store
from tests.ledger.ledgers import ENTRIES, annotation, fill, filled, rehash, stored, tampering

Do = Callable[[sqlite3.Connection], None]
KEY = b"sixteen bytes or more"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path)


def verified(path: Path, **kwargs: object) -> VerifyReport:
    with open_store(path) as store:
        return verify(store, **kwargs)  # type: ignore[arg-type]


def test_an_untouched_ledger_verifies_and_says_what_an_unkeyed_chain_cannot_exclude(path: Path) -> None:
    report = verified(path)
    assert report.ok
    assert report.findings == ()
    assert report.count == ENTRIES
    assert report.first_bad is None
    assert report.notes == (UNKEYED_CHAIN,)


def sql(*statements: str) -> Do:
    def do(connection: sqlite3.Connection) -> None:
        for statement in statements:
            assert connection.execute(statement).rowcount >= 1, statement

    return do


def swap(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE entry SET seq = 1000 WHERE seq = 5")
    connection.execute("UPDATE entry SET seq = 5 WHERE seq = 6")
    connection.execute("UPDATE entry SET seq = 6 WHERE seq = 1000")


def swap_far(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE entry SET seq = 1000 WHERE seq = 3")
    connection.execute("UPDATE entry SET seq = 3 WHERE seq = 9")
    connection.execute("UPDATE entry SET seq = 9 WHERE seq = 1000")


def renumber(connection: sqlite3.Connection, first: int, by: int) -> None:
    seqs = [e.seq for e in stored(connection) if e.seq >= first]
    for seq in sorted(seqs, reverse=by > 0):
        connection.execute("UPDATE entry SET seq = ? WHERE seq = ?", (seq + by, seq))


def remove_and_renumber(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM entry WHERE seq = 5")
    renumber(connection, 6, -1)


def remove_and_link_past(connection: sqlite3.Connection) -> None:
    link = stored(connection)[3].hash
    connection.execute("DELETE FROM entry WHERE seq = 5")
    connection.execute("UPDATE entry SET prev = ? WHERE seq = 6", (link,))
    e = stored(connection)[4]
    ledger_id = connection.execute("SELECT ledger_id FROM ledger_head").fetchone()[0]
    connection.execute("UPDATE entry SET hash = ? WHERE seq = 6", (entry_hash(ledger_id, e),))


def insert_between(connection: sqlite3.Connection) -> None:
    renumber(connection, 7, 1)
    forge(connection, 7)
    rehash(connection, 7, last=7)


def forge(connection: sqlite3.Connection, seq: int) -> None:
    connection.execute(
        "INSERT INTO entry SELECT ?, at, as_of, kind, actor, identity, subject, body, hash, hash FROM entry"
        " WHERE seq = 6",
        (seq,),
    )


def insert_past_the_head(connection: sqlite3.Connection) -> None:
    forge(connection, ENTRIES + 1)
    rehash(connection, ENTRIES + 1, last=ENTRIES + 1)


def edit_and_rehash_one(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE entry SET actor = 'person:mallory' WHERE seq = 6")
    rehash(connection, 6, last=6)


def relink_and_rehash_one(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE entry SET prev = ? WHERE seq = 6", ("1" * 64,))
    rehash(connection, 6, last=6, relink=False)


def body(seq: int, old: str, new: str) -> Do:
    def do(connection: sqlite3.Connection) -> None:
        text = connection.execute("SELECT body FROM entry WHERE seq = ?", (seq,)).fetchone()[0]
        assert old in text
        connection.execute("UPDATE entry SET body = ? WHERE seq = ?", (text.replace(old, new), seq))

    return do


CHAIN: list[tuple[str, Do, Tampering, int, str]] = [
    ("a body edited", body(6, '"stored":4', '"stored":9'), Tampering.EDITED, 6,
     "Entry 6 was edited: its content does not give its hash."),
    ("a body spelled otherwise", body(6, '"stored":4', '"stored": 4'), Tampering.EDITED, 6,
     "Entry 6 was edited: its content does not give its hash."),
    ("a float slipped in", body(6, '"stored":4', '"stored":4.0'), Tampering.EDITED, 6,
     "Entry 6 was edited: its content does not give its hash."),
    ("a wall time edited", sql("UPDATE entry SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 6"),
     Tampering.EDITED, 6, "Entry 6 was edited: its content does not give its hash."),
    ("a time spelled otherwise", sql("UPDATE entry SET at = replace(at, 'Z', 'z') WHERE seq = 6"),
     Tampering.EDITED, 6, "Entry 6 was edited: its content does not give its hash."),
    ("an as_of edited", sql("UPDATE entry SET as_of = '2020-01-01T00:00:00.000000Z' WHERE seq = 6"),
     Tampering.EDITED, 6, "Entry 6 was edited: its content does not give its hash."),
    ("an actor edited", sql("UPDATE entry SET actor = 'person:mallory' WHERE seq = 6"), Tampering.EDITED, 6,
     "Entry 6 was edited: its content does not give its hash."),
    ("a kind edited", sql("UPDATE entry SET kind = 'run_finished' WHERE seq = 6"), Tampering.EDITED, 6,
     "Entry 6 was edited: its content does not give its hash."),
    ("a hash edited", sql(f"UPDATE entry SET hash = '{'0' * 64}' WHERE seq = 6"), Tampering.EDITED, 6,
     "Entry 6 was edited: its hash was changed."),
    ("the last hash edited", sql(f"UPDATE entry SET hash = '{'0' * 64}' WHERE seq = 12"), Tampering.EDITED, 12,
     "Entry 12 was edited: its hash was changed."),
    ("the first entry edited", sql("UPDATE entry SET actor = 'person:mallory' WHERE seq = 1"), Tampering.EDITED, 1,
     "Entry 1 was edited: its content does not give its hash."),
    ("the class in the genesis edited", body(1, '"ledger_class":"user"', '"ledger_class":"demo"'), Tampering.EDITED, 1,
     "Entry 1 was edited: its content does not give its hash."),
    ("bytes that are no text", sql("UPDATE entry SET subject = CAST(x'ff00fe' AS TEXT) WHERE seq = 6"),
     Tampering.EDITED, 6, "Entry 6 was edited: its content does not give its hash."),
    ("a value of another type", sql("UPDATE entry SET body = CAST(body AS BLOB) WHERE seq = 6"), Tampering.EDITED, 6,
     "Entry 6 was edited: it no longer reads as an entry."),
    ("a link edited", sql(f"UPDATE entry SET prev = '{'1' * 64}' WHERE seq = 6"), Tampering.RELINKED, 6,
     "Entry 6 was re-linked: its link to entry 5 was changed."),
    ("link and content edited", sql(f"UPDATE entry SET prev = '{'1' * 64}', actor = 'person:mallory' WHERE seq = 6"),
     Tampering.EDITED, 6, "Entry 6 was edited: neither its content nor its link fits."),
    ("one hash recomputed", edit_and_rehash_one, Tampering.RELINKED, 6,
     "Entry 6 was edited and its hash recomputed: entry 7 links to another hash."),
    ("re-linked and its hash recomputed", relink_and_rehash_one, Tampering.RELINKED, 6,
     "Entry 6 was re-linked: its link was changed and its hash recomputed."),
    ("one removed", sql("DELETE FROM entry WHERE seq = 5"), Tampering.REMOVED, 5, "Entry 5 was removed."),
    ("the first removed", sql("DELETE FROM entry WHERE seq = 1"), Tampering.REMOVED, 1, "Entry 1 was removed."),
    ("several removed", sql("DELETE FROM entry WHERE seq BETWEEN 5 AND 8"), Tampering.REMOVED, 5,
     "Entry 5 was removed."),
    ("one removed, later ones renumbered", remove_and_renumber, Tampering.REMOVED, 5,
     "Entry 5 was removed and later ones renumbered."),
    ("one removed, the next linked past it", remove_and_link_past, Tampering.REMOVED, 5,
     "Entry 5 was removed and entry 6 linked past it."),
    ("neighbours swapped", swap, Tampering.REORDERED, 5, "Entry 5 was reordered: it stands at place 6."),
    ("two far ones swapped", swap_far, Tampering.REORDERED, 3, "Entry 3 was reordered: it stands at place 9."),
    ("one inserted", insert_between, Tampering.INSERTED, 7,
     "Entry 7 was inserted: the next one follows entry 6."),
    ("one inserted past the head", insert_past_the_head, Tampering.INSERTED, 13,
     "Entry 13 was inserted: it stands past the head."),
    ("the tail cut off", sql("DELETE FROM entry WHERE seq > 9"), Tampering.CUT_OFF, 10,
     "The ledger was cut off: it ends at entry 9, its head at 12."),
    ("everything cut off", sql("DELETE FROM entry"), Tampering.CUT_OFF, 1,
     "The ledger was cut off: it ends at entry 0, its head at 12."),
    ("the head's count edited", sql("UPDATE ledger_head SET seq = 99"), Tampering.HEAD, 12,
     "The head's count was changed: it reads 99, the chain has 12."),
    ("the head's hash edited", sql(f"UPDATE ledger_head SET hash = '{'1' * 64}'"), Tampering.RELINKED, 12,
     "Entry 12 does not have the hash the head holds: it was edited and re-hashed, or the head was."),
    ("the ledger's id edited", sql("UPDATE ledger_head SET ledger_id = 'another'"), Tampering.HEAD, 1,
     "The ledger's id was changed: no entry fits it."),
]  # fmt: skip


@pytest.mark.parametrize(("do", "kind", "seq", "sentence"), [c[1:] for c in CHAIN], ids=[c[0] for c in CHAIN])
def test_tampering_with_the_chain_is_named_with_its_first_bad_entry(
    path: Path, do: Do, kind: Tampering, seq: int, sentence: str
) -> None:
    with tampering(path) as connection:
        do(connection)
    report = verified(path)
    assert not report.ok
    first = report.findings[0]
    assert (first.kind, first.seq, first.sentence) == (kind, seq, sentence)
    assert report.first_bad == seq


def test_a_missing_head_row_is_named(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM ledger_head")
    report = verified(path)
    assert [f.sentence for f in report.findings] == ["The ledger's head row is missing."]
    with open_store(path) as store, store.read() as conn, pytest.raises(LedgerCorrupt, match="head row is missing"):
        head_seq(conn)


def test_nothing_is_written_on_top_of_a_broken_end(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE seq = 12")
    with open_store(path) as store, pytest.raises(LedgerCorrupt) as refused, store.write() as tx:
        annotation_store.add(tx, annotation(77))
    assert str(refused.value) == (
        "The ledger's last entry is not the one its head names: nothing is written on top of it. (ledger_head)"
        " Run `python -m core ledger verify`."
    )


def test_a_missing_head_row_does_not_hide_the_chain_from_a_head_given(path: Path) -> None:
    with open_store(path) as store:
        kept = head(store)
    with tampering(path) as connection:
        connection.execute("DELETE FROM ledger_head")
        connection.execute("UPDATE entry SET actor = 'person:mallory' WHERE seq = 3")
    assert [f.seq for f in verified(path, head=kept).findings] == [3, None]


STATE: list[tuple[str, Do, Tampering, int | None, str]] = [
    ("a run's status", sql("UPDATE run SET status = 'complete'"), Tampering.STATE, 7,
     "run run-1: table complete, ledger failed at 7."),
    ("a run's count", sql("UPDATE run SET stored = 10"), Tampering.STATE, 7,
     "run run-1: stored: table 10, ledger 4 at 7."),
    ("a run's packages", sql("""UPDATE run SET packages = '{"torch": "2.13.0"}'"""), Tampering.STATE, 7,
     "run run-1: packages: table {\"torch\": \"2.13.0\"}, ledger {\"numpy\":\"2.4.6\",\"torch\":\"2.13.0\"} at 7."),
    ("a run's note pointed elsewhere", sql("UPDATE run SET note_id = 1"), Tampering.STATE, 7,
     "run run-1: note: table 1, ledger 6 at 7."),
    ("a number of another type", sql("UPDATE run SET stored = '4x'"), Tampering.STATE, 7,
     "run run-1: stored: table 4x, ledger 4 at 7."),
    ("a run deleted", sql("DELETE FROM run"), Tampering.STATE, 7,
     "run run-1: table has no row, ledger failed at 7."),
    ("a run forged", sql("INSERT INTO run SELECT 'run-2', kind, evidence_class, origin, status, contract,"
     " contract_sha256, code_commit, code_hash, evaluator_hash, data_hash, model_hash, backbone, backbone_sha256,"
     " packages, seeds, planned, stored, started_at, finished_at, device, note_id, amends, last_seq FROM run"),
     Tampering.STATE, None, "run run-2: table has a row, ledger has no entry."),
    ("a run's last_seq", sql("UPDATE run SET last_seq = 6"), Tampering.STATE, 7,
     "run run-1: last_seq: table 6, ledger 7."),
    ("a run renamed", sql("UPDATE run SET run_id = 'run-9'"), Tampering.STATE, 7,
     "run run-1: table has no row, ledger failed at 7."),
    ("an actor's authorities", sql("""UPDATE actor SET authorities = '["ack"]'"""), Tampering.STATE, 1,
     "actor person:tester: authorities: table [\"ack\"], ledger [\"ack\",\"admin\",\"annotate\",\"cancel\","
     "\"commit-for *\",\"evidence\",\"holdout-open\",\"import\",\"propose\",\"redact\",\"register\"] at 1."),
    ("an actor forged", sql("""INSERT INTO actor VALUES ('agent:mallory', '["admin"]', '[]', 5)"""),
     Tampering.STATE, None, "actor agent:mallory: table has a row, ledger has no entry."),
    ("an annotation's label", sql("UPDATE annotation SET label = 'wrong' WHERE id = 'annotation-0002'"),
     Tampering.STATE, 10, "annotation annotation-0002: label: table wrong, ledger looks right at 10."),
    ("an annotation's time", sql("UPDATE annotation SET at = replace(at, '2026', '2025') WHERE id = 'annotation-0002'"),
     Tampering.STATE, 10, "annotation annotation-0002: at: table 2025-12-04T09:00:00.123456Z,"
     " ledger 2026-12-04T09:00:00.123456Z at 10."),
    ("an annotation deleted", sql("DELETE FROM annotation WHERE id = 'annotation-0002'"), Tampering.STATE, 10,
     "annotation annotation-0002: table has no row, ledger it at 10."),
    ("a record revived", sql("UPDATE record SET state = 'active', ended_step = NULL WHERE record_id = 'r1'"),
     Tampering.STATE, 4, "record e1/r1: table active, ledger cancelled at 4."),
    ("condition and payload exchanged", sql("UPDATE record SET condition_id = payload_id, payload_id = condition_id"
     " WHERE record_id = 'r1'"), Tampering.STATE, 4, "record e1/r1: condition: table 3, ledger 1 at 4."),
    ("a text", sql("UPDATE text SET text = 'the invoice is not paid' WHERE id = 1"), Tampering.TEXT, 2,
     "The text 1 of record e1/r1 was edited; entry 2 holds another hash."),
    ("a salt", sql("UPDATE text SET salt = '' WHERE id = 1"), Tampering.TEXT, 2,
     "The text 1 of record e1/r1 was edited; entry 2 holds another hash."),
    ("a text whose first letters moved into its salt",
     sql("UPDATE text SET salt = salt || substr(text, 1, 4), text = substr(text, 5) WHERE id = 1"), Tampering.TEXT, 2,
     "The text 1 of record e1/r1 was edited; entry 2 holds another hash."),
    ("a text and its stored hash", sql(f"UPDATE text SET sha256 = '{'0' * 64}' WHERE id = 7"), Tampering.TEXT, 8,
     "The text 7 of annotation annotation-0000 was edited; entry 8 holds another hash."),
    ("a text that is no text", sql("UPDATE text SET text = CAST(x'ff' AS TEXT) WHERE id = 7"), Tampering.TEXT, 8,
     "The text 7 of annotation annotation-0000 was edited; entry 8 holds another hash."),
    ("a text deleted", sql("DELETE FROM text WHERE id = 6"), Tampering.TEXT, 7,
     "The text 6 of run run-1 is gone; entry 7 holds its hash."),
    ("a text forged", sql(f"INSERT INTO text VALUES (99, 's', 't', '{'0' * 64}')"), Tampering.TEXT, None,
     "Text 99 belongs to no entry."),
]  # fmt: skip


@pytest.mark.parametrize(("do", "kind", "seq", "sentence"), [c[1:] for c in STATE], ids=[c[0] for c in STATE])
def test_tampering_with_a_table_is_named_with_the_entry_it_contradicts(
    path: Path, do: Do, kind: Tampering, seq: int | None, sentence: str
) -> None:
    with tampering(path) as connection:
        do(connection)
    report = verified(path)
    assert (report.findings[0].kind, report.findings[0].seq, report.findings[0].sentence) == (kind, seq, sentence)
    assert report.count == ENTRIES  # the chain itself is whole


def test_a_tail_cut_off_together_with_the_head_is_seen_by_last_seq(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE seq > 6")
        connection.execute("UPDATE ledger_head SET seq = 6, hash = (SELECT hash FROM entry WHERE seq = 6)")
    report = verified(path)
    assert report.findings[0].kind is Tampering.CUT_OFF
    assert report.findings[0].sentence == (
        "The ledger was cut off: it ends at entry 6, run run-1 was changed by entry 7."
    )
    assert report.first_bad == 7


def rewrite_everything(connection: sqlite3.Connection) -> None:
    """Change an actor in entry 6 and make everything fit again."""
    connection.execute("UPDATE entry SET actor = 'person:mallory' WHERE seq = 6")
    rehash(connection, 6)


def test_a_full_rewrite_is_not_noticed_without_a_head(path: Path) -> None:
    with tampering(path) as connection:
        rewrite_everything(connection)
    report = verified(path)
    assert report.ok
    assert report.notes == (UNKEYED_CHAIN,)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_full_rewrite_is_noticed_with_a_head(path: Path, key: bytes | None) -> None:
    with open_store(path) as store:
        kept = head(store, key)
        fill_more(path)
    with tampering(path) as connection:
        rewrite_everything(connection)
    report = verified(path, head=kept, key=key)
    assert [(f.kind, f.seq, f.sentence) for f in report.findings] == [
        (
            Tampering.RELINKED,
            ENTRIES,
            "The chain was rewritten at or before entry 12: its hash is not the one of the head given, though every"
            " link fits.",
        )
    ]
    assert report.notes == ((UNKEYED_HEAD,) if key is None else ())


def fill_more(path: Path) -> None:
    from core.ledger import annotation_store
    from tests.ledger.ledgers import annotation

    with open_store(path) as store, store.write() as tx:
        annotation_store.add(tx, annotation(77))


def test_a_head_that_was_rewritten_with_the_chain_is_noticed_only_by_its_key(path: Path) -> None:
    with open_store(path) as store:
        keyed, plain = head(store, KEY), head(store)
    with tampering(path) as connection:
        rewrite_everything(connection)
        new_hash = connection.execute("SELECT hash FROM ledger_head").fetchone()[0]
    forged = verified(path, head=plain.model_copy(update={"hash": new_hash}))
    assert forged.ok
    assert forged.notes == (UNKEYED_HEAD,)
    report = verified(path, head=keyed.model_copy(update={"hash": new_hash}), key=KEY)
    assert [f.sentence for f in report.findings] == [
        "The head does not fit the key: it was changed, or taken under another."
    ]
    unchecked = verified(path, head=keyed.model_copy(update={"hash": new_hash}))
    assert unchecked.notes == (NO_KEY,)


def test_a_head_names_a_cut_off_that_nothing_in_the_store_shows(path: Path) -> None:
    with open_store(path) as store:
        kept = head(store, KEY)
    with tampering(path) as connection:
        connection.execute("DELETE FROM entry WHERE seq = 12")
        connection.execute("DELETE FROM annotation WHERE last_seq = 12")
        connection.execute("DELETE FROM text WHERE id = (SELECT max(id) FROM text)")
        connection.execute("UPDATE ledger_head SET seq = 11, hash = (SELECT hash FROM entry WHERE seq = 11)")
    assert verified(path).ok
    report = verified(path, head=kept, key=KEY)
    assert [(f.kind, f.seq, f.sentence) for f in report.findings] == [
        (Tampering.CUT_OFF, 12, "The ledger was cut off: it ends at entry 11, the head given counts 12.")
    ]


def test_a_head_of_an_earlier_moment_still_fits_a_longer_ledger(path: Path) -> None:
    with open_store(path) as store:
        kept = head(store, KEY)
    fill_more(path)
    report = verified(path, head=kept, key=KEY)
    assert report.ok
    assert report.notes == ()


def test_a_head_of_another_ledger_is_refused(path: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other" / "store.sqlite", create=True) as other:
        fill(other)
        kept = head(other)
    assert verified(path, head=kept).findings[0].sentence == "The head was taken of another ledger."

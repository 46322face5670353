"""A store whose header, tables or guards are not as Duebook makes them: named, and never written to."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from core.cli import base
from core.errors import LedgerCorrupt
from core.ledger import annotation_store, schema
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.ledger import Tampering, verify
from core.ledger.shape import expected
from core.ledger.store import StoreDamaged, StoreForeign, open_store
from tests.ledger.ledgers import ENTRIES, annotation, filled

GUARDS = ("entry_is_never_updated", "entry_is_never_deleted", "entry_is_never_replaced")


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def master(path: Path) -> dict[tuple[str, str], str]:
    """Read the schema without the code under test."""
    with raw(path) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {(kind, name): sql for kind, name, sql in rows}


def rewritten(name: str, old: str, new: str) -> tuple[str, ...]:
    """Change a stored statement in place, as one can with the file."""
    return (
        "PRAGMA writable_schema=ON",
        f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'",
        "PRAGMA writable_schema=OFF",
    )


ID = f"{schema.APPLICATION_ID:#x}"
READ_ONLY: list[tuple[str, tuple[str, ...], list[str]]] = [
    *((f"{guard} dropped", (f"DROP TRIGGER {guard}",), [f"The trigger {guard} is missing."]) for guard in GUARDS),
    ("every guard dropped", tuple(f"DROP TRIGGER {g}" for g in GUARDS),
     [f"The trigger {g} is missing." for g in GUARDS]),
    ("a guard without teeth", (f"DROP TRIGGER {GUARDS[0]}",
     f"CREATE TRIGGER {GUARDS[0]} BEFORE UPDATE ON entry BEGIN SELECT 1; END"),
     [f"The trigger {GUARDS[0]} was changed: it is not as Duebook makes it."]),
    ("a guard on another table", (f"DROP TRIGGER {GUARDS[1]}",
     f"CREATE TRIGGER {GUARDS[1]} BEFORE DELETE ON run BEGIN SELECT 1; END"),
     [f"The trigger {GUARDS[1]} was changed: it is not as Duebook makes it."]),
    ("a trigger more", ("CREATE TRIGGER hidden AFTER INSERT ON annotation BEGIN DELETE FROM text; END",),
     ["The trigger hidden on annotation is not one that Duebook makes."]),
    ("a trigger with SQLite's own prefix", (
     "CREATE TRIGGER hidden AFTER INSERT ON annotation BEGIN DELETE FROM text; END",
     "PRAGMA writable_schema=ON", "UPDATE sqlite_master SET name = 'sqlite_stat9', sql = replace(sql, 'hidden',"
     " 'sqlite_stat9') WHERE name = 'hidden'", "PRAGMA writable_schema=OFF"),
     ["The trigger sqlite_stat9 on annotation is not one that Duebook makes."]),
    ("a table more", ("CREATE TABLE mine (a)",), ["The table mine is not one that Duebook makes."]),
    ("a view more", ("CREATE VIEW mine AS SELECT 1",), ["The view mine is not one that Duebook makes."]),
    ("an index more", ("CREATE UNIQUE INDEX mine ON run (status)",),
     ["The index mine on run is not one that Duebook makes."]),
    ("an index dropped", ("DROP INDEX annotation_by_target",), ["The index annotation_by_target is missing."]),
    ("an index on other columns", ("DROP INDEX entry_by_subject", "CREATE INDEX entry_by_subject ON entry (kind)"),
     ["The index entry_by_subject was changed: it is not as Duebook makes it."]),
]  # fmt: skip
UNREADABLE: list[tuple[str, tuple[str, ...], list[str]]] = [
    ("a view in a table's place", ("ALTER TABLE segment RENAME TO kept", "CREATE VIEW segment AS SELECT * FROM kept"),
     ["A view stands in the place of the table segment.", "The index sqlite_autoindex_segment_1 is missing.",
      "The index sqlite_autoindex_kept_1 on kept is not one that Duebook makes.",
      "The table kept is not one that Duebook makes."]),
    ("a table dropped", ("DROP TABLE trace_tail",),
     ["The table trace_tail is missing.", "The index sqlite_autoindex_trace_tail_1 is missing."]),
    ("the head's table dropped", ("DROP TABLE ledger_head",), ["The table ledger_head is missing."]),
    ("a column more", ("ALTER TABLE run ADD COLUMN mine VARCHAR",),
     ["The table run was changed: it is not as Duebook makes it."]),
    ("a column less", ("ALTER TABLE annotation DROP COLUMN author",),
     ["The table annotation was changed: it is not as Duebook makes it."]),
    ("a column renamed", ("ALTER TABLE actor RENAME COLUMN roles TO parts",),
     ["The table actor was changed: it is not as Duebook makes it."]),
    ("a rule taken out", rewritten("ledger_head", " CHECK (id = 1)", ""),
     ["The table ledger_head was changed: it is not as Duebook makes it."]),
    ("schema version 0", ("PRAGMA user_version=0",),
     ["The file's schema version was changed: it reads 0, its tables are those of 1."]),
    ("a negative schema version", ("PRAGMA user_version=-1",),
     ["The file's schema version was changed: it reads -1, its tables are those of 1."]),
    ("schema version 0 and a table more", ("PRAGMA user_version=0", "CREATE TABLE mine (a)"),
     ["The file's schema version was changed: it reads 0."]),
    ("another application's id", ("PRAGMA application_id=7",),
     [f"The file's application id was changed: it reads 0x7, a store's is {ID}."]),
    ("no header at all", ("PRAGMA application_id=0", "PRAGMA user_version=0"),
     [f"The file's application id was changed: it reads 0x0, a store's is {ID}.",
      "The file's schema version was changed: it reads 0, its tables are those of 1."]),
]  # fmt: skip
CASES = [*((*case, False) for case in READ_ONLY), *((*case, True) for case in UNREADABLE)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a filled workspace beside an evidence ledger of its own."""
    monkeypatch.setattr(EvidenceLedger.__init__, "__defaults__", (tmp_path / "evidence",))
    monkeypatch.setattr(base, "make_ready", lambda config, needs: None)
    (tmp_path / "home").mkdir()
    filled(tmp_path / "home")
    return tmp_path / "home"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("statements", "sentences", "unreadable"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_changed_schema_is_named_and_such_a_store_is_never_written_to(
    home: Path, statements: tuple[str, ...], sentences: list[str], unreadable: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "store.sqlite"
    with raw(path) as connection:
        for statement in statements:
            connection.execute(statement)
    before = digest(path)
    assert base.main(["ledger", "verify"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    own = out.split("\nevidence ledger: ")[0].splitlines()
    assert own[0].startswith("workspace ledger: DOES NOT VERIFY, ")
    assert [line.strip() for line in own[1:] if "note:" not in line] == sentences

    def write() -> None:
        with open_store(path, create=True) as store, store.write() as tx:
            annotation_store.add(tx, annotation(77))

    with pytest.raises(StoreForeign if unreadable else LedgerCorrupt) as refused:
        write()
    assert refused.value.message.startswith(sentences[0])
    assert digest(path) == before


def test_what_is_expected_is_what_a_fresh_store_holds(tmp_path: Path) -> None:
    open_store(tmp_path / "store.sqlite", create=True).close()
    made = {
        (kind.decode(), name.decode()): sql.decode()
        for (kind, name), (_, sql) in expected(schema.MIGRATIONS).items()
        if sql is not None
    }
    assert made == master(tmp_path / "store.sqlite")
    assert {("trigger", guard) for guard in GUARDS} == {key for key in made if key[0] == "trigger"}


def test_a_readable_store_with_a_guard_dropped_still_shows_its_chain(home: Path) -> None:
    with raw(home / "store.sqlite") as connection:
        connection.execute(f"DROP TRIGGER {GUARDS[0]}")
        connection.execute("UPDATE entry SET actor = 'person:mallory' WHERE seq = 6")
    with open_store(home / "store.sqlite") as store:
        report = verify(store)
    assert [(f.kind, f.seq) for f in report.findings] == [(Tampering.EDITED, 6), (Tampering.SCHEMA, None)]
    assert (report.count, report.first_bad) == (5, 6)


def test_a_guard_dropped_while_the_store_is_open_stops_the_next_write(home: Path) -> None:
    path = home / "store.sqlite"
    guard = master(path)["trigger", GUARDS[0]]
    with open_store(path) as store:
        with raw(path) as connection:
            connection.execute(f"DROP TRIGGER {GUARDS[0]}")
        with pytest.raises(LedgerCorrupt) as refused, store.write() as tx:
            annotation_store.add(tx, annotation(77))
        assert str(refused.value) == (
            f"The trigger {GUARDS[0]} is missing. Nothing is written to such a store. ({path})"
            " Run `python -m core ledger verify`."
        )
        with raw(path) as connection:
            connection.execute(guard)
        with store.write() as tx:
            annotation_store.add(tx, annotation(77))
        report = verify(store)
        assert (report.ok, report.count) == (True, ENTRIES + 1)


def test_a_table_changed_while_the_store_is_open_is_found(home: Path) -> None:
    with open_store(home / "store.sqlite") as store:
        with raw(home / "store.sqlite") as connection:
            connection.execute("ALTER TABLE run ADD COLUMN mine VARCHAR")
        assert [f.sentence for f in verify(store).findings] == [
            "The table run was changed: it is not as Duebook makes it."
        ]


@pytest.mark.parametrize("statement", ["ANALYZE", "VACUUM", "REINDEX"])
def test_what_sqlite_does_for_itself_is_no_difference(home: Path, statement: str) -> None:
    with raw(home / "store.sqlite") as connection:
        connection.execute(statement)
    with open_store(home / "store.sqlite") as store:
        with store.write() as tx:
            annotation_store.add(tx, annotation(77))
        assert verify(store).ok


def test_an_older_store_that_was_changed_is_not_brought_up_to_date(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "store.sqlite"
    with raw(path) as connection:
        connection.execute("CREATE TRIGGER hidden AFTER INSERT ON annotation BEGIN DELETE FROM text; END")
    before = digest(path)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE later (a INTEGER)",)))
    with pytest.raises(StoreForeign) as refused:
        open_store(path)
    assert str(refused.value) == (
        "The trigger hidden on annotation is not one that Duebook makes. Nothing was read or written."
        f" ({path}) Restore it from a backup, or open another workspace."
    )
    assert digest(path) == before


def test_a_name_that_is_no_text_is_damage(home: Path) -> None:
    with raw(home / "store.sqlite") as connection:
        connection.execute("CREATE TABLE mine (a)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET name = CAST(x'6dff' AS TEXT) WHERE name = 'mine'")
    with pytest.raises(StoreDamaged) as refused:
        open_store(home / "store.sqlite")
    assert refused.value.message == "The store's file is damaged and cannot be read."

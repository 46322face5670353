from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import MetaData
from sqlalchemy.exc import IntegrityError

from core import config
from core.clock import pinned
from core.config import ROOT
from core.errors import StoreError
from core.ledger import annotation_store, schema
from core.ledger.ledger import Tampering, verify
from core.ledger.rows import STATE_ROWS, ActorRow, column_of
from core.ledger.store import EVERY_AUTHORITY, fetch_row, head_seq, open_store, open_workspace
from tests.ledger.ledgers import WHEN, annotation, filled


def test_a_new_store_begins_with_one_entry_that_fixes_class_and_grants(tmp_path: Path) -> None:
    with open_store(tmp_path / "home" / "store.sqlite", create=True, actor="person:ada") as store:
        assert store.workspace_class == "user"
        with store.read() as conn:
            assert head_seq(conn) == 1
            actor = fetch_row(conn, ActorRow, "person:ada")
        assert actor == ActorRow(actor_id="person:ada", authorities=EVERY_AUTHORITY, roles=())
        assert verify(store).ok


@pytest.mark.parametrize("name", ["what?is", "a%20b", "a#b", "[x]*", 'it\'s "q"', "🌱 مرحبا", "file:x?mode=ro"])
def test_a_store_lies_where_it_was_said_whatever_the_folder_is_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / name / "store.sqlite"
    with open_store(path, create=True) as store:
        with store.write() as tx:
            annotation_store.add(tx, annotation())
        store.backup_to(tmp_path / name / "copy.sqlite")
    assert path.read_bytes().startswith(b"SQLite format 3")
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert sorted(p.name for p in path.parent.iterdir()) == ["copy.sqlite", "store.sqlite"]


def test_folder_and_files_are_closed_to_others(tmp_path: Path) -> None:
    os.umask(0o022)
    (tmp_path / "home").mkdir(mode=0o755)
    with open_workspace(config.load(tmp_path / "home"), create=True) as store, store.write() as tx:
        annotation_store.add(tx, annotation())
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "home").iterdir()}
        assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert modes == {"store.sqlite": 0o600, "store.sqlite-shm": 0o600, "store.sqlite-wal": 0o600}


def test_the_class_is_fixed_in_the_genesis_entry(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    open_store(path, create=True, workspace_class="demo").close()
    with open_store(path, create=True, workspace_class="user") as again:
        assert again.workspace_class == "demo"


def test_settings_of_every_connection(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store, store.read() as conn:
        found = {
            name: conn.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_the_migrations_make_the_tables_that_the_code_describes(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store:
        made = MetaData()
        with store.read() as conn:
            made.reflect(conn)
    described = {
        t.name: {c.name: (str(c.type).split("(")[0], c.nullable, c.primary_key) for c in t.columns}
        for t in schema.metadata.tables.values()
    }
    found = {
        t.name: {c.name: (str(c.type).split("(")[0], c.nullable, c.primary_key) for c in t.columns}
        for t in made.tables.values()
    }
    assert found.keys() == described.keys()
    for table, columns in described.items():
        # an INTEGER PRIMARY KEY is NOT NULL whether it says so or not
        assert {k: v[0::2] for k, v in found[table].items()} == {k: v[0::2] for k, v in columns.items()}, table
        assert [k for k, v in columns.items() if v[1] != found[table][k][1] and not v[2]] == [], table


def test_every_state_table_has_a_row_model_with_its_columns_and_last_seq() -> None:
    for row_type in STATE_ROWS:
        columns = {column_of(row_type, f) for f in row_type.model_fields} | {"last_seq"}
        assert set(row_type.TABLE.columns.keys()) - {"id"} == columns - {"id"}, row_type


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE entry SET actor = 'x'", "a ledger entry is never updated"),
        ("UPDATE entry SET seq = 99 WHERE seq = 3", "a ledger entry is never updated"),
        ("DELETE FROM entry WHERE seq = 3", "a ledger entry is never deleted"),
        ("INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE seq = 3", "a ledger entry is never replaced"),
    ],
)
def test_an_entry_can_be_neither_updated_nor_deleted_through_sql(tmp_path: Path, statement: str, message: str) -> None:
    path = filled(tmp_path)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match=message):
        connection.execute(statement)
    connection.close()
    with open_store(path) as store:
        with pytest.raises(StoreError, match=message), store.write() as tx:
            tx.conn.exec_driver_sql(statement)
        assert verify(store).ok


def test_a_block_that_raises_leaves_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store:

        def fails_late() -> None:
            with store.write() as tx:
                annotation_store.add(tx, annotation())
                raise RuntimeError("late")

        with pytest.raises(RuntimeError, match="late"):
            fails_late()
        with store.read() as conn:
            assert annotation_store.list_annotations(conn) == []
            assert head_seq(conn) == 1


def test_the_sequence_is_taken_from_the_head_and_known_when_the_block_ends(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store:
        with store.write() as tx:
            first, second = (annotation_store.add(tx, annotation(n)) for n in (1, 2))
            assert (first.seq, second.seq) == (0, 0)
        assert (first.seq, second.seq) == (2, 3)
        with store.read() as conn:
            rows = conn.exec_driver_sql("SELECT id, last_seq FROM annotation ORDER BY id").all()
        assert [tuple(r) for r in rows] == [("annotation-0001", 2), ("annotation-0002", 3)]


def test_a_snapshot_does_not_move_while_others_write(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store:
        with store.read() as before:
            with store.write() as tx:
                annotation_store.add(tx, annotation())
            assert head_seq(before) == 1
            assert annotation_store.list_annotations(before) == []
        with store.read() as after:
            assert head_seq(after) == 2


# as_of


def test_a_user_workspace_refuses_a_time_to_come(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store, pinned(WHEN + timedelta(days=3)):
        with pytest.raises(StoreError) as refused, store.write(as_of=WHEN + timedelta(days=4)) as tx:
            annotation_store.add(tx, annotation())
        assert str(refused.value) == (
            "2026-12-08T09:00:00.123456Z lies in the future. Only a demo workspace takes such times."
        )


def test_a_user_workspace_refuses_a_time_before_the_last_entry(tmp_path: Path) -> None:
    with pinned(WHEN):
        store = open_store(tmp_path / "store.sqlite", create=True)
    with store, pinned(WHEN + timedelta(days=3)):
        with store.write(as_of=WHEN + timedelta(days=2)) as tx:
            annotation_store.add(tx, annotation(1))
        with pytest.raises(StoreError) as refused, store.write(as_of=WHEN + timedelta(days=1)) as tx:
            annotation_store.add(tx, annotation(2))
        assert str(refused.value) == (
            "2026-12-05T09:00:00.123456Z is earlier than the last entry (2026-12-06T09:00:00.123456Z)."
            " Only a demo workspace takes such times."
        )


def test_a_demo_workspace_takes_any_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True, workspace_class="demo") as store, pinned(WHEN):
        for days in (400, -400):
            with store.write(as_of=WHEN + timedelta(days=days)) as tx:
                annotation_store.add(tx, annotation(days))
        with store.read() as conn:
            times = conn.exec_driver_sql("SELECT at, as_of FROM entry WHERE seq > 1 ORDER BY seq").all()
        assert [tuple(t) for t in times] == [
            ("2026-12-04T09:00:00.123456Z", "2028-01-08T09:00:00.123456Z"),
            ("2026-12-04T09:00:00.123456Z", "2025-10-30T09:00:00.123456Z"),
        ]
        assert verify(store).ok


def test_a_clock_set_back_does_not_stop_a_workspace(tmp_path: Path) -> None:
    with pinned(WHEN):
        store = open_store(tmp_path / "store.sqlite", create=True)
    with store, pinned(WHEN - timedelta(hours=1)):
        with store.write() as tx:
            annotation_store.add(tx, annotation())
        with store.read() as conn:
            at, as_of = conn.exec_driver_sql("SELECT at, as_of FROM entry WHERE seq = 2").one()
        assert (at, as_of) == ("2026-12-04T08:00:00.123456Z", "2026-12-04T09:00:00.123456Z")


# Files that are not a store, not whole, or not ours


def test_a_missing_store_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(tmp_path / "store.sqlite")
    assert str(refused.value) == (
        f"There is no store here. ({tmp_path}/store.sqlite) Run `python -m core prepare` to make one."
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_creation_is_said_and_finished(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.touch()
    with pytest.raises(StoreError) as refused:
        open_store(path)
    assert refused.value.message == "The store is empty: its creation was interrupted."
    with open_store(path, create=True) as store:
        assert verify(store).ok


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_text("this is no database, " * 1000)
    with pytest.raises(StoreError) as refused:
        open_store(path)
    assert str(refused.value) == (
        f"The store's file is damaged and cannot be read. ({path}) Restore it from a backup, or open another workspace."
    )


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    for create in (False, True):
        with pytest.raises(StoreError) as refused:
            open_store(path, create=create)
        assert refused.value.message == "The file is a database, but not a Duebook store."


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(StoreError) as refused:
        open_store(path)
    assert str(refused.value) == (
        f"The store was written by a newer Duebook (schema 7; this one knows {len(schema.MIGRATIONS)}). ({path})"
        " Update Duebook, or open another workspace."
    )


def test_an_older_store_is_brought_up_to_date_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path)
    newer = (*schema.MIGRATIONS, ("CREATE TABLE later (a INTEGER)", "INSERT INTO later VALUES (1)"))
    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    for _ in range(2):
        with open_store(path) as store:
            with store.read() as conn:
                assert conn.exec_driver_sql("SELECT count(*) FROM later").scalar_one() == 1
                assert conn.exec_driver_sql("PRAGMA user_version").scalar_one() == len(newer)
            assert verify(store).ok


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE later (a)", "CREATE TABLE run (a)")))
        with pytest.raises(StoreError, match="The store cannot be used: table run already exists"):
            open_store(path)
    with open_store(path) as store:
        assert verify(store).ok


def test_a_folder_in_the_stores_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="The store is not a file"):
        open_store(tmp_path)


def test_overwritten_bytes_end_in_a_sentence_wherever_they_are(tmp_path: Path) -> None:
    path = filled(tmp_path)
    whole = path.read_bytes()
    refused = found = unseen = 0
    for page in range(len(whole) // 4096):
        damaged = bytearray(whole)
        damaged[page * 4096 : page * 4096 + 2048] = b"\xa5" * 2048
        path.write_bytes(damaged)
        try:
            with open_store(path) as store:
                report = verify(store)
        except StoreError as e:
            refused += any(said in e.message for said in ("damaged", "not a Duebook store", "cannot be used"))
        else:
            # Half a page of an index may hold nothing that is ever read.
            found += not report.ok
            unseen += report.ok
            if report.findings and report.findings[0].kind is Tampering.DAMAGED:
                assert report.findings[0].sentence == "The store's file is damaged and cannot be read."
    assert refused + found + unseen == len(whole) // 4096
    assert refused >= 1
    assert found >= 5


def test_a_row_that_breaks_a_rule_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store:
        with store.write() as tx:
            annotation_store.add(tx, annotation())
        message = "The store refused a row: UNIQUE constraint failed"
        with pytest.raises(StoreError, match=message) as refused, store.write() as tx:
            annotation_store.add(tx, annotation())
        assert isinstance(refused.value.__cause__, IntegrityError)


def test_a_busy_store_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.ledger.store.BUSY_SECONDS", 0)
    with open_store(tmp_path / "store.sqlite", create=True) as store:
        other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        message = "Another process has been writing to the store for 0 seconds"
        with pytest.raises(StoreError, match=message), store.write() as tx:
            annotation_store.add(tx, annotation())
        other.close()


def test_a_backup_is_a_store_of_its_own(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with open_store(path) as store:
        store.backup_to(tmp_path / "copy.sqlite")
        with pytest.raises(StoreError, match="The backup cannot be written: File exists"):
            store.backup_to(tmp_path / "copy.sqlite")
        ours = verify(store)
    assert stat.S_IMODE((tmp_path / "copy.sqlite").stat().st_mode) == 0o600
    with open_store(tmp_path / "copy.sqlite") as copy:
        theirs = verify(copy)
    assert theirs.ok
    assert (theirs.ledger_id, theirs.count, theirs.hash) == (ours.ledger_id, ours.count, ours.hash)


def test_two_processes_may_open_a_fresh_store_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from core.ledger.store import open_store\n"
        "sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.readline()\n"
        "s = open_store(Path(sys.argv[1]), create=True, actor='person:' + sys.argv[2])\n"
        "print(s.ledger_id); s.close()"
    )
    for attempt in range(3):
        path = tmp_path / str(attempt) / "store.sqlite"
        children = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(path), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for name in ("a", "b", "c")
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        outs = [child.communicate("go\n") for child in children]
        assert [(child.returncode, err) for child, (_, err) in zip(children, outs, strict=True)] == [(0, "")] * 3
        assert len({out for out, _ in outs}) == 1
        with open_store(path) as store:
            report = verify(store)
            assert report.ok
            assert report.count == 1

"""Whatever is appended verifies; whatever single thing is changed in an entry is caught at or before that entry."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from core.hashing import GENESIS_HASH
from core.ledger import annotation_store, record_store, run_store, trace_tail
from core.ledger.chain import FIELDS, Entry, canonical, entry_hash
from core.ledger.kinds import EntryKind
from core.ledger.ledger import verify
from core.ledger.store import Tx, open_store
from core.ledger.walk import Head, Row, walk
from core.records.record import RecordState
from core.records.run import RunStatus
from tests.ledger.ledgers import annotation, filled, manifest, record, stored, tampering, trace

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


def link(contents: list[tuple[str, str, dict[str, Any]]], ledger_id: str) -> list[Entry]:
    """Build a chain by the rule, from (actor, subject, body); the first is the genesis."""
    made, prev = [], GENESIS_HASH
    for n, (actor, subject, body) in enumerate(contents, 1):
        kind = EntryKind.GENESIS if n == 1 else EntryKind.TRACE_SAVED
        bare = Entry(n, f"at {n}", "as of", kind.value, actor, "asserted", subject, canonical(body).decode(), prev, "")
        prev = entry_hash(ledger_id, bare)
        made.append(Entry(*[getattr(bare, f) for f in FIELDS[:-1]], prev))  # type: ignore[call-arg]
    return made


CONTENTS = st.lists(
    st.tuples(TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS | st.integers(-5, 5) | st.none(), max_size=3)),
    min_size=1,
    max_size=8,
)


def walked(rows: list[Row], ledger_id: str, head: Head | None) -> Any:
    places = {row[8]: place for place, row in enumerate(rows, 1)}
    return walk(rows, ledger_id, head, place_of_successor=places.get)


def as_rows(entries: list[Entry]) -> list[Row]:
    return [tuple(getattr(e, f) for f in FIELDS) for e in entries]


@given(CONTENTS)
@settings(deadline=None)
def test_any_chain_made_by_the_rule_verifies(contents: list[tuple[str, str, dict[str, Any]]]) -> None:
    entries = link(contents, "L")
    seen = walked(as_rows(entries), "L", Head(len(entries), entries[-1].hash))
    assert seen.finding is None
    assert (seen.count, seen.hash) == (len(entries), entries[-1].hash)


@given(CONTENTS, st.data())
@settings(deadline=None)
def test_any_single_change_of_an_entry_is_caught_at_or_before_it(
    contents: list[tuple[str, str, dict[str, Any]]], data: st.DataObject
) -> None:
    entries = link(contents, "L")
    rows = as_rows(entries)
    n = data.draw(st.integers(0, len(rows) - 1), label="entry")
    f = data.draw(st.integers(0, len(FIELDS) - 1), label="field")
    old = rows[n][f]
    if f == 0:
        new: Any = data.draw(st.integers(-3, 12))
    else:
        at = data.draw(st.integers(0, len(old)))
        change = data.draw(st.sampled_from(["insert", "delete", "replace"]))
        letter = "" if change == "delete" else data.draw(st.characters())
        new = old[:at] + letter + old[at + (change != "insert") :]
    assume(new != old)
    rows[n] = (*rows[n][:f], new, *rows[n][f + 1 :])
    finding = walked(rows, "L", Head(len(entries), entries[-1].hash)).finding
    assert finding is not None
    assert finding.seq is not None
    assert finding.seq <= n + 1


@given(CONTENTS, st.data())
@settings(deadline=None)
def test_any_change_of_the_order_or_number_of_entries_is_caught_at_its_first_place(
    contents: list[tuple[str, str, dict[str, Any]]], data: st.DataObject
) -> None:
    entries = link(contents, "L")
    places = data.draw(st.lists(st.integers(0, len(entries) - 1), max_size=len(entries) + 2), label="places")
    assume(places != list(range(len(entries))))
    first = next(
        (i for i, place in enumerate(places) if place != i), min(len(places), len(entries))
    )  # the first place that holds something else, or nothing
    rows = [as_rows(entries)[p] for p in places]
    finding = walked(rows, "L", Head(len(entries), entries[-1].hash)).finding
    assert finding is not None
    assert finding.seq is not None
    assert finding.seq <= first + 1


Act = Callable[[Tx, int], object]
ACTS: list[Act] = [
    lambda tx, n: record_store.write_records(tx, f"e{n}", [record("a"), record("b")]),
    lambda tx, n: record_store.set_state(tx, "e", "r", RecordState.EXPIRED, n),
    lambda tx, n: run_store.register_run(tx, manifest(f"run-{n + 2}")),
    lambda tx, n: run_store.progress_run(tx, "run-1", n % 10),
    lambda tx, n: run_store.finish_run(tx, f"run-{n}", RunStatus.FAILED, note=f"why {n}"),
    lambda tx, n: annotation_store.add(tx, annotation(n)),
    lambda tx, n: trace_tail.append(tx, trace(n)),
]


@given(acts=st.lists(st.tuples(st.sampled_from(range(len(ACTS))), st.integers(0, 12)), max_size=12), data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_acts_verifies_whether_each_is_taken_or_refused(
    tmp_path: Path, acts: list[tuple[int, int]], data: st.DataObject
) -> None:
    path = tmp_path / "store.sqlite"
    if not path.exists():
        with open_store(path, create=True) as store, store.write() as tx:
            record_store.write_records(tx, "e", [record("r")])
            run_store.register_run(tx, manifest("run-1"))
    with open_store(path) as store:
        for which, n in acts:
            try:
                with store.write() as tx:
                    ACTS[which](tx, n)
            except Exception as e:
                if type(e).__name__ != "StoreError":
                    raise
        report = verify(store)
    assert report.ok, report


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("whole"))


def test_a_first_entry_that_is_no_text_is_named_and_not_an_error(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "store.sqlite"
    shutil.copy(whole, path)
    with tampering(path) as connection:
        connection.execute("UPDATE entry SET body = CAST(x'fb' || substr(body, 2) AS TEXT) WHERE seq = 1")
    with open_store(path) as store:
        assert verify(store).first_bad == 1


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_single_byte_of_any_stored_entry_is_caught_at_or_before_it(
    tmp_path: Path, whole: Path, data: st.DataObject
) -> None:
    path = tmp_path / "store.sqlite"
    shutil.copy(whole, path)
    with tampering(path) as connection:
        n = data.draw(st.integers(1, len(stored(connection))), label="entry")
        field = data.draw(st.sampled_from(FIELDS), label="field")
        if field == "seq":
            moved = data.draw(st.integers(-5, 40).filter(lambda s: not 1 <= s <= 12))
            connection.execute("UPDATE entry SET seq = ? WHERE seq = ?", (moved, n))
        else:
            connection.text_factory = bytes
            value = bytearray(connection.execute(f"SELECT {field} FROM entry WHERE seq = ?", (n,)).fetchone()[0])
            at = data.draw(st.integers(0, len(value) - 1), label="byte")
            value[at] ^= data.draw(st.integers(1, 255), label="flip")
            connection.execute(
                f"UPDATE entry SET {field} = CAST(? AS TEXT) WHERE seq = ?", (sqlite3.Binary(bytes(value)), n)
            )
    with open_store(path) as store:
        report = verify(store)
    assert not report.ok
    assert report.first_bad is not None
    assert report.first_bad <= n


def test_ten_thousand_entries_verify(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.sqlite", create=True) as store:
        with store.write() as tx:
            record_store.write_records(tx, "e", [record(f"r{n}") for n in range(5_000)])
        with store.write() as tx:
            for n in range(2_500):
                trace_tail.append(tx, trace(n))
        with store.write() as tx:
            for n in range(2_500):
                annotation_store.add(tx, annotation(n))
        report = verify(store)
    assert report.ok
    assert report.count == 10_001

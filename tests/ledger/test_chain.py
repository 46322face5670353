from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import StoreError
from core.ledger.chain import Entry, canonical, entry_hash
from core.ledger.kinds import (
    BODIES,
    Body,
    EntryKind,
    EvidenceFrozen,
    Genesis,
    LedgerClass,
    TraceSaved,
    body_json,
    inexact_in,
)
from core.ledger.store import open_store
from core.records.trace import EvidenceClass
from tests.ledger.ledgers import filled, stored, tampering

EXACT = st.integers(-(2**53) + 1, 2**53 - 1)
TEXTS = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | EXACT | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@settings(deadline=None)
def test_the_fast_canonical_form_is_rfc_8785(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("key", ["\ue000", "\U00010000", "ä", "\x7f", "\u2028"])
def test_keys_outside_ascii_are_ordered_by_utf_16(key: str) -> None:
    assert canonical({key: 1, "\ufb33": 2, "a": 3}) == rfc8785.dumps({key: 1, "\ufb33": 2, "a": 3})


def test_an_entrys_hash_is_what_the_design_says(tmp_path: Path) -> None:
    """Recomputed by hand from the file, with nothing of ours but the file."""
    path = filled(tmp_path)
    with tampering(path) as connection:
        ledger_id = connection.execute("SELECT ledger_id FROM ledger_head").fetchone()[0]
        entries = stored(connection)
        head = connection.execute("SELECT seq, hash FROM ledger_head").fetchone()
    prev = "0" * 64
    for n, e in enumerate(entries, 1):
        covered: Any = {
            "ledger_id": ledger_id, "seq": n, "at": e.at, "as_of": e.as_of, "kind": e.kind, "actor": e.actor,
            "identity": e.identity, "subject": e.subject, "body": json.loads(e.body),
        }  # fmt: skip
        data = b"duebook-entry-1\n" + prev.encode() + b"\n" + rfc8785.dumps(covered)
        assert e.prev == prev
        assert e.hash == hashlib.sha256(data).hexdigest()
        prev = e.hash
    assert head == (len(entries), prev)


def test_an_actor_outside_ascii_is_hashed_canonically() -> None:
    entry = Entry(1, "t", "t", "k", "person:Łukasz 🌱", "asserted", "s", '{"a":"ü"}', "0" * 64, "")
    covered: Any = {
        "ledger_id": "L", "seq": 1, "at": "t", "as_of": "t", "kind": "k", "actor": "person:Łukasz 🌱",
        "identity": "asserted", "subject": "s", "body": {"a": "ü"},
    }  # fmt: skip
    data = b"duebook-entry-1\n" + b"0" * 64 + b"\n" + rfc8785.dumps(covered)
    assert entry_hash("L", entry) == hashlib.sha256(data).hexdigest()


def test_every_kind_has_exactly_one_body() -> None:
    assert set(BODIES) == set(EntryKind)
    assert all(issubclass(body, Body) for body in BODIES.values())


def test_a_body_of_another_kind_is_refused() -> None:
    with pytest.raises(StoreError) as refused:
        body_json(EntryKind.EVIDENCE_FROZEN, Genesis(ledger_class=LedgerClass.USER, after=None))
    assert str(refused.value) == "An entry of kind evidence_frozen takes a EvidenceFrozen, not a Genesis."


@pytest.mark.parametrize("number", [0.5, 1.0, 2**53, -(2**53)])
def test_a_number_that_is_spelled_otherwise_elsewhere_is_found(number: float) -> None:
    assert inexact_in({"a": [1, {"b": number}]}) == "body.a.1.b"
    assert inexact_in({"a": [1, True, None, "0.5", 2**53 - 1]}) is None


def test_a_float_in_a_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TraceSaved, "model_dump", lambda self, mode: {"trace_id": "t", "share": 0.5})
    body = TraceSaved(trace_id="t", evidence_class=EvidenceClass.DEMO, run_id="r", sha256="0" * 64)
    with pytest.raises(StoreError) as refused:
        body_json(EntryKind.TRACE_SAVED, body)
    assert str(refused.value) == (
        "The body of a trace_saved entry holds a float or an integer beyond 2^53 at body.share. Write it as a string."
    )


def test_a_refused_body_leaves_nothing_behind(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.sqlite", create=True) as store:
        frozen = EvidenceFrozen(file="a", sha256="0" * 64)

        def two_entries() -> None:
            with store.write() as tx:
                tx.text("never stored")
                tx.append(EntryKind.EVIDENCE_FROZEN, frozen, "file:a")
                tx.append(EntryKind.RUN_SHIPPED, frozen, "file:a")

        with pytest.raises(StoreError, match="takes a RunShipped"):
            two_entries()
        with store.read() as conn:
            assert conn.exec_driver_sql("SELECT count(*) FROM entry").scalar_one() == 1
            assert conn.exec_driver_sql("SELECT count(*) FROM text").scalar_one() == 0

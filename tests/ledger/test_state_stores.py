from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.clock import pinned
from core.errors import StoreError
from core.ledger import annotation_store, record_store, run_store, trace_tail
from core.ledger.ledger import verify
from core.ledger.store import Store, head_seq, open_store
from core.records.annotation import TargetKind
from core.records.record import Condition, Payload, Record, RecordState
from core.records.run import RunStatus
from core.records.trace import EvidenceClass, Trace
from tests.ledger.ledgers import WHEN, annotation, manifest, record, trace


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite", create=True) as opened:
        yield opened
        assert verify(opened).ok  # whatever a test did to it


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40).filter(str.strip)
RECORDS = st.lists(
    st.builds(
        Record,
        record_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
        condition=st.builds(Condition, text=TEXTS),
        payload=st.builds(Payload, text=TEXTS),
        state=st.sampled_from(RecordState),
        expires_at=st.none() | st.timedeltas(timedelta(-20_000), timedelta(300_000)).map(lambda t: WHEN + t),
        supersedes=st.none() | st.text(max_size=8),
        intention_id=st.none() | st.text(max_size=8),
        written_step=st.integers(0, 40),
        ended_step=st.none() | st.integers(0, 40),
    ),
    max_size=5,
    unique_by=lambda r: r.record_id,
)


@given(records=RECORDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_records_read_back_equal_in_the_order_of_writing(store: Store, records: list[Record]) -> None:
    with store.read() as conn:
        namespace = f"e{head_seq(conn)}-{id(records)}"
    with store.write() as tx:
        record_store.write_records(tx, namespace, records)
    with store.read() as conn:
        assert record_store.read_records(conn, namespace) == records
        active = [r for r in records if r.state is RecordState.ACTIVE]
        assert record_store.open_records(conn, namespace) == active


@given(written=st.lists(st.tuples(st.sampled_from(["e1", "e2", "a", "a/b", "é", "none"]), RECORDS), max_size=5))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_records_are_those_of_each_namespace(store: Store, written: list[tuple[str, list[Record]]]) -> None:
    with store.read() as conn:
        mark = f"{head_seq(conn)}-{id(written)}/"  # the store holds the earlier examples too
        earlier = record_store.read_all_records(conn)
    expected: dict[str, list[Record]] = {}
    for namespace, records in written:  # one namespace's records are written in pieces, others' in between
        known = expected.setdefault(mark + namespace, [])
        new = [r for r in records if r.record_id not in {k.record_id for k in known}]
        with store.write() as tx:
            record_store.write_records(tx, mark + namespace, new)
        known += new
    with store.read() as conn:
        found = record_store.read_all_records(conn)
        assert found == earlier | {n: r for n, r in expected.items() if r}
        assert found == {n: record_store.read_records(conn, n) for n in found}
        assert all(record_store.read_records(conn, n) == [] for n, r in expected.items() if not r)


def test_condition_and_payload_are_separate_texts_bound_by_the_record(store: Store) -> None:
    with store.write() as tx:
        record_store.write_records(tx, "e1", [record("r1")])
    with store.read() as conn:
        row = conn.exec_driver_sql("SELECT condition_id, payload_id FROM record").one()
        texts = {r.id: r.text for r in conn.exec_driver_sql("SELECT id, text FROM text").all()}
    assert row.condition_id != row.payload_id
    assert texts[row.condition_id] == "the invoice r1 is paid"
    assert texts[row.payload_id] == "send the receipt r1"


def test_namespaces_are_apart(store: Store) -> None:
    with store.write() as tx:
        record_store.write_records(tx, "e1", [record("r1")])
        record_store.write_records(tx, record_store.WORKSPACE, [record("r1"), record("r2")])
        record_store.write_records(tx, "a/b", [record("c")])  # one subject, were it not escaped
        record_store.write_records(tx, "a", [record("b/c")])
    with store.read() as conn:
        assert [r.record_id for r in record_store.read_records(conn, "e1")] == ["r1"]
        assert [r.record_id for r in record_store.open_records(conn)] == ["r1", "r2"]
        assert record_store.read_records(conn, "e2") == []


def test_a_record_is_written_once_in_a_namespace(store: Store) -> None:
    with store.write() as tx:
        record_store.write_records(tx, "e1", [record("r1")])
    with pytest.raises(StoreError, match="UNIQUE constraint failed"), store.write() as tx:
        record_store.write_records(tx, "e1", [record("r2"), record("r1")])
    with store.read() as conn:
        assert [r.record_id for r in record_store.read_records(conn, "e1")] == ["r1"]


def test_a_records_state_and_link_are_changed_with_an_entry_each(store: Store) -> None:
    with store.write() as tx:
        record_store.write_records(tx, "e1", [record("r1"), record("r2")])
    with store.write() as tx:
        record_store.set_state(tx, "e1", "r1", RecordState.REPLACED, 2)
        record_store.link_intention(tx, "e1", "r1", "i1")
    with store.read() as conn:
        assert record_store.read_records(conn, "e1") == [
            record("r1", state=RecordState.REPLACED, ended_step=2, intention_id="i1"),
            record("r2"),
        ]
        assert conn.exec_driver_sql("SELECT last_seq FROM record ORDER BY id").scalars().all() == [5, 3]
    with pytest.raises(StoreError) as refused, store.write() as tx:
        record_store.set_state(tx, "e1", "r9", RecordState.EXPIRED)
    assert str(refused.value) == "There is no record r9 in e1."


def test_no_text_stands_in_an_entry(store: Store) -> None:
    with store.write() as tx:
        record_store.write_records(tx, "e1", [record("r1")])
        run_store.register_run(tx, manifest(note="a private remark"))
        annotation_store.add(tx, annotation(text="another private remark"))
    with store.read() as conn:
        bodies = " ".join(conn.exec_driver_sql("SELECT body FROM entry").scalars())
    for text in ("invoice", "receipt", "private"):
        assert text not in bodies


# Runs


def test_a_run_goes_from_registered_to_finished(store: Store) -> None:
    with store.write() as tx:
        run_store.register_run(tx, manifest())
    with store.read() as conn:
        assert run_store.get_run(conn, "run-1") == manifest()
        assert run_store.get_run(conn, "run-2") is None
        assert run_store.latest_complete(conn, "controlled") is None
    with store.write() as tx:
        run_store.progress_run(tx, "run-1", 7)
    with store.write() as tx, pinned(WHEN + timedelta(hours=1)):
        run_store.finish_run(tx, "run-1", RunStatus.COMPLETE, stored=10, note="")
    expected = manifest(status=RunStatus.COMPLETE, stored=10, finished_at=WHEN + timedelta(hours=1), note="")
    with store.read() as conn:
        assert run_store.get_run(conn, "run-1") == expected
        assert run_store.latest_complete(conn, "controlled") == expected
        assert run_store.latest_complete(conn, "transfer") is None


def test_the_latest_complete_run_is_the_one_that_began_last(store: Store) -> None:
    with store.write() as tx:
        for n, status in enumerate([RunStatus.COMPLETE, RunStatus.COMPLETE, RunStatus.FAILED, RunStatus.PARTIAL]):
            begun = WHEN + timedelta(hours=n)
            run_store.register_run(tx, manifest(f"run-{n}", status=status, started_at=begun, finished_at=begun))
    with store.read() as conn:
        found = run_store.latest_complete(conn, "controlled")
        assert found is not None
        assert found.run_id == "run-1"
        assert [m.run_id for m in run_store.runs(conn)] == ["run-3", "run-2", "run-1", "run-0"]
        assert run_store.runs(conn, "transfer") == []


def test_an_amended_run_stays_with_the_reason(store: Store) -> None:
    with store.write() as tx:
        run_store.register_run(tx, manifest("old", status=RunStatus.COMPLETE))
        run_store.register_run(tx, manifest("new", status=RunStatus.COMPLETE, amends="old"))
    with store.write() as tx:
        run_store.amend_run(tx, "old", "new", "the device was recorded wrongly")
    with store.read() as conn:
        old = run_store.get_run(conn, "old")
    assert old == manifest("old", status=RunStatus.AMENDED, note="the device was recorded wrongly")


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda tx: run_store.progress_run(tx, "none", 1), "There is no run none."),
        (
            lambda tx: run_store.progress_run(tx, "running", 11),
            "Run running plans 10 executions; 11 cannot be stored.",
        ),
        (lambda tx: run_store.progress_run(tx, "done", 1), "Run done has ended: it is complete."),
        (
            lambda tx: run_store.finish_run(tx, "running", RunStatus.RUNNING),
            "A run does not finish as running.",
        ),
        (lambda tx: run_store.finish_run(tx, "done", RunStatus.FAILED), "Run done has ended: it is complete."),
        (lambda tx: run_store.amend_run(tx, "running", "done", "why"), "Run running is running and cannot be amended."),
        (lambda tx: run_store.amend_run(tx, "done", "none", "why"), "There is no run none."),
    ],
)
def test_a_move_a_run_cannot_make_is_refused(store: Store, act: object, sentence: str) -> None:
    with store.write() as tx:
        run_store.register_run(tx, manifest("running"))
        run_store.register_run(tx, manifest("done", status=RunStatus.COMPLETE))
    with pytest.raises(StoreError) as refused, store.write() as tx:
        act(tx)  # type: ignore[operator]
    assert str(refused.value) == sentence


# Annotations


def test_annotations_are_listed_oldest_first_with_what_they_replace(store: Store) -> None:
    first, other = annotation(1), annotation(2, target_id="run-2")
    correction = annotation(3, replaces=first.id, text=None)
    for a in (first, other, correction):
        with store.write() as tx:
            annotation_store.add(tx, a)
    with store.read() as conn:
        assert annotation_store.list_annotations(conn) == [first, other, correction]
        assert annotation_store.list_annotations(conn, TargetKind.RUN, "run-1") == [first, correction]
        assert annotation_store.replacement_of(conn, first.id) == correction.id
        assert annotation_store.replacement_of(conn, correction.id) is None
        assert annotation_store.latest_seq(conn, TargetKind.RUN, "run-1") == 4
        assert annotation_store.latest_seq(conn, TargetKind.TRACE, "run-1") == 0


def test_an_annotation_is_replaced_once_and_only_if_it_is_there(store: Store) -> None:
    for a in (annotation(1), annotation(2, replaces=annotation(1).id)):
        with store.write() as tx:
            annotation_store.add(tx, a)
    with pytest.raises(StoreError, match="UNIQUE constraint failed"), store.write() as tx:
        annotation_store.add(tx, annotation(3, replaces=annotation(1).id))
    with pytest.raises(StoreError, match="FOREIGN KEY constraint failed"), store.write() as tx:
        annotation_store.add(tx, annotation(4, replaces="nothing"))


# The tail


def listed(tx: object, traces: list[Trace], through: str | None, **changes: object) -> None:
    values: dict[str, object] = {
        "path": "traces/demo/part-1.parquet",
        "rows": len(traces),
        "sha256": "0" * 64,
        "min_id": traces[0].trace_id,
        "max_id": traces[-1].trace_id,
        "evidence_class": traces[0].evidence_class,
        "tail_through": through,
    }
    trace_tail.list_segment(tx, **{**values, **changes})  # type: ignore[arg-type]


def test_a_trace_of_the_tail_reads_back_equal(store: Store) -> None:
    with store.write() as tx:
        pending = trace_tail.append(tx, trace(1))
    with store.read() as conn:
        (row,) = trace_tail.tail(conn)
        assert trace_tail.tail_size(conn) == 1
    assert Trace.model_validate_json(row.trace) == trace(1)
    assert (row.last_seq, row.evidence_class, row.run_id) == (pending.seq, EvidenceClass.DEMO, "live")


def test_a_segment_takes_over_the_tail_rows_of_its_class_in_one_transaction(store: Store) -> None:
    demo, user = [trace(n) for n in (1, 2, 5)], [trace(n, EvidenceClass.USER) for n in (3, 4)]
    with store.write() as tx:
        for t in demo + user:
            trace_tail.append(tx, t)
    with store.write() as tx:
        listed(tx, demo[:2], "trace-000004")
    with store.read() as conn:
        assert [r.trace_id for r in trace_tail.tail(conn)] == ["trace-000003", "trace-000004", "trace-000005"]
        assert [r.trace_id for r in trace_tail.iter_tail(conn, "trace-000003", 1)] == ["trace-000004"]
        (segment,) = trace_tail.segments(conn)
    assert (segment.path, segment.rows, segment.tail_through) == ("traces/demo/part-1.parquet", 2, "trace-000004")
    assert verify(store).ok


def test_a_segment_that_would_lose_a_trace_is_refused(store: Store) -> None:
    with store.write() as tx:
        for n in (1, 2, 3):
            trace_tail.append(tx, trace(n))
    with pytest.raises(StoreError) as refused, store.write() as tx:
        listed(tx, [trace(1), trace(2)], "trace-000003")
    assert str(refused.value) == (
        "Segment traces/demo/part-1.parquet holds 2 traces; the tail holds 3 of class demo up to trace-000003."
    )
    with store.read() as conn:
        assert trace_tail.tail_size(conn) == 3


def test_a_segment_is_listed_once(store: Store) -> None:
    with store.write() as tx:
        listed(tx, [trace(1)], None, run_id="run-1", evidence_class=EvidenceClass.CONTROLLED)
    with pytest.raises(StoreError, match=r"Segment traces/demo/part-1.parquet is listed already"), store.write() as tx:
        listed(tx, [trace(1)], None)


@pytest.mark.parametrize("path", ["/etc/passwd", "../a.parquet", "traces/../../a.parquet", "", "a\\b", "a\nb"])
def test_a_segments_path_stays_in_the_home(store: Store, path: str) -> None:
    with pytest.raises(StoreError, match="a segment's path is relative to the home"), store.write() as tx:
        listed(tx, [trace(1)], None, path=path)


def test_a_trace_that_went_missing_between_tail_and_segment_is_named(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.sqlite", create=True) as broken:
        with broken.write() as tx:
            for n in (1, 2, 3):
                trace_tail.append(tx, trace(n))
        with broken.write() as tx:
            tx.conn.exec_driver_sql("DELETE FROM trace_tail WHERE trace_id = 'trace-000002'")
            tx.conn.exec_driver_sql("UPDATE trace_tail SET trace = '{}' WHERE trace_id = 'trace-000003'")
            tx.conn.exec_driver_sql("INSERT INTO trace_tail VALUES ('trace-000009', 'demo', 'live', '{}', 2)")
        report = verify(broken)
    assert [f.sentence for f in report.findings] == [
        "trace trace-000002: saved at 3, in no listed segment and not in the tail.",
        "trace trace-000003: the tail's row was edited; saved at 4.",
        "The tail has 1 traces the ledger has no entry for.",
    ]
    assert report.first_bad == 3

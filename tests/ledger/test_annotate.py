from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core import config
from core.acts.annotate import AnnotateRequest, annotate, request
from core.acts.identity import Identity, IdentityHow, asserted
from core.clock import pinned
from core.errors import InputError, PermissionRefused, TransitionError
from core.ledger import annotation_store
from core.ledger.kinds import ActorGranted, EntryKind
from core.ledger.ledger import verify
from core.ledger.rows import ActorRow
from core.ledger.store import Store, open_store
from core.records.annotation import Annotation, TargetKind
from tests.ledger.ledgers import WHEN

ME = Identity("person:tester")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.sqlite", create=True, actor=ME.actor) as opened:
        yield opened
        assert verify(opened).ok


def there(kind: TargetKind, target_id: str) -> bool:
    return (kind, target_id) in {(TargetKind.TRACE, "t1"), (TargetKind.TRACE, "t2")}


def remarks(store: Store) -> list[Annotation]:
    with store.read() as conn:
        return annotation_store.list_annotations(conn)


def test_an_annotation_carries_author_time_and_entry_of_the_ledger(store: Store) -> None:
    with pinned(WHEN), open_store(store.path.with_name("fresh.sqlite"), create=True, actor=ME.actor) as fresh:
        done = annotate(fresh, ME, request("trace", "t1", "wrong label", "the event is hedged"), exists=there)
        assert remarks(fresh) == [done.annotation]
        with fresh.read() as conn:
            entry = conn.exec_driver_sql("SELECT kind, actor, identity, subject FROM entry WHERE seq = 2").one()
    assert done.seq == 2
    assert (done.annotation.author, done.annotation.at) == ("person:tester", WHEN)
    assert (done.annotation.label, done.annotation.text) == ("wrong label", "the event is hedged")
    assert tuple(entry) == (
        "annotation_added", "person:tester", "asserted", f"annotation:{done.annotation.id}"
    )  # fmt: skip


def test_a_correction_is_a_new_remark_that_names_the_old_one(store: Store) -> None:
    first = annotate(store, ME, request("trace", "t1", "wrong"), exists=there).annotation
    second = annotate(store, ME, request("trace", "t1", "right", replaces=first.id), exists=there).annotation
    assert remarks(store) == [first, second]
    assert second.replaces == first.id


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("page", "t1", "label"),
         "There is nothing of kind 'page' to annotate: it is one of trace, case, run, record."),
        (("trace", "", "label"), "target_id: the id is empty."),
        (("trace", "t1", ""), "label: a label is a few visible words on one line."),
        (("trace", "t1", "  "), "label: a label is a few visible words on one line."),
        (("trace", "t1", "two\nlines"), "label: a label is a few visible words on one line."),
        (("trace", "t1", "\x1b[2J"), "label: a label is a few visible words on one line."),
        (("trace", "t1", "a\u202eb"), "label: a label is a few visible words on one line."),
        (("trace", "t1", "x" * 81), "label: the label is 81 characters long; at most 80 are taken."),
        (("trace", "x" * 401, "label"), "target_id: the id is 401 characters long; at most 400 are taken."),
        (("trace", "t1", "label", "a\x00b"), "text: the text holds a NUL character."),
        (("trace", "t1", "label", "\ud800"), "text: the text is not valid Unicode (a lone surrogate)."),
        (("trace", "\udcff", "label"), "target_id: the id is not valid Unicode (a lone surrogate)."),
        (("trace", "t\x00", "label"), "target_id: the id holds a NUL character."),
        (("trace", "t1", "label", "x" * 70_000), "text: the text is 70,000 bytes long; at most 65,536 are taken."),
    ],
)  # fmt: skip
def test_a_remark_that_cannot_be_stored_is_refused(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        request(*arguments)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("label", ["👩\u200d👩\u200d👧", "مرحبا", "می\u200cخواهم", "x" * 80, "a\u00a0b"])
def test_a_label_in_any_script_is_kept(store: Store, label: str) -> None:
    assert annotate(store, ME, request("trace", "t1", f" {label} "), exists=there).annotation.label == label


@pytest.mark.parametrize("text", ["\x1b[2J\x07", "مرحبا بالعالم", "🌱🌱", "x" * 65_536, "$a$ <b>_c_</b>"])
def test_any_other_text_is_kept_as_it_is(store: Store, text: str) -> None:
    done = annotate(store, ME, request("trace", "t1", "label", text), exists=there)
    assert remarks(store)[0].text == text == done.annotation.text


def refusal_of(store: Store, wanted: AnnotateRequest, who: Identity = ME, expected_seq: int | None = None) -> str:
    with pytest.raises((InputError, TransitionError, PermissionRefused)) as refused:
        annotate(store, who, wanted, exists=there, expected_seq=expected_seq)
    return str(refused.value)


def test_a_target_that_is_not_there_is_refused(store: Store) -> None:
    assert refusal_of(store, request("trace", "t9", "label")) == "There is no trace 't9' here. Check the id."
    assert refusal_of(store, request("run", "t1", "label")) == "There is no run 't1' here. Check the id."
    assert remarks(store) == []


def test_a_replacement_must_fit_what_it_replaces(store: Store) -> None:
    first = annotate(store, ME, request("trace", "t1", "wrong"), exists=there).annotation
    assert refusal_of(store, request("trace", "t1", "x", replaces="none")) == (
        "There is no annotation 'none' to replace."
    )
    assert refusal_of(store, request("trace", "t2", "x", replaces=first.id)) == (
        f"Annotation {first.id} is about the trace t1."
    )
    second = annotate(store, ME, request("trace", "t1", "right", replaces=first.id), exists=there).annotation
    assert refusal_of(store, request("trace", "t1", "x", replaces=first.id)) == (
        f"Annotation {first.id} was replaced by {second.id}: replace that one."
    )
    assert remarks(store) == [first, second]


def test_a_remark_made_meanwhile_is_not_overlooked(store: Store) -> None:
    annotate(store, ME, request("trace", "t1", "first"), exists=there, expected_seq=0)
    assert refusal_of(store, request("trace", "t1", "second"), expected_seq=0) == (
        "The trace t1 got another remark meanwhile (entry 2). Look at it, then annotate again."
    )
    assert annotate(store, ME, request("trace", "t1", "second"), exists=there, expected_seq=2).seq == 3
    assert annotate(store, ME, request("trace", "t2", "other"), exists=there, expected_seq=0).seq == 4


def test_an_actor_without_the_authority_is_refused(store: Store) -> None:
    assert refusal_of(store, request("trace", "t1", "x"), Identity("agent:niko")) == (
        "agent:niko is not in this workspace's directory of actors. Act as the user who made the workspace,"
        " or open one of your own."
    )
    row = ActorRow(actor_id="agent:niko", authorities=("propose",), roles=())
    with store.write() as tx:
        tx.put(EntryKind.ACTOR_GRANTED, ActorGranted(before=None, after=row), row, new=True)
    assert refusal_of(store, request("trace", "t1", "x"), Identity("agent:niko")) == (
        "agent:niko does not hold the authority to annotate."
    )
    granted = row.model_copy(update={"authorities": ("annotate", "propose")})
    with store.write() as tx:
        tx.put(EntryKind.ACTOR_GRANTED, ActorGranted(before=row, after=granted), granted, new=False)
    done = annotate(store, Identity("agent:niko"), request("trace", "t1", "x"), exists=there)
    assert done.annotation.author == "agent:niko"


def test_the_operating_systems_user_acts_as_asserted(tmp_path: Path) -> None:
    who = asserted(config.load(tmp_path, {"DUEBOOK_USER": "ada"}))
    assert (who.actor, who.how) == ("person:ada", IdentityHow.ASSERTED)

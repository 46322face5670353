"""The audit can fail: every mutant fails exactly its own check, the true controller none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from core.backbone.base import Backbone
from core.controller.arms import Arm
from core.controller.context import Heard
from core.controller.intervene import Intervention
from core.controller.memory import MemoryTap, Read
from core.controller.mutants import CONTROLLERS, MakeMutant, demonstrate
from core.controller.null import NullOutcome, NullPath, audit, c0_baseline, walk
from core.controller.step import bind, respond
from core.errors import InputError
from core.records.case import Operation
from core.records.record import Record
from core.records.trace import ArmName, StepStatus, Trace
from tests.controller.tiny import TableTrigger, TinyBackbone, context

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
OPERATIONS = [
    Operation.model_validate({"op": "write", "record": "r1", "condition": "It snows.", "payload": "Salt the steps."})
]
CHECKS = ("no_retrieved_id", "no_intervention", "no_later_use", "output_equal")


def silent(
    make: MakeMutant = lambda memory: NullPath(),
    operations: list[Operation] | None = None,
    backbone: TinyBackbone | None = None,
) -> Trace:
    """Execute a silent trial; a mutant is made with the memory while it is open, and walked when its turn comes."""
    paths: list[NullPath] = []

    def tap(records: Sequence[Record]) -> MemoryTap:
        memory = MemoryTap(records)
        paths.append(make(memory))
        return memory

    return respond(
        bind(OPERATIONS if operations is None else operations),
        [Heard("It rains.", NOON)],
        Arm(ArmName.C3, trigger=TableTrigger({})),
        backbone or TinyBackbone(),
        context(None, None),
        lambda: paths[0],
        tap,
    )


def failed_checks(t: Trace) -> set[str]:
    return {check for check in CHECKS if not getattr(t, f"audit_{check}")}


@pytest.mark.parametrize(("name", "make", "must_fail"), CONTROLLERS, ids=[name for name, _, _ in CONTROLLERS])
@pytest.mark.parametrize("operations", [OPERATIONS, []], ids=["one record", "no record"])
def test_a_mutant_fails_exactly_its_own_check(
    name: str, make: MakeMutant, must_fail: str | None, operations: list[Operation]
) -> None:
    t = silent(make, operations)
    assert failed_checks(t) == ({must_fail} if must_fail else set())
    step = t.steps[5]
    if must_fail is None:
        assert step.status is StepStatus.DONE
    else:
        assert (step.status, step.detail) == (
            StepStatus.FAILED,
            f"The audit failed: {must_fail.replace('_', ' ')}.",
        )


def test_what_a_mutant_does_is_visible_in_the_trace() -> None:
    by_name = {name: silent(make) for name, make, _ in CONTROLLERS}
    assert by_name["leaks an id"].retrieved_id == "r1"
    assert by_name["returns an empty intervention object"].intervention == '{"payload":"","record_id":""}'
    true = by_name["true controller"]
    assert by_name["adds one byte to the prompt"].prompt_sha256 != true.prompt_sha256
    assert by_name["reads a memory value later"].output == true.output


def test_the_demonstration_on_a_stored_trace_says_the_same() -> None:
    shown = demonstrate(silent(), TinyBackbone())
    assert [(d.controller, d.audit.failed) for d in shown] == [
        ("true controller", ()),
        ("leaks an id", ("no_retrieved_id",)),
        ("returns an empty intervention object", ("no_intervention",)),
        ("reads a memory value later", ("no_later_use",)),
        ("adds one byte to the prompt", ("output_equal",)),
    ]
    assert all(d.as_expected for d in shown)


def test_the_demonstration_refuses_a_trace_that_fired() -> None:
    fired = respond(
        bind(OPERATIONS),
        [Heard("Snow fell.", NOON)],
        Arm(ArmName.C3, trigger=TableTrigger({("It snows.", "Snow fell."): 1.0})),
        TinyBackbone(),
        context("r1", "Salt the steps.", trace_id="t1"),
    )
    with pytest.raises(InputError) as e:
        demonstrate(fired, TinyBackbone())
    assert str(e.value) == ("The null path was not taken in this execution. (t1) Open an execution that stayed silent.")


def test_a_backbone_that_answers_differently_fails_the_fourth_check_alone() -> None:
    class Drifting(TinyBackbone):
        def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
            return super().generate(prompt) + ("!" if fresh else "")

    t = respond(
        bind(OPERATIONS),
        [Heard("It rains.", NOON)],
        Arm(ArmName.C3, trigger=TableTrigger({})),
        Drifting(),
        context(None, None, fresh=True),
    )
    assert t.regenerated
    assert (t.audit_no_retrieved_id, t.audit_no_intervention, t.audit_no_later_use) == (True, True, True)
    assert t.audit_output_equal is False


def test_equal_outputs_of_unequal_prompts_fail_the_fourth_check() -> None:
    class Deaf(TinyBackbone):
        def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
            return "always this"

    backbone = Deaf()
    adds_a_byte = next(make for _, make, check in CONTROLLERS if check == "output_equal")
    memory = MemoryTap([])
    walked = walk(lambda: adds_a_byte(memory), memory, "It rains.", backbone)
    assert audit(walked, memory, c0_baseline("It rains.", backbone)).failed == ("output_equal",)


class Remembering(TinyBackbone):
    """Keeps the first answer to each question, as the baseline cache does, in a book that a cheat can get hold of."""

    def __init__(self, book: dict[bytes, str]) -> None:
        super().__init__()
        self.book = book

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        return self.book.get(prompt) or super().generate(prompt)


def test_a_path_that_poisons_the_cache_is_compared_with_what_was_said_before_it() -> None:
    book: dict[bytes, str] = {}

    class Poisons(NullPath):
        def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
            book[prompt] = "Salt the steps."
            return super().answer(prompt, backbone, fresh=fresh)

    t = silent(lambda memory: Poisons(), backbone=Remembering(book))
    assert t.output == "Salt the steps."
    assert t.baseline_output != t.output
    assert failed_checks(t) == {"output_equal"}


class LiesAboutItsPrompt(NullPath):
    """Asks with a memory line in the prompt, and hands on the honest prompt and what C0 would have answered."""

    def run(self, text: str, backbone: Backbone, *, fresh: bool = False) -> NullOutcome:
        honest = backbone.prompt(text)
        backbone.generate(backbone.prompt(text, memory=["Salt the steps."]))
        return NullOutcome(None, None, honest, TinyBackbone().generate(honest))


class AsksAside(NullPath):
    """Asks the honest question, and another one with a memory line beside it."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        backbone.generate(backbone.prompt("It rains.", memory=["Salt the steps."]))
        return super().answer(prompt, backbone, fresh=fresh)


class AsksTwice(NullPath):
    """Asks the honest question twice: of several answers it could pick one."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        super().answer(prompt, backbone, fresh=fresh)
        return super().answer(prompt, backbone, fresh=fresh)


class NeverAsks(NullPath):
    """Hands on the right words without asking the backbone."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        return TinyBackbone().generate(prompt)


class ReplacesTheAnswer(NullPath):
    """Asks honestly and hands on something else."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        return super().answer(prompt, backbone, fresh=fresh) + " Salt the steps."


@pytest.mark.parametrize("path", [LiesAboutItsPrompt, AsksAside, AsksTwice, NeverAsks, ReplacesTheAnswer])
def test_what_the_backbone_was_really_asked_is_what_is_compared(path: type[NullPath]) -> None:
    assert failed_checks(silent(lambda memory: path())) == {"output_equal"}


class AlwaysEqualText(str):
    """Says that it equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class AlwaysEqualBytes(bytes):
    """Says that it equals whatever it is compared with, and shows other bytes to whoever asks for them."""

    def __eq__(self, other: object) -> bool:
        return True

    def __bytes__(self) -> bytes:
        return TinyBackbone().prompt("It rains.")

    __hash__ = bytes.__hash__


class HandsOnTextThatAlwaysEquals(NullPath):
    """Asks honestly and hands on the payload as a text that equals everything."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        super().answer(prompt, backbone, fresh=fresh)
        return AlwaysEqualText("Salt the steps.")


class AsksWithBytesThatAlwaysEqual(NullPath):
    """Asks with a memory line in a prompt that equals everything."""

    def prompt(self, text: str, backbone: Backbone) -> bytes:
        return AlwaysEqualBytes(backbone.prompt(text, memory=["Salt the steps."]))


class Changing:
    """An outcome whose output is another each time it is read."""

    retrieved_id = intervention = None

    def __init__(self, prompt: bytes, outputs: list[str]) -> None:
        self.prompt, self.outputs = prompt, outputs

    @property
    def output(self) -> str:
        return self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0]


class HandsOnTheAnswerThenThePayload(NullPath):
    """Shows the honest answer to the audit and the payload to whoever reads after it."""

    def run(self, text: str, backbone: Backbone, *, fresh: bool = False) -> NullOutcome:
        honest = super().run(text, backbone, fresh=fresh)
        return cast(NullOutcome, Changing(honest.prompt, [honest.output, "Salt the steps."]))


class HandsOnThePayloadThenTheAnswer(NullPath):
    """Shows the payload to whoever reads before the audit, and the honest answer to the audit."""

    def run(self, text: str, backbone: Backbone, *, fresh: bool = False) -> NullOutcome:
        honest = super().run(text, backbone, fresh=fresh)
        return cast(NullOutcome, Changing(honest.prompt, ["Salt the steps.", honest.output]))


class HandsOnNoText(NullPath):
    """Asks honestly and hands on what is no text at all."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        super().answer(prompt, backbone, fresh=fresh)
        return cast(str, None)


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        (HandsOnTextThatAlwaysEquals, "Salt the steps."),
        (AsksWithBytesThatAlwaysEqual, None),
        (HandsOnTheAnswerThenThePayload, "the answer"),
        (HandsOnThePayloadThenTheAnswer, "Salt the steps."),
        (HandsOnNoText, ""),
    ],
)
def test_what_is_compared_is_what_is_stored_and_is_plain_text(path: type[NullPath], stored: str | None) -> None:
    t = silent(lambda memory: path())
    assert failed_checks(t) == {"output_equal"}
    assert type(t.output) is str
    if stored is not None:
        assert t.output == (t.baseline_output if stored == "the answer" else stored)


def test_a_question_that_equals_everything_is_compared_by_its_bytes() -> None:
    class Deaf(TinyBackbone):
        def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
            return "always this"

    class AsksSomethingElse(NullPath):
        def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
            return backbone.generate(AlwaysEqualBytes(b"Salt the steps."), fresh=fresh)

    assert failed_checks(silent(lambda memory: AsksSomethingElse(), backbone=Deaf())) == {"output_equal"}


def test_an_id_and_an_intervention_of_other_types_are_caught_by_their_own_checks() -> None:
    class Nothing:
        def __eq__(self, other: object) -> bool:
            return other is None

        __hash__ = object.__hash__

    class LeaksNothing(NullPath):
        def retrieved_id(self) -> str | None:
            return cast(str, Nothing())

    class IntervenesWithNothing(NullPath):
        def intervention(self) -> Intervention | None:
            return cast(Intervention, Nothing())

    assert failed_checks(silent(lambda memory: LeaksNothing())) == {"no_retrieved_id"}
    assert failed_checks(silent(lambda memory: IntervenesWithNothing())) == {"no_intervention"}


class AsksTheCache(NullPath):
    """Asks past the cache never, whatever it is told."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        return super().answer(prompt, backbone, fresh=False)


class SaysFreshWithoutMeaningIt(NullPath):
    """Gives the backbone something that is neither yes nor no."""

    def answer(self, prompt: bytes, backbone: Backbone, *, fresh: bool) -> str:
        return super().answer(prompt, backbone, fresh=cast(bool, "no"))


@pytest.mark.parametrize("path", [NullPath, AsksTheCache, SaysFreshWithoutMeaningIt])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_path_that_was_to_ask_past_the_cache_has_to(path: type[NullPath], fresh: bool) -> None:
    backbone, memory = TinyBackbone(), MemoryTap([])
    baseline = c0_baseline("It rains.", backbone)
    walked = walk(path, memory, "It rains.", backbone, fresh=fresh)
    honest = path is NullPath
    assert [f for _, f in backbone.asked] == [False, fresh and honest]
    assert audit(walked, memory, baseline).failed == (("output_equal",) if fresh and not honest else ())


def test_a_path_that_copied_the_payloads_before_the_memory_closed_is_seen() -> None:
    class CopiesEarly(NullPath):
        def __init__(self, memory: MemoryTap) -> None:
            self.copied = [memory.payload(record_id) for record_id in memory.ids()]

    assert failed_checks(silent(CopiesEarly)) == {"no_later_use"}


def test_the_null_path_is_made_after_the_memory_has_closed_and_given_nothing_of_it() -> None:
    memory = MemoryTap(bind(OPERATIONS))
    given: list[tuple[object, ...]] = []

    class Looks(NullPath):
        def __init__(self, *told: object) -> None:
            memory.ids()
            given.append(told)

    walked = walk(Looks, memory, "It rains.", TinyBackbone())
    assert given == [()]
    assert memory.late_reads == memory.reads == (Read("ids", None, True),)
    assert walked.outcome.output == TinyBackbone().generate(TinyBackbone().prompt("It rains."))


def test_a_silent_c3_trial_never_reads_a_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    note = MemoryTap._note

    def spy(self: MemoryTap, what: str, record_id: str | None) -> None:
        reads.append(what)
        note(self, what, record_id)

    monkeypatch.setattr(MemoryTap, "_note", spy)
    silent()
    assert set(reads) == {"ids", "condition", "written_step"}


def test_the_tap_notes_every_read_and_marks_the_late_ones() -> None:
    memory = MemoryTap(bind(OPERATIONS))
    memory.active(Heard("It rains.", NOON))
    memory.condition("r1")
    memory.close()
    assert memory.payload("r1") == "Salt the steps."
    memory.ids()
    memory.written_step("r1")
    assert memory.reads[:2] == (Read("ids", None, False), Read("condition", "r1", False))
    assert memory.late_reads == (
        Read("payload", "r1", True),
        Read("ids", None, True),
        Read("written_step", "r1", True),
    )

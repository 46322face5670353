"""The audit can fail: every mutant fails exactly its own check, the true controller none."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime

import pytest

from core.controller.arms import Arm
from core.controller.context import Heard
from core.controller.memory import MemoryTap, Read
from core.controller.mutants import CONTROLLERS, demonstrate
from core.controller.null import NullPath, audit, c0_baseline
from core.controller.step import bind, respond
from core.errors import InputError
from core.records.case import Operation
from core.records.trace import ArmName, StepStatus, Trace
from tests.controller.tiny import TableTrigger, TinyBackbone, context

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
OPERATIONS = [
    Operation.model_validate({"op": "write", "record": "r1", "condition": "It snows.", "payload": "Salt the steps."})
]
CHECKS = ("no_retrieved_id", "no_intervention", "no_later_use", "output_equal")


def silent(null_path: type[NullPath] = NullPath, operations: list[Operation] | None = None) -> Trace:
    return respond(
        bind(OPERATIONS if operations is None else operations),
        [Heard("It rains.", NOON)],
        Arm(ArmName.C3, trigger=TableTrigger({})),
        TinyBackbone(),
        context(None, None),
        null_path,
    )


@pytest.mark.parametrize(("name", "path", "must_fail"), CONTROLLERS, ids=lambda v: str(v))
@pytest.mark.parametrize("operations", [OPERATIONS, []], ids=["one record", "no record"])
def test_a_mutant_fails_exactly_its_own_check(
    name: str, path: type[NullPath], must_fail: str | None, operations: list[Operation]
) -> None:
    t = silent(path, operations)
    failed = {check for check in CHECKS if not getattr(t, f"audit_{check}")}
    assert failed == ({must_fail} if must_fail else set())
    step = t.steps[5]
    if must_fail is None:
        assert step.status is StepStatus.DONE
    else:
        assert (step.status, step.detail) == (
            StepStatus.FAILED,
            f"The audit failed: {must_fail.replace('_', ' ')}.",
        )


def test_what_a_mutant_does_is_visible_in_the_trace() -> None:
    by_name = {name: silent(path) for name, path, _ in CONTROLLERS}
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
    adds_a_byte = next(path for _, path, check in CONTROLLERS if check == "output_equal")
    outcome = adds_a_byte().run("It rains.", backbone)
    assert audit(outcome, MemoryTap([]), c0_baseline("It rains.", backbone)).failed == ("output_equal",)


def test_the_true_null_path_is_given_no_memory() -> None:
    memory = MemoryTap(bind(OPERATIONS))
    path = NullPath.beside(memory)
    assert vars(path) == {}
    assert memory.reads == ()
    assert list(inspect.signature(NullPath.run).parameters) == ["self", "text", "backbone", "fresh"]


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

"""Scoring a case file: lifecycle rules first, then the trigger; one line a case and trigger, in the file's order.

Promise: it decides by the same calls as `core.controller.step.respond`; the output appears whole or not at all.
Refused: a file with any line that is not a case. Every bad line is named and nothing is written: scores of a part
would look like scores of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from core.controller.arms import Arm
from core.controller.memory import MemoryTap
from core.controller.resolve import null_reason, resolve
from core.controller.step import bind, hear, judge_distractors
from core.errors import CaseError, InputError
from core.evaluation.case_file import BadLine, read_cases
from core.files import write_whole
from core.records.case import Case
from core.records.decision import ScoreLine
from core.records.trace import ArmName
from core.triggers.base import Trigger

NAMED_BAD_LINES = 100
"""The error names this many bad lines; the rest are counted."""
PROGRESS_EVERY = 5_000


@dataclass
class Tally:
    """What one trigger did on the file."""

    trigger: str
    """Its name."""
    threshold: float
    """Its locked threshold."""
    cases: int = 0
    """Cases scored."""
    fired: int = 0
    """Cases on which a record fired."""
    null_reasons: Counter[str] = field(default_factory=Counter)
    """Silent cases by reason."""
    distractor_fires: int = 0
    """Distractor decisions that fired; counted apart, never a case's answer."""


def score_case(case: Case, trigger: Trigger) -> tuple[ScoreLine, int]:
    """Return the case's answer under one trigger, and how many distractor decisions fired."""
    records = bind(case.operations)
    *earlier, final = hear(case.operations, case.event)
    memory, arm = MemoryTap(records), Arm(ArmName.C3, trigger=trigger)
    distractor_fires = sum(d.fired for d in judge_distractors(memory, earlier, arm))
    decisions = [arm.judge(memory, record_id, final.text) for record_id in memory.active(final)]
    found = resolve(decisions, {r.record_id: r.written_step for r in records})
    line = ScoreLine(
        case_id=case.case_id,
        trigger=trigger.name,
        score=found.best.score if found.best else None,
        threshold=trigger.threshold,
        fired=found.winner is not None,
        record=found.winner.record_id if found.winner else None,
        payload=memory.payload(found.winner.record_id) if found.winner else None,
        null_reason=None if found.winner else null_reason(bool(records), bool(decisions)),
    )
    return line, distractor_fires


def score_file(
    cases: Path, triggers: Sequence[Trigger], out: Path, report: Callable[[str], None] = lambda text: None
) -> list[Tally]:
    """Score every case of a file with every trigger and write the score lines.

    Parameters
    ----------
    out : appears when the last line has been scored.
    report : told about progress.

    Returns
    -------
    One tally a trigger.

    Raises
    ------
    CaseError : one or more lines are not cases; nothing is written.
    InputError : the file cannot be read, holds no case, or `out` cannot be written.
    """
    if out.exists() and cases.exists() and out.samefile(cases):
        raise InputError("The output would replace the case file.", where=str(out), next_step="Name another file.")
    with write_whole(out) as file:
        return score_into(file, cases, triggers, report)


def score_into(
    file: BinaryIO, cases: Path, triggers: Sequence[Trigger], report: Callable[[str], None] = lambda text: None
) -> list[Tally]:
    """Write the score lines into an open binary file, of no use where this raises; the rest as for `score_file`."""
    tallies = [Tally(t.name, t.threshold) for t in triggers]
    bad: list[BadLine] = []
    for number, case in read_cases(cases):
        if isinstance(case, BadLine):
            bad.append(case)
        elif not bad:  # past a bad line the rest is only checked, so that one run names every fault
            for trigger, tally in zip(triggers, tallies, strict=True):
                line, distractor_fires = score_case(case, trigger)
                file.write(line.model_dump_json().encode() + b"\n")
                _count(tally, line, distractor_fires)
        if number % PROGRESS_EVERY == 0:
            report(f"{number:,} lines read")
    if bad:
        raise _refusal(cases, bad)
    if not tallies or not tallies[0].cases:
        raise InputError("The case file holds no case.", where=str(cases), next_step="Write one JSON object a line.")
    return tallies


def _count(tally: Tally, line: ScoreLine, distractor_fires: int) -> None:
    tally.cases += 1
    tally.fired += line.fired
    tally.distractor_fires += distractor_fires
    if line.null_reason is not None:
        tally.null_reasons[line.null_reason.value] += 1


def _refusal(path: Path, bad: Sequence[BadLine]) -> CaseError:
    named = "; ".join(f"line {b.number}: {b.reason.rstrip('.')}" for b in bad[:NAMED_BAD_LINES])
    more = f"; and {len(bad) - NAMED_BAD_LINES} more" if len(bad) > NAMED_BAD_LINES else ""
    lines = "1 line is not a case" if len(bad) == 1 else f"{len(bad)} lines are not cases"
    return CaseError(
        f"{lines}, so nothing was scored: {named}{more}.",
        where=f"{path}:{bad[0].number}",
        next_step="Correct or remove what is named and score again.",
    )

"""The controlled episodes: 240 a seed, 120 matched pairs of one positive and one negative (docs/experiments.md).

Promise: the same episodes on every machine; both members of a pair hold equal record texts, equal distractors and
equal delay, and differ in what the record goes through or in the final event alone. Each seed has its own third of
the evaluation subjects, so no scene can occur under two seeds, and all are subjects and templates of no training,
validation or test pair. The texts are generator-matched: the same hand wrote them and the training pairs.
Refused: a seed other than the contract's three.

| beside 60 exact and 60 paraphrased positives | each | what the negative is |
|---|---|---|
| near_trigger | 30 | an event close to the cue: denied, hedged, announced, asked about, contradicted |
| distractor_only | 10 | the final event is one more distractor |
| cancellation | 10 | the record is cancelled halfway, then the cue comes |
| correction | 10 | the condition is amended halfway, then the *old* cue comes (its positive: the new cue) |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from random import Random

from core.controller.arms import record_key
from core.errors import InputError
from core.evaluation.pairs import FOLDER, Bank, Scene, bank
from core.records.case import Case, Operation, OperationKind
from core.records.event import EventLine

SEEDS = (2026, 2027, 2028)
"""The contract's generator seeds (paper section 3.4)."""
DELAYS = (5, 20)
"""Distractor events before the final one (paper section 4.2)."""
PERMUTATIONS = FOLDER / "permutations.json"
"""Arm C4's stored permutation: seed -> record key -> key of the record whose payload it is given."""
FIRST_EVENT = datetime(2026, 1, 5, 9, tzinfo=UTC)


class Wording(StrEnum):
    """How a pair's cue is worded."""

    EXACT = "exact"
    """In the condition's own words."""
    PARAPHRASED = "paraphrased"
    """In other words."""


class Family(StrEnum):
    """What kind of episode it is; the first two are positives."""

    EXACT_POSITIVE = "exact_positive"
    """The cue comes in the condition's words."""
    PARAPHRASED_POSITIVE = "paraphrased_positive"
    """The cue comes in other words."""
    NEAR_TRIGGER = "near_trigger"
    """Something close to the cue comes."""
    DISTRACTOR_ONLY = "distractor_only"
    """Nothing related comes."""
    CANCELLATION = "cancellation"
    """The cue comes after the cancel."""
    CORRECTION = "correction"
    """The old cue comes after the condition was amended."""


PLAN: tuple[tuple[Wording, Family, int], ...] = tuple(
    (wording, family, count)
    for wording in Wording
    for family, count in (
        (Family.NEAR_TRIGGER, 30),
        (Family.DISTRACTOR_ONLY, 10),
        (Family.CANCELLATION, 10),
        (Family.CORRECTION, 10),
    )
)
"""Wording of the pair, family of its negative, pairs a seed: 120 pairs, half of each kind with either delay."""


@dataclass(frozen=True)
class Episode:
    """One independent episode: what happens to its records, what is heard, and what should come of it."""

    episode_id: str
    """`<match_id>-p` or `-n`."""
    match_id: str
    """The pair of one positive and one negative."""
    seed: int
    """The generator's seed."""
    family: Family
    """Its kind."""
    wording: Wording
    """How the pair's cue is worded: which positives a negative stands beside."""
    delay: int
    """Number of distractors before the final event."""
    operations: tuple[Operation, ...]
    """Writes, distractors, and the cancel or replace, in order."""
    event: EventLine
    """The final event."""
    expected_record: str | None
    """The record that should fire; None on negatives."""
    expected_payload: str | None
    """Its payload; None on negatives."""

    @property
    def expected_trigger(self) -> bool:
        """Whether a record should fire on the final event."""
        return self.expected_record is not None

    @property
    def payloads(self) -> dict[str, str]:
        """Return the payload of every record written, by record key."""
        return {
            record_key(self.episode_id, op.record): op.payload
            for op in self.operations
            if op.record is not None and op.payload is not None
        }

    def as_case(self) -> Case:
        """Return it in the form of a case file, source `controlled`."""
        return Case(
            case_id=self.episode_id,
            source="controlled",
            operations=self.operations,
            event=self.event,
            trigger=self.expected_trigger,
            expected_record=self.expected_record,
            expected_payload=self.expected_payload,
            why=self.family.value,
        )


@cache
def episodes(seed: int) -> tuple[Episode, ...]:
    """Return a seed's 240 episodes, positives and negatives of a pair side by side.

    Raises
    ------
    InputError : the seed is none of the contract's.
    """
    if seed not in SEEDS:
        raise InputError(f"There are no controlled episodes for seed {seed}: choose one of {SEEDS}.")
    rng = Random(f"{seed}:episodes")
    whole = bank("evaluation")
    own = replace(whole, subjects=whole.subjects[SEEDS.index(seed) :: len(SEEDS)])
    scenes = _distinct_scenes(own, rng)
    kinds = [(wording, family, DELAYS[n % 2]) for wording, family, count in PLAN for n in range(count)]
    return tuple(
        episode
        for n, (wording, family, delay) in enumerate(kinds)
        for episode in _pair(seed, n, wording, family, delay, next(scenes), _distinct_distractors(own, delay + 1, rng))
    )


def _pair(
    seed: int, number: int, wording: Wording, family: Family, delay: int, scene: Scene, distractors: list[str]
) -> tuple[Episode, Episode]:
    exact = wording is Wording.EXACT
    cue = scene.exact_event if exact else scene.paraphrased_event
    new_cue = scene.amended_exact_event if exact else scene.amended_paraphrased_event
    near = scene.near_exact_event if exact else scene.near_paraphrased_event
    write = Operation(op=OperationKind.WRITE, record="r1", condition=scene.condition, payload=scene.payload)
    amend = Operation(
        op=OperationKind.REPLACE,
        record="r2",
        supersedes="r1",
        condition=scene.amended_condition,
        payload=scene.payload,
    )
    cancel = Operation(op=OperationKind.CANCEL, record="r1")
    heard = [Operation(op=OperationKind.DISTRACTOR, text=text) for text in distractors[:delay]]
    corrected = family is Family.CORRECTION
    halfway = {Family.CANCELLATION: [cancel], Family.CORRECTION: [amend]}.get(family, [])
    last = {Family.NEAR_TRIGGER: near, Family.DISTRACTOR_ONLY: distractors[delay]}.get(family, cue)
    match_id = f"{seed}-m{number:03d}"
    at = FIRST_EVENT + timedelta(days=30 * SEEDS.index(seed), hours=number)

    def episode(suffix: str, kind: Family, middle: list[Operation], text: str, fires: str | None) -> Episode:
        return Episode(
            episode_id=f"{match_id}-{suffix}",
            match_id=match_id,
            seed=seed,
            family=kind,
            wording=wording,
            delay=delay,
            operations=(write, *heard[: delay // 2], *middle, *heard[delay // 2 :]),
            event=EventLine(at=at, text=text),
            expected_record=fires,
            expected_payload=scene.payload if fires else None,
        )

    positive = Family.EXACT_POSITIVE if exact else Family.PARAPHRASED_POSITIVE
    return (
        episode(
            "p", positive, [amend] if corrected else [], new_cue if corrected else cue, "r2" if corrected else "r1"
        ),
        episode("n", family, halfway, last, None),
    )


def _distinct_scenes(source: Bank, rng: Random) -> Iterator[Scene]:
    """Draw scenes; none waits for a happening that an earlier one waits for, however the condition opens."""
    openings = [str(frame).partition("{clause}")[0].lower() for frame in source.frames["conditions"]]
    seen: set[str] = set()
    while True:
        scene = source.scene(rng)
        happening = scene.condition.lower()
        for opening in openings:
            happening = happening.removeprefix(opening)
        if happening not in seen:
            seen.add(happening)
            yield scene


def _distinct_distractors(source: Bank, count: int, rng: Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[source.distractor(rng)] = None
    return list(found)


def permutation(seed: int, of: Sequence[Episode], path: Path = PERMUTATIONS) -> dict[str, str]:
    """Return arm C4's payload for every record of a seed, by the stored permutation.

    Returns
    -------
    Record key -> payload text.

    Raises
    ------
    InputError : the stored permutation is missing, or is not one of these episodes' records.
    """
    payloads = _payloads(of)
    try:
        stored: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))[str(seed)]
    except (OSError, ValueError, KeyError) as e:
        raise InputError(f"There is no stored permutation for seed {seed}.", where=str(path)) from e
    if set(stored) != set(payloads) or set(stored.values()) != set(payloads):
        raise InputError(f"The stored permutation of seed {seed} is not one of its records.", where=str(path))
    return {key: payloads[giver] for key, giver in stored.items()}


def draw_permutation(seed: int, of: Sequence[Episode]) -> dict[str, str]:
    """Return the permutation that is stored: record key -> key of the record whose payload it is given."""
    keys = list(_payloads(of))
    givers = keys.copy()
    Random(f"{seed}:permutation").shuffle(givers)
    return dict(zip(keys, givers, strict=True))


def fixed_points(bound: Mapping[str, str], of: Sequence[Episode]) -> tuple[int, int]:
    """Return how many records keep their own payload's text under a permutation, and how many records there are.

    Counted by text: the two members of a pair hold equal payloads, so that being given the other's changes nothing.
    """
    payloads = _payloads(of)
    return sum(bound[key] == own for key, own in payloads.items()), len(payloads)


def _payloads(of: Iterable[Episode]) -> dict[str, str]:
    return {key: payload for episode in of for key, payload in episode.payloads.items()}

"""Texts of the controlled evaluation: pairs for the trigger's three splits, scenes for the fourth, from template banks.

Promise: every choice comes from the `random.Random` passed in; the splits share no subject, no template and no item;
no event holds its payload; conditions have 4 to 20 words, events 5 to 40. What an event must not do is said by its
kind: it may deny, hedge, announce, ask about or take back the very thing the condition waits for.
The banks are generator-matched: the same hand wrote all four splits, and cue words separate most of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from core.config import DATA
from core.errors import InputError, quoted

FOLDER = DATA / "controlled"
SPLITS = ("train", "validation", "test", "evaluation")
SEED = 2026
NEAR_KINDS = ("negated", "hedged", "future", "asked", "contradicted")
"""How a near-trigger negative speaks of the thing the condition waits for without its having happened."""
MIX: dict[str, dict[str, int]] = {
    "train": {"exact": 180, "paraphrase": 180, **dict.fromkeys(NEAR_KINDS, 46), "other_fact": 70, "distractor": 60},
    "validation": {"exact": 54, "paraphrase": 54, **dict.fromkeys(NEAR_KINDS, 14), "other_fact": 20, "distractor": 18},
    "test": {"exact": 90, "paraphrase": 90, **dict.fromkeys(NEAR_KINDS, 23), "other_fact": 35, "distractor": 30},
}
"""Pairs of each kind: 720, 216 and 360, half of them positive (paper section 3.4)."""
EVENT_WORDS = 40


@dataclass(frozen=True)
class Scene:
    """The texts of one controlled episode: one condition, the events around it, and its correction."""

    subject: str
    """Whom or what site it concerns."""
    template_set: str
    """The kind of happening."""
    condition: str
    """What must have happened."""
    payload: str
    """What is then to be done."""
    exact_event: str
    """It happened, in the condition's own words."""
    paraphrased_event: str
    """It happened, in other words."""
    near_kind: str
    """How the two near events fall short: one of NEAR_KINDS."""
    near_exact_event: str
    """Close to the exact event, and it has not happened."""
    near_paraphrased_event: str
    """Close to the paraphrased event, and it has not happened."""
    amended_condition: str
    """The corrected condition: the same kind of happening, another subject or another thing."""
    amended_exact_event: str
    """Satisfies the corrected condition and not the first one."""
    amended_paraphrased_event: str
    """The same in other words."""


@dataclass(frozen=True)
class Bank:
    """The subjects, templates and frames of one split."""

    split: str
    """Its name."""
    subjects: tuple[str, ...]
    """Companies and sites; each belongs to one split."""
    template_sets: tuple[Mapping[str, Any], ...]
    """Kinds of happening: things, and clauses that say it happened, is to come, or did not."""
    frames: Mapping[str, Any]
    """Sentences that clauses are put into, and neutral sentences beside them."""

    def scene(self, rng: Random) -> Scene:
        """Draw one scene."""
        chosen = rng.choice(self.template_sets)
        subject, item = rng.choice(self.subjects), rng.choice(chosen["items"])
        other_subject, other_item = self._other_fact(chosen, subject, item, rng)
        words, near = rng.randrange(len(chosen["paraphrases"])), rng.choice(NEAR_KINDS)
        paraphrase = chosen["paraphrases"][words]
        opening, payload = rng.choice(self.frames["conditions"]), rng.choice(chosen["payloads"])
        return Scene(
            subject=subject,
            template_set=chosen["name"],
            condition=_condition(opening, chosen, subject, item),
            payload=_sentence(payload, subject, item),
            exact_event=self._event("happened", chosen["exact"], subject, item, rng),
            paraphrased_event=self._event("happened", paraphrase, subject, item, rng),
            near_kind=near,
            near_exact_event=self._event(near, chosen["exact"], subject, item, rng),
            near_paraphrased_event=self._event(near, paraphrase, subject, item, rng),
            amended_condition=_condition(opening, chosen, other_subject, other_item),
            amended_exact_event=self._event("happened", chosen["exact"], other_subject, other_item, rng),
            amended_paraphrased_event=self._event("happened", paraphrase, other_subject, other_item, rng),
        )

    def distractor(self, rng: Random) -> str:
        """Draw an event that has nothing to do with any condition."""
        frame = rng.choice(self.frames["distractors"])
        parts = {"name": rng.choice(self.frames["names"]), "thing": rng.choice(self.frames["things"])}
        return self._with_context(str(frame).format(day=rng.choice(self.frames["days"]), **parts), rng)

    def pair(self, kind: str, rng: Random) -> dict[str, Any]:
        """Draw one labelled pair of a kind; the label is 1 where the event satisfies the condition."""
        scene = self.scene(rng)
        if kind == "exact":
            event = scene.exact_event
        elif kind == "paraphrase":
            event = scene.paraphrased_event
        elif kind == "distractor":
            event = self.distractor(rng)
        elif kind == "other_fact":
            event = rng.choice((scene.amended_exact_event, scene.amended_paraphrased_event))
        else:
            while scene.near_kind != kind:
                scene = self.scene(rng)
            event = rng.choice((scene.near_exact_event, scene.near_paraphrased_event))
        return {
            "split": self.split,
            "subject": scene.subject,
            "template_set": scene.template_set,
            "kind": kind,
            "condition": scene.condition,
            "payload": scene.payload,
            "event": event,
            "label": int(kind in ("exact", "paraphrase")),
        }

    def _other_fact(self, chosen: Mapping[str, Any], subject: str, item: str, rng: Random) -> tuple[str, str]:
        """Change one decisive fact: the subject or the thing."""
        if rng.random() < 0.5:
            return rng.choice([s for s in self.subjects if s != subject]), item
        return subject, rng.choice([i for i in chosen["items"] if i != item])

    def _event(self, kind: str, clauses: Mapping[str, str], subject: str, item: str, rng: Random) -> str:
        frames = {"happened": "plain"}.get(kind, kind)
        if kind == "happened" and rng.random() < 0.4:
            frames = "confirmed"
        clause = {"future": "future", "negated": "opposite"}.get(kind, "happened")
        text = clauses[clause].format(subject=subject, item=item)
        name = {"future": "future", "negated": "opposite"}.get(kind, "clause")
        frame = rng.choice(self.frames[frames])
        return self._with_context(frame.format(**{name: text, name.capitalize(): _capital(text)}), rng)

    def _with_context(self, text: str, rng: Random) -> str:
        """Put up to two neutral sentences around a text, while it stays within EVENT_WORDS."""
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            extra = rng.choice(self.frames["context"])
            longer = f"{extra} {text}" if rng.random() < 0.5 else f"{text} {extra}"
            if extra not in text and len(longer.split()) <= EVENT_WORDS:
                text = longer
        return text


def bank(split: str, path: Path = FOLDER / "templates.json") -> Bank:
    """Return the template bank of a split.

    Raises
    ------
    InputError : there is no such split, or the templates cannot be read.
    """
    if split not in SPLITS:
        raise InputError(f"There is no split {quoted(split)}: choose one of {', '.join(SPLITS)}.")
    part = _templates(path)[split]
    return Bank(split, tuple(part["subjects"]), tuple(part["template_sets"]), part["frames"])


def generate(split: str) -> list[dict[str, Any]]:
    """Return the labelled pairs of train, validation or test, in their order; the same on every machine.

    Raises
    ------
    InputError : the split has no pairs (evaluation episodes are drawn from its bank).
    """
    if split not in MIX:
        raise InputError(f"The split {quoted(split)} has no pairs: choose one of {', '.join(MIX)}.")
    source, rng = bank(split), Random(f"{SEED}:{split}")
    kinds = [kind for kind, count in MIX[split].items() for _ in range(count)]
    rng.shuffle(kinds)
    rows, seen = [], set()
    for n, kind in enumerate(kinds):
        row = source.pair(kind, rng)
        while (row["condition"], row["event"]) in seen:
            row = source.pair(kind, rng)
        seen.add((row["condition"], row["event"]))
        rows.append({"pair_id": f"{split}-{n:04d}", **row})
    return rows


def pairs_file(split: str) -> Path:
    """Return where a split's pairs lie."""
    return FOLDER / f"{split}.jsonl"


def as_lines(rows: list[dict[str, Any]]) -> str:
    """Return rows as JSON Lines, keys in their order."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_pairs(path: Path) -> list[dict[str, Any]]:
    """Read a file of labelled pairs.

    Raises
    ------
    InputError : the file is missing, or a line is not a pair.
    """
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"The pairs cannot be read: {e}.", where=str(path)) from e
    for n, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = json.loads(line)
            rows.append({**row, "label": int(row["label"]), "condition": str(row["condition"]), "event": row["event"]})
        except (ValueError, KeyError, TypeError) as e:
            raise InputError(f"Line {n} is not a labelled pair: {e}.", where=str(path)) from e
    return rows


@cache
def _templates(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["splits"])
    except (OSError, ValueError, KeyError) as e:
        raise InputError(f"The templates cannot be read: {e}.", where=str(path)) from e


def _condition(opening: str, chosen: Mapping[str, Any], subject: str, item: str) -> str:
    return _capital(opening.format(clause=chosen["condition"].format(subject=subject, item=item)))


def _sentence(frame: str, subject: str, item: str) -> str:
    return _capital(frame.format(subject=subject, item=item)) + "."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

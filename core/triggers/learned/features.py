"""The paper's 16 raw-text statistics of a (condition, event) pair: named, ordered, deterministic, each in [0, 1].

Promise: any text is taken (empty, 1 MB, emoji, right-to-left, control characters) in linear time; a text is encoded
once; one pair or a million give the same floats bit for bit, because everything up to the last division is a count.
Hashes are CRC-32 and BLAKE2, never Python's `hash`, which differs in every process. No torch here.
Absent on purpose: Unicode normalisation (CPython's is quadratic in runs of combining marks) and stemming.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from hashlib import blake2b
from itertools import chain
from operator import mul, or_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FEATURE_NAMES: tuple[str, ...] = (
    "hashed_word_similarity",  # cosine of the two texts' bags of hashed words
    "hashed_char_similarity",  # cosine of their bags of hashed character trigrams, taken inside words
    "token_overlap",  # Jaccard index of the sets of tokens
    "content_overlap",  # Jaccard index of the sets of content words
    "condition_token_coverage",  # share of the condition's distinct tokens that the event holds
    "condition_content_coverage",  # share of the condition's distinct content words that the event holds
    "condition_negation",  # 1 where the condition holds a negation
    "event_negation",  # 1 where the event holds one
    "negation_mismatch",  # 1 where exactly one of the two does
    "event_future",  # 1 where the event speaks of what is to come
    "event_hedging",  # 1 where the event hedges or asks
    "event_confirmation",  # 1 where the event confirms
    "event_contradiction",  # 1 where the event takes something back
    "condition_length",  # tokens of the condition over 32, at most 1
    "event_length",  # tokens of the event over 64, at most 1
    "length_ratio",  # the shorter text's tokens over the longer one's
)

CONDITION_TOKENS = 32
EVENT_TOKENS = 64
BUCKETS = 1 << 16
"""Words and trigrams are hashed into this many buckets each."""
PAIRS_AT_ONCE = 4096
"""Pairs computed in one go: their temporary arrays (a few MB each) stay near the processor."""
CELLS_AT_ONCE = 1 << 22
"""Larger tables (texts of a megabyte) are computed in halves, so that memory stays bounded."""

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|\?")
"""Runs of letters and digits, joined by apostrophes; the question mark counts, since a question asserts nothing."""

NEGATION, FUTURE, HEDGE, CONFIRMATION, CONTRADICTION = 1, 2, 4, 8, 16
_EVENT_CUES = np.array([NEGATION, FUTURE, HEDGE, CONFIRMATION, CONTRADICTION])

_CUES: dict[int, str] = {
    NEGATION: """
        not no never none nobody nothing nowhere neither nor without cannot hardly unable
    """,
    FUTURE: """
        will shall 'll going tomorrow next upcoming forthcoming soon later scheduled planned plan plans planning
        expected expects expect due awaiting await awaits pending intends intend intended future eventually
        tonight coming aims promised promises booked
    """,
    HEDGE: """
        ? may might could would should possibly possible perhaps maybe probably probable likely unlikely
        apparently seems seem seemed seemingly appears appear appeared reportedly allegedly supposedly rumour
        rumours rumoured rumor rumors rumored unconfirmed unclear uncertain unsure whether if suspect suspects
        suspected guess guesses think thinks believe believes hope hopes hoped wonder wonders wondering chance
        hearsay presumably unverified doubt doubts doubtful assume assumes assumed imagine impression gossip
        speculation tentative tentatively
    """,
    CONFIRMATION: """
        confirmed confirms confirm confirming confirmation verified verifies verify verification checked
        officially official indeed definitely acknowledged acknowledges witnessed documented recorded logged
        certain certainly proof proven undisputed
    """,
    CONTRADICTION: """
        wrong wrongly mistake mistaken mistakenly false falsely incorrect incorrectly retracted retract retracts
        retraction withdrawn withdrew untrue error errors erroneous erroneously contrary contradicts
        contradicted contradict denied denies deny denial disproved disproves reversed revoked instead actually
        corrected correction disregard ignore overturned rescinded inaccurate hoax invalid debunked undone bogus
        void
    """,
}
_CUE_OF = {word: mask for mask, words in _CUES.items() for word in words.split()}

_CUE_PAIRS: dict[tuple[str, str], int] = {
    ("called", "off"): CONTRADICTION,
    ("turned", "out"): CONTRADICTION,
    ("fell", "through"): CONTRADICTION,
    ("signed", "off"): CONFIRMATION,
    ("no", "doubt"): CONFIRMATION,
    ("has", "yet"): NEGATION,
    ("have", "yet"): NEGATION,
    ("about", "to"): FUTURE,
}
"""Two tokens in a row that are a cue only together."""
_PAIR_STARTS = frozenset(first for first, _ in _CUE_PAIRS)

_STOP_WORDS = """
    a an the this that these those there here it its it's he she they them his her their we us our you your i me
    my and or but so as than then when once while because since until till after before at by for from in into
    of off on onto out over to up with within about through under between during again also just only very too
    both each any all some such same other another is are was were be been being am has have had having do does
    did done doing get gets got who whom whose which what where why how first now today yet already still moment
    soon one everything someone anyone somebody anybody time day back down upon per via
"""
_STOP = frozenset(_STOP_WORDS.split())


_WORD, _GRAM, _DISTINCT, _CONTENT = range(4)
"""The four bags of a text; the last two bits of an id say which bag it belongs to."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """What the features need of one text, counted once."""

    ids: Ints
    """(k,) ids of the four bags, end to end: hashed words and hashed trigrams, both with repeats, then distinct tokens
    and distinct content words."""
    content: Ints
    """The last part of `ids`: content words are tokens that are neither function words nor cues."""
    sizes: tuple[int, int]
    """Distinct tokens, distinct content words."""
    norms: tuple[int, int]
    """Squared lengths of the bags of words and trigrams."""
    length: int
    """Tokens, repeats counted."""
    cues: int
    """Which families of cues occur: a sum of NEGATION, FUTURE, HEDGE, CONFIRMATION, CONTRADICTION."""


class _Token(NamedTuple):
    word: int
    grams: tuple[int, ...]
    word_id: bytes
    """The word's id again, as int64."""
    gram_ids: bytes
    """The trigrams' ids again, as int64."""
    distinct: bytes
    """The token's id in the set of tokens, as int64."""
    content: bytes
    """Its id in the set of content words; empty where it is none."""
    cue: int


def _look(token: str) -> _Token:
    raw = token.encode("utf-8", "surrogatepass")
    cue = _CUE_OF.get(token, 0)
    shortened = token.endswith(("n't", "'ll"))
    if token.endswith("n't"):
        cue |= NEGATION | _CUE_OF.get({"won't": "will", "shan't": "shall"}.get(token, token[:-3]), 0)
    elif shortened:
        cue |= FUTURE
    padded = f"^{token}$"
    word = zlib.crc32(raw) % BUCKETS << 2 | _WORD
    grams = tuple(
        zlib.crc32(padded[i : i + 3].encode("utf-8", "surrogatepass")) % BUCKETS << 2 | _GRAM
        for i in range(len(padded) - 2)
    )
    identity = int.from_bytes(blake2b(raw, digest_size=7).digest(), "little") << 2
    no_content = cue or shortened or token in _STOP
    return _Token(
        word, grams, _int64(word), _int64(*grams), _int64(identity | _DISTINCT),
        b"" if no_content else _int64(identity | _CONTENT), cue,
    )  # fmt: skip


def _int64(*values: int) -> bytes:
    return array("q", values).tobytes()


_look_often = lru_cache(maxsize=1 << 16)(_look)


def tokenise(text: str) -> list[str]:
    """Return the text's tokens, case folded, in order; empty for a text without letters or digits."""
    return _TOKEN.findall(text.casefold().replace("’", "'"))


def encode(text: str) -> EncodedText:
    """Count what the features need of one text; linear in its length.

    Returns
    -------
    An `EncodedText` that depends on the text alone, in any process.
    """
    tokens = tokenise(text)
    # Long tokens are not kept: a hostile text must not fill the memory.
    seen = [_look_often(t) if len(t) <= 64 else _look(t) for t in tokens]
    word, gram, word_ids, gram_ids, _, _, cue = zip(*seen, strict=True) if seen else ((),) * 7
    cues = reduce(or_, set(cue), 0)
    if not _PAIR_STARTS.isdisjoint(tokens):
        cues = reduce(or_, (_CUE_PAIRS.get(pair, 0) for pair in zip(tokens, tokens[1:], strict=False)), cues)
    once = dict(zip(tokens, seen, strict=True)).values()
    distinct, content = [t.distinct for t in once], b"".join([t.content for t in once])
    ids = np.frombuffer(b"".join((*word_ids, *gram_ids, *distinct, content)), np.int64)
    words, grams = Counter(word).values(), Counter(chain.from_iterable(gram)).values()
    in_content = len(content) // ids.itemsize
    return EncodedText(
        ids=ids,
        content=ids[len(ids) - in_content :],
        sizes=(len(distinct), in_content),
        norms=(sum(map(mul, words, words)), sum(map(mul, grams, grams))),
        length=len(tokens),
        cues=cues,
    )


def features(condition: EncodedText, event: EncodedText) -> Floats:
    """Return the (16,) features of one pair, in the order of `FEATURE_NAMES`.

    Source: paper section 3.4.
    """
    first = np.zeros(1, np.int64)
    return np.asarray(pair_features([condition], [event], first, first)[0])


def pair_features(conditions: Sequence[EncodedText], events: Sequence[EncodedText], ci: Ints, ei: Ints) -> Floats:
    """Return the features of the pairs (conditions[ci[k]], events[ei[k]]); the one code behind every other door.

    Parameters
    ----------
    conditions, events : encoded texts; a few dozen conditions at a time keep the table small.
    ci, ei : (n,) positions in the two lists.

    Returns
    -------
    (n, 16) float64, each in [0, 1].
    """
    c, e = _counts(conditions)[ci], _counts(events)[ei]  # (n, 6) each
    shared = _shared(conditions, events, ci, ei)  # (n, 4)
    n = len(ci)
    part, whole = np.empty((n, 7)), np.empty((n, 7))
    part[:, :4], whole[:, :2] = shared, np.sqrt(c[:, :2].astype(np.float64) * e[:, :2])  # the cosines
    whole[:, 2:4] = c[:, 2:4] + e[:, 2:4] - shared[:, 2:]  # the Jaccard indices
    part[:, 4:6], whole[:, 4:6] = shared[:, 2:], c[:, 2:4]  # the coverages
    part[:, 6], whole[:, 6] = np.minimum(c[:, 4], e[:, 4]), np.maximum(c[:, 4], e[:, 4])
    ratio = np.divide(part, whole, out=np.zeros((n, 7)), where=whole != 0)

    out = np.empty((n, len(FEATURE_NAMES)))  # (n, 16)
    out[:, :6] = np.minimum(ratio[:, :6], 1.0)
    out[:, 6] = (c[:, 5] & NEGATION) != 0
    out[:, [7, 9, 10, 11, 12]] = (e[:, 5:] & _EVENT_CUES) != 0
    out[:, 8] = out[:, 6] != out[:, 7]
    out[:, 13] = np.minimum(c[:, 4] / CONDITION_TOKENS, 1.0)
    out[:, 14] = np.minimum(e[:, 4] / EVENT_TOKENS, 1.0)
    out[:, 15] = ratio[:, 6]
    return out


def _counts(texts: Sequence[EncodedText]) -> Ints:
    """(n, 6): squared lengths of the bags of words and trigrams, distinct tokens, content words, tokens, cues."""
    rows = [(*t.norms, *t.sizes, t.length, t.cues) for t in texts]
    return np.array(rows, np.int64).reshape(len(texts), 6)


def _shared(conditions: Sequence[EncodedText], events: Sequence[EncodedText], ci: Ints, ei: Ints) -> Ints:
    """(n, 4): for every pair and bag, the sum over shared ids of count in one text x count in the other, exactly."""
    c_sizes, e_sizes = [len(t.ids) for t in conditions], [len(t.ids) for t in events]
    if len(conditions) > 1 and sum(c_sizes) * len(conditions) > CELLS_AT_ONCE:
        half = len(conditions) // 2
        low, out = ci < half, np.empty((len(ci), 4), np.int64)
        out[low] = _shared(conditions[:half], events, ci[low], ei[low])
        out[~low] = _shared(conditions[half:], events, ci[~low] - half, ei[~low])
        return out
    if len(ci) > 1 and int(np.array(e_sizes)[ei].sum()) > CELLS_AT_ONCE:
        half = len(ci) // 2
        parts = [_shared(conditions, events, ci[k], ei[k]) for k in (slice(half), slice(half, None))]
        return np.concatenate(parts)
    c_ids, e_ids = _join([t.ids for t in conditions]), _join([t.ids for t in events])
    vocabulary, c_column = np.unique(c_ids, return_inverse=True)
    if not len(vocabulary) or not len(e_ids):
        return np.zeros((len(ci), 4), np.int64)
    cell = np.repeat(np.arange(len(conditions)), c_sizes) * len(vocabulary) + c_column
    table = np.bincount(cell, minlength=len(conditions) * len(vocabulary))  # (conditions x vocabulary,) counts
    # Ids of events that no condition has are dropped here, once, and cost nothing per pair.
    e_column = np.minimum(np.searchsorted(vocabulary, e_ids), len(vocabulary) - 1)
    known = vocabulary[e_column] == e_ids
    bag = np.repeat(np.arange(len(events)), e_sizes) * 4 + (e_ids & 3)  # each event's four bags, one after the other
    held = np.bincount(bag[known], minlength=4 * len(events))  # (4 events,) known ids of each bag
    begin = (np.cumsum(held) - held).reshape(-1, 4)
    e_column = e_column[known]

    length = held.reshape(-1, 4)[ei].ravel()  # (4n,)
    end = np.cumsum(length)
    total = int(end[-1]) if len(end) else 0
    entry = np.arange(total) + np.repeat(begin[ei].ravel() - (end - length), length)  # (total,) position in e_column
    value = table[np.repeat(ci * len(vocabulary), length.reshape(-1, 4).sum(axis=1)) + e_column[entry]]
    running = np.concatenate(([0], np.cumsum(value)))
    return np.asarray(running[end] - running[end - length], np.int64).reshape(-1, 4)


def _join(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)

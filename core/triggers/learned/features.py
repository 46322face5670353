"""The paper's 16 raw-text statistics of a (condition, event) pair: named, ordered, deterministic, each in [0, 1].

Promise: any text is taken (empty, 1 MB, emoji, right-to-left, control characters) in linear time; a text is encoded
once; one pair or a million give the same floats bit for bit, because everything up to the last division is a count.
Hashes are CRC-32 and BLAKE2, never Python's `hash`, which differs in every process. No torch here.
Absent on purpose: Unicode normalisation (CPython's is quadratic in runs of combining marks) and stemming.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
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

WORD_BUCKETS = 1 << 16
GRAM_BUCKETS = 1 << 16
CONDITION_TOKENS = 32
EVENT_TOKENS = 64
PAIRS_AT_ONCE = 4096
"""Pairs computed in one go: their temporary arrays (about 2 MB each) stay in the processor's cache."""

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|\?")
"""Runs of letters and digits, joined by apostrophes; the question mark counts, since a question asserts nothing."""

NEGATION, FUTURE, HEDGE, CONFIRMATION, CONTRADICTION = 1, 2, 4, 8, 16

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


@dataclass(frozen=True, slots=True, eq=False)
class EncodedText:
    """What the features need of one text, counted once."""

    tokens: Ints
    """(t,) 64-bit hashes of the distinct tokens."""
    content: Ints
    """(t,) 1 where the token is a content word: neither a function word nor a cue."""
    words: Ints
    """(w,) distinct hash buckets of words."""
    word_counts: Ints
    """(w,) how often each occurs."""
    grams: Ints
    """(g,) distinct hash buckets of character trigrams."""
    gram_counts: Ints
    """(g,) how often each occurs."""
    length: int
    """Tokens, repeats counted."""
    cues: int
    """Which families of cues occur: a sum of NEGATION, FUTURE, HEDGE, CONFIRMATION, CONTRADICTION."""


@dataclass(frozen=True, slots=True)
class _Token:
    identity: int
    content: int
    bucket: int
    grams: tuple[int, ...]
    cue: int


def _look(token: str) -> _Token:
    raw = token.encode("utf-8", "surrogatepass")
    identity = int.from_bytes(blake2b(raw, digest_size=8).digest(), "little", signed=True)
    cue = _CUE_OF.get(token, 0)
    if token.endswith("n't"):
        cue |= NEGATION | _CUE_OF.get({"won't": "will", "shan't": "shall"}.get(token, token[:-3]), 0)
    elif token.endswith("'ll"):
        cue |= FUTURE
    content = int(not cue and token not in _STOP and not token.endswith(("n't", "'ll")))
    padded = f"^{token}$"
    grams = tuple(
        zlib.crc32(padded[i : i + 3].encode("utf-8", "surrogatepass")) % GRAM_BUCKETS for i in range(len(padded) - 2)
    )
    return _Token(identity, content, zlib.crc32(raw) % WORD_BUCKETS, grams, cue)


_look_often = lru_cache(maxsize=1 << 16)(_look)


def tokenise(text: str) -> list[str]:
    """Return the text's tokens, case folded, in order; empty for a text without letters or digits."""
    return [t.replace("’", "'") for t in _TOKEN.findall(text.casefold())]


def encode(text: str) -> EncodedText:
    """Count what the features need of one text; linear in its length.

    Returns
    -------
    An `EncodedText` that depends on the text alone, in any process.
    """
    tokens = tokenise(text)
    cues = 0
    words: Counter[int] = Counter()
    grams: Counter[int] = Counter()
    distinct: list[_Token] = []
    for token, count in Counter(tokens).items():
        # Long tokens are not kept: a hostile text must not fill the memory.
        seen = _look_often(token) if len(token) <= 64 else _look(token)
        distinct.append(seen)
        cues |= seen.cue
        words[seen.bucket] += count
        for gram in seen.grams:
            grams[gram] += count
    if not _PAIR_STARTS.isdisjoint(tokens):
        for pair in zip(tokens, tokens[1:], strict=False):
            cues |= _CUE_PAIRS.get(pair, 0)
    return EncodedText(
        tokens=_ints([t.identity for t in distinct]),
        content=_ints([t.content for t in distinct]),
        words=_ints(list(words)),
        word_counts=_ints(list(words.values())),
        grams=_ints(list(grams)),
        gram_counts=_ints(list(grams.values())),
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
    conditions, events : encoded texts; a few dozen conditions at a time keep the tables small.
    ci, ei : (n,) positions in the two lists.

    Returns
    -------
    (n, 16) float64, each in [0, 1].
    """
    word, gram, token, content = (
        _dots(c, e, ci, ei) for c, e in zip(_all_bags(conditions), _all_bags(events), strict=True)
    )
    c, e = _counts(conditions)[ci], _counts(events)[ei]  # (n, 6) each

    out = np.empty((len(ci), len(FEATURE_NAMES)))  # (n, 16)
    out[:, 0] = _cosine(word, c[:, 0], e[:, 0])
    out[:, 1] = _cosine(gram, c[:, 1], e[:, 1])
    out[:, 2] = _share(token, c[:, 2] + e[:, 2] - token)
    out[:, 3] = _share(content, c[:, 3] + e[:, 3] - content)
    out[:, 4] = _share(token, c[:, 2])
    out[:, 5] = _share(content, c[:, 3])
    c_cues, e_cues = c[:, 5], e[:, 5]
    out[:, 6] = (c_cues & NEGATION) != 0
    out[:, 7] = (e_cues & NEGATION) != 0
    out[:, 8] = ((c_cues ^ e_cues) & NEGATION) != 0
    for column, cue in enumerate((FUTURE, HEDGE, CONFIRMATION, CONTRADICTION), start=9):
        out[:, column] = (e_cues & cue) != 0
    out[:, 13] = np.minimum(c[:, 4], CONDITION_TOKENS) / CONDITION_TOKENS
    out[:, 14] = np.minimum(e[:, 4], EVENT_TOKENS) / EVENT_TOKENS
    out[:, 15] = _share(np.minimum(c[:, 4], e[:, 4]), np.maximum(c[:, 4], e[:, 4]))
    return out


def _counts(texts: Sequence[EncodedText]) -> Ints:
    """(n, 6): squared lengths of the word and trigram bags, distinct tokens, distinct content words, tokens, cues."""
    rows = [
        (
            int(t.word_counts @ t.word_counts),
            int(t.gram_counts @ t.gram_counts),
            len(t.tokens),
            int(t.content.sum()),
            t.length,
            t.cues,
        )
        for t in texts
    ]
    return np.array(rows, np.int64).reshape(len(texts), 6)


class _Bags(NamedTuple):
    """One bag of ids of several texts, laid end to end."""

    ids: Ints
    counts: Ints
    rows: Ints
    texts: int


def _bags(ids: Sequence[Ints], counts: Sequence[Ints]) -> _Bags:
    rows = np.repeat(np.arange(len(ids)), [len(x) for x in ids])
    return _Bags(_join(ids), _join(counts), rows, len(ids))


def _all_bags(texts: Sequence[EncodedText]) -> tuple[_Bags, _Bags, _Bags, _Bags]:
    """Words, trigrams, distinct tokens, distinct content words; the last two count as the sets they are."""
    ones = [np.ones(len(t.tokens), np.int64) for t in texts]
    content = [t.tokens[t.content == 1] for t in texts]
    return (
        _bags([t.words for t in texts], [t.word_counts for t in texts]),
        _bags([t.grams for t in texts], [t.gram_counts for t in texts]),
        _bags([t.tokens for t in texts], ones),
        _bags(content, [one[: len(ids)] for one, ids in zip(ones, content, strict=True)]),
    )


def _dots(c: _Bags, e: _Bags, ci: Ints, ei: Ints) -> Ints:
    """Return sum over shared ids of count in the condition x count in the event, for every pair, as exact integers."""
    vocabulary, c_column = np.unique(c.ids, return_inverse=True)
    if not len(vocabulary) or not len(e.ids):
        return np.zeros(len(ci), np.int64)
    table = np.zeros((c.texts, len(vocabulary)), np.int64)  # (conditions, vocabulary)
    table[c.rows, c_column] = c.counts
    # Ids of events that no condition has are dropped here, once, and cost nothing per pair.
    e_column = np.minimum(np.searchsorted(vocabulary, e.ids), len(vocabulary) - 1)
    known = vocabulary[e_column] == e.ids
    e_column, e_count = e_column[known], e.counts[known]
    held = np.bincount(e.rows[known], minlength=e.texts)  # (events,) known ids of each
    begin = np.cumsum(held) - held

    length = held[ei]  # (n,)
    end = np.cumsum(length)
    total = int(end[-1]) if len(end) else 0
    entry = np.arange(total) + np.repeat(begin[ei] - (end - length), length)  # (total,) position in e_column
    value = table[np.repeat(ci, length), e_column[entry]] * e_count[entry]
    running = np.concatenate(([0], np.cumsum(value)))
    return np.asarray(running[end] - running[end - length], np.int64)


def _join(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def _share(part: Ints, whole: Ints) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole != 0)


def _cosine(dot: Ints, left: Ints, right: Ints) -> Floats:
    norm = np.sqrt(left.astype(np.float64) * right.astype(np.float64))
    return np.minimum(np.divide(dot, norm, out=np.zeros(len(dot)), where=norm != 0), 1.0)

"""C1's lexical similarity: how much an event's wording shares with a payload's. The condition is no input.

The threshold of arm C1 was set on the 216 validation pairs and stands in the trigger's lock.
"""

from __future__ import annotations

import math

from core.triggers.learned.features import EncodedText, encode
from core.triggers.lock import load_lock


def payload_similarity(event: str, payload: str) -> float:
    """Return the cosine of the two texts' content-word sets, in [0, 1]; 0 where either has none.

    Source: paper section 3.5, "retrieves reactively by lexical similarity".
    """
    return encoded_similarity(encode(event), encode(payload))


def encoded_similarity(event: EncodedText, payload: EncodedText) -> float:
    """Return `payload_similarity` of two texts that are encoded already."""
    mine, theirs = set(event.content.tolist()), set(payload.content.tolist())
    if not mine or not theirs:
        return 0.0
    return min(1.0, len(mine & theirs) / math.sqrt(len(mine) * len(theirs)))


def c1_threshold() -> float:
    """Return arm C1's locked threshold.

    Raises
    ------
    ModelError : the trigger's lock is missing or was changed.
    """
    return float(load_lock()["c1_threshold"])

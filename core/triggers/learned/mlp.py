"""The paper's trigger: 16 features into an MLP 16-64-32-1 with GELU, in fixed point, so that every sum is exact.

Promise: one pair or a million, any batch, any processor, the same score bit for bit. A floating-point matrix product
changes its last bits with the batch size and the machine; here inputs, weights and activations are whole numbers of
small steps whose products and sums fit the 53 bits of a float64, so the order of summation cannot matter.
`load` proves for the weights at hand that they fit. Rounding moves a score by less than 0.001.
Weights come from safetensors only and must match their lock. torch is not needed here: it trains, this judges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from core.errors import MissingPackage, ModelError
from core.hashing import sha256_hex
from core.triggers.base import Judgement, Scores
from core.triggers.constant import check_aligned
from core.triggers.learned.features import PAIRS_AT_ONCE, EncodedText, Floats, Ints, encode, pair_features
from core.triggers.lock import MLP_FOLDER, RETRAIN, check_lock, load_lock

SHAPES = {
    "0.weight": (64, 16), "0.bias": (64,),
    "1.weight": (32, 64), "1.bias": (32,),
    "2.weight": (1, 32), "2.bias": (1,),
}  # fmt: skip
INPUT_STEP = 2.0**-12
WEIGHT_STEP = 2.0**-18
ACTIVATION_STEP = 2.0**-14
GELU_TAIL = 8.0
"""Beyond it GELU differs from max(x, 0) by less than 1e-14."""
SCORE_DECIMALS = 9
"""Scores are rounded here: exp may differ in its last bit between processors."""
PAIRS_A_BLOCK = 64
"""Aligned pairs whose features are computed in one go."""
TEXTS_A_BLOCK = 256
"""Texts of a grid's longer side that are encoded in one go."""
TEXTS_KEPT = 8192
"""Encoded texts kept for reuse among aligned pairs."""
ROWS_AT_ONCE = 128
"""128 x 64 x 32 multiplications stay below the size at which OpenBLAS starts threads, which a busy machine punishes."""


@dataclass(frozen=True, eq=False)
class MlpTrigger:
    """The trained trigger with its locked threshold."""

    threshold: float
    """Chosen on the validation split; fired iff score >= threshold."""
    weights_sha256: str
    """SHA-256 of weights.safetensors."""
    layers: tuple[tuple[Floats, Floats], ...]
    """Weight (in, out) and bias (out,) of the three layers, as whole numbers of their steps."""
    feature_means: tuple[float, ...]
    """Mean of each feature over the training pairs."""
    name: str = "mlp"
    """Its name."""
    device: str = "cpu"
    """Always the processor: the scores are the same on every machine."""

    def judge(self, condition: str, event: str) -> Judgement:
        """Judge one pair."""
        start = perf_counter()
        first = np.zeros(1, np.int64)
        x = pair_features([encode(condition)], [encode(event)], first, first)
        score = float(self.score_features(x)[0])
        return Judgement(score, score >= self.threshold, tuple(x[0].tolist()), (perf_counter() - start) * 1e6)

    def score_pairs(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        """Score aligned pairs; returns (n,).

        Raises
        ------
        InputError : the two lists differ in length.
        """
        check_aligned(conditions, events)
        scores = np.empty(len(events))
        encoded: dict[str, EncodedText] = {}
        for start in range(0, len(events), PAIRS_A_BLOCK):
            if len(encoded) > TEXTS_KEPT:
                encoded.clear()
            rows, ci = _distinct(conditions[start : start + PAIRS_A_BLOCK], encoded)
            columns, ei = _distinct(events[start : start + PAIRS_A_BLOCK], encoded)
            scores[start : start + len(ci)] = self.score_features(pair_features(rows, columns, ci, ei))
        return scores

    def score_grid(self, conditions: Sequence[str], events: Sequence[str]) -> Scores:
        """Score every condition against every event, each text encoded once; returns (conditions, events).

        The shorter list is kept encoded, the longer one passes by.
        """
        scores = np.empty((len(conditions), len(events)))
        turned = len(conditions) > len(events)
        kept, passing = (events, conditions) if turned else (conditions, events)
        into = scores.T if turned else scores
        encoded = [encode(t) for t in kept]
        for p0 in range(0, len(passing), TEXTS_A_BLOCK):
            some = [encode(t) for t in passing[p0 : p0 + TEXTS_A_BLOCK]]
            step = max(1, PAIRS_AT_ONCE // len(some))
            for k0 in range(0, len(encoded), step):
                rows = encoded[k0 : k0 + step]
                ki, pi = np.repeat(np.arange(len(rows)), len(some)), np.tile(np.arange(len(some)), len(rows))
                x = pair_features(some, rows, pi, ki) if turned else pair_features(rows, some, ki, pi)
                into[k0 : k0 + step, p0 : p0 + len(some)] = self.score_features(x).reshape(len(rows), len(some))
        return scores

    def score_features(self, x: Floats) -> Scores:
        """Score rows of features; (n, 16) -> (n,)."""
        return np.round(1.0 / (1.0 + np.exp(-np.clip(self.log_odds(x), -40.0, 40.0))), SCORE_DECIMALS)

    def log_odds(self, x: Floats) -> Scores:
        """Return the scores of rows of features before the sigmoid; (n, 16) -> (n,)."""
        logits = np.empty(len(x))
        for i in range(0, len(x), ROWS_AT_ONCE):
            logits[i : i + ROWS_AT_ONCE] = self._logits(x[i : i + ROWS_AT_ONCE])
        return logits

    def _logits(self, x: Floats) -> Floats:
        (w1, b1), (w2, b2), (w3, b3) = self.layers
        h = np.rint(x / INPUT_STEP)  # (n, 16)
        h = _gelu((h @ w1 + b1) * (INPUT_STEP * WEIGHT_STEP / ACTIVATION_STEP))  # -> (n, 64)
        h = _gelu((h @ w2 + b2) * WEIGHT_STEP)  # -> (n, 32)
        return np.asarray((h @ w3 + b3)[:, 0] * (ACTIVATION_STEP * WEIGHT_STEP))  # -> (n,)


def load(folder: Path = MLP_FOLDER) -> MlpTrigger:
    """Load the trained trigger and check it against its lock.

    Raises
    ------
    ModelError : weights or lock are missing or damaged, or do not match each other or the scoring code.
    MissingPackage : safetensors is not installed.
    """
    lock = load_lock(folder)
    path = folder / "weights.safetensors"
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise ModelError("The trigger's weights cannot be read.", where=str(path), next_step=RETRAIN) from e
    check_lock(lock, raw, folder)
    return MlpTrigger(
        threshold=float(lock["threshold"]),
        weights_sha256=sha256_hex(raw),
        layers=fixed_point(_tensors(raw, path)),
        feature_means=tuple(float(m) for m in lock["feature_means"]),
    )


def fixed_point(tensors: Mapping[str, Any]) -> tuple[tuple[Floats, Floats], ...]:
    """Return the three layers as whole numbers of steps, after proving that every sum they can give is exact.

    Raises
    ------
    ModelError : wrong tensors, weights off the grid of `WEIGHT_STEP`, or sums that could pass 2^53.
    """
    if {k: tuple(np.shape(t)) for k, t in tensors.items()} != SHAPES:
        raise ModelError("The trigger's weights are not those of an MLP 16-64-32-1.", next_step=RETRAIN)
    layers = []
    largest = np.full(16, 1.0 / INPUT_STEP)  # the largest input of the layer, in its steps
    for n, step in enumerate((INPUT_STEP, ACTIVATION_STEP, ACTIVATION_STEP)):
        weight = np.ascontiguousarray(np.asarray(tensors[f"{n}.weight"], np.float64).T) / WEIGHT_STEP  # (in, out)
        bias = np.asarray(tensors[f"{n}.bias"], np.float64) / (WEIGHT_STEP * step)  # (out,)
        reach = largest @ np.abs(weight) + np.abs(bias)  # (out,) no partial sum can be larger
        on_grid = np.array_equal(weight, np.rint(weight)) and np.array_equal(bias, np.rint(bias))
        if not on_grid or not np.all(reach < 2.0**53):
            raise ModelError("The trigger's weights cannot be summed exactly.", where=f"layer {n}", next_step=RETRAIN)
        layers.append((weight, bias))
        largest = np.ceil(reach * (WEIGHT_STEP * step / ACTIVATION_STEP)) + 1
    return tuple(layers)


@cache
def _gelu_tail() -> Floats:
    """|x| Phi(-|x|) in steps, for |x| from 0 to GELU_TAIL: what GELU takes off max(x, 0)."""
    scale = ACTIVATION_STEP / math.sqrt(2)
    steps = range(int(GELU_TAIL / ACTIVATION_STEP) + 1)
    return np.array([round(k * 0.5 * math.erfc(k * scale)) for k in steps], np.float64)


def _gelu(x: Floats) -> Floats:
    tail = _gelu_tail()
    whole = np.rint(x)
    return np.asarray(np.maximum(whole, 0.0) - tail[np.minimum(np.abs(whole), len(tail) - 1).astype(np.int64)])


def _distinct(texts: Sequence[str], encoded: dict[str, EncodedText]) -> tuple[list[EncodedText], Ints]:
    """Return the distinct texts encoded, and each text's position among them."""
    position: dict[str, int] = {}
    index = np.array([position.setdefault(t, len(position)) for t in texts], np.int64)
    for text in position:
        if text not in encoded:
            encoded[text] = encode(text)
    return [encoded[t] for t in position], index


def _tensors(raw: bytes, path: Path) -> Mapping[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load as parse
    except ImportError as e:
        raise MissingPackage("safetensors is not installed.", next_step="Run `pip install -r requirements.txt`.") from e
    try:
        return parse(raw)
    except (SafetensorError, ValueError, KeyError) as e:
        raise ModelError(f"The trigger's weights are damaged: {e}.", where=str(path), next_step=RETRAIN) from e

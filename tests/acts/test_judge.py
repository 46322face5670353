"""What a feature does to a score: held against torch, which computes the same network in floating point."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core.acts import judge
from core.triggers.learned.features import FEATURE_NAMES, encode, features
from core.triggers.lock import MLP_FOLDER

PAIRS = [
    ("When the vendor's signed contract has arrived", "The signed contract of the vendor has arrived this morning."),
    ("On the day Rowan Veterinary books the marquee", "Rowan Veterinary might book the marquee next week."),
    ("", ""),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_an_effect_is_the_change_when_that_feature_alone_is_at_its_training_mean(pair: tuple[str, str]) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    tensors = load_file(MLP_FOLDER / "weights.safetensors")

    def log_odds(x: np.ndarray) -> float:
        h = torch.from_numpy(x).float()
        for n in range(3):
            h = torch.nn.functional.linear(h, tensors[f"{n}.weight"], tensors[f"{n}.bias"])
            h = torch.nn.functional.gelu(h) if n < 2 else h
        return float(h[0])

    own = features(encode(pair[0]), encode(pair[1]))
    means = json.loads((MLP_FOLDER / "lock.json").read_text())["feature_means"]
    found = judge.feature_effects(tuple(own))
    assert list(found["feature"]) == list(FEATURE_NAMES)
    assert found["training mean"].tolist() == means
    for n in range(16):
        other = own.copy()
        other[n] = means[n]
        assert found["effect"][n] == pytest.approx(log_odds(own) - log_odds(other), abs=0.02)

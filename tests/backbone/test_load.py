from __future__ import annotations

from core.backbone.load import CachedBackbone


def test_a_tiny_model_answers_offline(backbone: CachedBackbone) -> None:
    prompt = backbone.prompt("The signed lease arrived.")
    assert backbone.generate(prompt) == backbone.generate(prompt, fresh=True)
    assert backbone.hash_weights() == backbone.weights_sha256
    assert backbone.trainable_parameters == 0

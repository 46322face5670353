"""What the rest of Duebook knows of a frozen language model.

Promise: no weight ever changes, and `hash_weights` proves it. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MAX_NEW_TOKENS = 8
"""Outputs compared byte for byte are short: a longer text only adds places where two machines may differ."""

GENERATION: dict[str, int | bool | str] = {
    "do_sample": False,
    "max_new_tokens": MAX_NEW_TOKENS,
    "batch": 1,
    "attention": "sdpa",
}
"""Every setting that can change an output; part of the baseline cache's key."""


class Backbone(Protocol):
    """A frozen language model (paper section 3.1: its parameters receive no update)."""

    @property
    def name(self) -> str:
        """The model's name, with the package version or the hub revision."""
        ...

    @property
    def device(self) -> str:
        """The torch device it computes on."""
        ...

    @property
    def weights_sha256(self) -> str:
        """The hash all weights had when the model was prepared; checked whenever they are read."""
        ...

    def hash_weights(self) -> str:
        """Return the hash over all weights in memory, computed now."""
        ...

    def prompt(self, event_text: str, memory: Sequence[str] = ()) -> bytes:
        """Return the exact prompt bytes; `memory` only where an arm exposes it."""
        ...

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        """Return at most `MAX_NEW_TOKENS` greedy tokens as text; `fresh` asks the weights, not the cache."""
        ...


@dataclass(frozen=True)
class Identity:
    """What decides the outputs of a prepared model; kept beside it, so that a cached run needs no torch."""

    name: str
    """The model's name, with the package version or the hub revision."""
    source: str
    """Where its weights came from: `gguf sha256:...` or `hub org/name@revision`."""
    weights_sha256: str
    """Hash over all weights (see `frozen.hash_module`)."""
    tokenizer_sha256: str
    """Hash of tokenizer.json."""
    template_sha256: str
    """Hash of the chat template."""
    dtype: str
    """Number format of the weights in memory."""
    parameters: int
    """How many numbers the model holds."""
    context_tokens: int
    """Longest input and output together, in tokens."""
    files: dict[str, str]
    """SHA-256 of every small file the model is rebuilt from."""
    versions: dict[str, str]
    """Packages that prepared it."""


class State(StrEnum):
    """How far the model is from answering."""

    NOT_LOADED = "not loaded"
    """Nothing was asked of the weights yet; cached answers work."""
    CONVERTING = "converting"
    """First use: the packaged weights are rewritten as safetensors (about a minute, once)."""
    LOADING = "loading"
    """Weights are read and their hash is checked."""
    READY = "ready"
    """The weights are in memory and match their hash."""
    FAILED = "failed"
    """It cannot be loaded; the sentence says why."""

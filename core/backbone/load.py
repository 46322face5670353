"""The way in: `load(spec, config)` gives a backbone at once and reads weights only when somebody needs them.

Promise: a run whose every question is cached never loads a weight; the first miss, `fresh=True` or `hash_weights` does.
Safe to share between threads. A failure is one sentence, kept in `failure` for the console.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.backbone import convert, hub, package
from core.backbone.base import Identity, State
from core.backbone.cache import BaselineCache, cache_key
from core.backbone.identity import Prepared
from core.backbone.prompt import Rendered, Renderer
from core.config import DATA, Config
from core.errors import DuebookError, MissingPackage

if TYPE_CHECKING:
    from core.backbone.frozen import FrozenBackbone

PACKAGED = "packaged"
SHIPPED = DATA / "controlled" / "baseline_cache.jsonl"
_GPU_NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")

_log = logging.getLogger(__name__)

Prepare = Callable[[convert.Progress], Prepared]


class CachedBackbone:
    """A frozen backbone that answers from the cache and loads its weights on the first question it cannot answer.

    Parameters
    ----------
    name : what it is called before anything is read.
    prepare : finds (and converts or identifies, on first use) the model's files.
    cache : outputs by question.
    device : `auto`, `cpu`, `cuda` or `mps`.
    """

    def __init__(self, name: str, prepare: Prepare, cache: BaselineCache, device: str = "auto") -> None:
        self.name = name
        self.cache = cache
        self.failure: str | None = None
        self.state = State.NOT_LOADED
        self._prepare = prepare
        self._asked_device = device
        self._prepared: Prepared | None = None
        self._renderer: Renderer | None = None
        self._frozen: FrozenBackbone | None = None
        self._files_lock = threading.RLock()
        self._weights_lock = threading.RLock()

    @property
    def identity(self) -> Identity:
        """What decides the outputs; read from disk without torch, made on first use."""
        return self._files().identity

    @property
    def weights_sha256(self) -> str:
        """The hash all weights had when the model was prepared; checked whenever they are read."""
        return self.identity.weights_sha256

    @property
    def is_loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._frozen is not None

    @property
    def device(self) -> str:
        """The torch device it computes on, or would."""
        if self._frozen is not None:
            return self._frozen.device
        no_gpu = sys.platform == "linux" and not any(Path(node).exists() for node in _GPU_NODES)
        if self._asked_device == "auto" and no_gpu:
            return "cpu"  # known without importing torch
        return str(_frozen_module().pick_device(self._asked_device).type)

    @property
    def trainable_parameters(self) -> int:
        """How many numbers training could change: 0. Loads the weights."""
        return self._loaded().trainable_parameters

    def hash_weights(self) -> str:
        """Return the hash over all weights in memory, computed now. Loads them if need be.

        Raises
        ------
        MissingPackage, ModelError : the weights cannot be had.
        """
        return self._loaded().hash_weights()

    def prompt(self, event_text: str, memory: Sequence[str] = ()) -> bytes:
        """Return the exact prompt bytes; `memory` only where an arm exposes it.

        Raises
        ------
        InputError : a text is not valid Unicode.
        """
        return self.render(event_text, memory).prompt

    def render(self, event_text: str, memory: Sequence[str] = ()) -> Rendered:
        """Return the prompt and what had to be cut from the texts to make it."""
        with self._files_lock:
            if self._renderer is None:
                self._renderer = Renderer(self._files().folder)
        return self._renderer.render(event_text, memory)

    def key(self, prompt: bytes) -> str:
        """Return the baseline cache's key of a prompt."""
        return cache_key(prompt, self.identity)

    def generate(self, prompt: bytes, *, fresh: bool = False) -> str:
        """Return the greedy continuation of at most 8 tokens.

        Parameters
        ----------
        prompt : exact bytes, from `prompt`.
        fresh : ask the weights and leave the cache alone.

        Raises
        ------
        InputError : the prompt is longer than the model's context.
        MissingPackage, ModelError : the weights cannot be had.
        """
        if fresh:
            return self._loaded().generate(prompt)
        key = self.key(prompt)
        if (output := self.cache.get(key)) is None:
            output = self._loaded().generate(prompt)
            self.cache.put(key, output)
        return output

    def prepare(self, progress: convert.Progress = lambda _: None) -> Identity:
        """Make the model's files ready, weights not read; nothing is told where they are ready already.

        Raises
        ------
        MissingPackage, ModelError : the weights cannot be had.
        """
        return self._files(progress).identity

    def warm(self, progress: convert.Progress = lambda _: None) -> State:
        """Load the weights ahead of the first question; fit for a background thread.

        Returns
        -------
        `State.READY`, or `State.FAILED` with the sentence in `failure`.
        """
        try:
            self._loaded(progress)
        except DuebookError:
            progress(State.FAILED)
            _log.warning("backbone not loaded: %s", self.failure)
        return self.state

    def _files(self, progress: convert.Progress = lambda _: None) -> Prepared:
        with self._files_lock:
            if self._prepared is None:
                with self._failure_kept():
                    self._prepared = self._prepare(self._teller(progress))
                    self.state = State.NOT_LOADED
            return self._prepared

    def _loaded(self, progress: convert.Progress = lambda _: None) -> FrozenBackbone:
        with self._weights_lock:
            if self._frozen is None:
                prepared = self._files(progress)
                self._teller(progress)(State.LOADING)
                with self._failure_kept():
                    self._frozen = _frozen_module().FrozenBackbone(prepared, self._asked_device)
                self.failure = None
                self._teller(progress)(State.READY)
            return self._frozen

    def _teller(self, progress: convert.Progress) -> convert.Progress:
        def tell(state: State) -> None:
            self.state = state
            progress(state)

        return tell

    @contextmanager
    def _failure_kept(self) -> Iterator[None]:
        try:
            yield
        except DuebookError as e:
            self.failure = str(e)
            self.state = State.FAILED
            raise


def load(spec: str, config: Config, *, shipped: Path | None = SHIPPED) -> CachedBackbone:
    """Return a backbone that loads when needed; nothing slow happens here.

    Parameters
    ----------
    spec : `packaged` or `org/name@<40 hex>`.
    config : where the cache is, which device is asked for.
    shipped : committed outputs to answer from first, or None.

    Raises
    ------
    InputError : neither of the two forms.
    MissingPackage : the packaged weights are neither converted nor installed.
    """
    cache = BaselineCache(shipped, config.cache / "baseline.sqlite")
    if spec == PACKAGED:
        if not convert.folder_of(config.cache).exists():
            package.find()
        return CachedBackbone(
            package.MODEL_NAME, lambda progress: convert.prepare(config.cache, progress=progress), cache, config.device
        )
    hub.parse(spec)
    return CachedBackbone(spec, lambda progress: hub.prepare(config.cache, spec, progress), cache, config.device)


def standing(spec: str, config: Config) -> tuple[bool, str]:
    """Say how a backbone stands, without torch and without converting anything: for `doctor`.

    Returns
    -------
    Whether it can answer (now, or after its first use made it ready), and one sentence.
    """
    try:
        backbone = load(spec, config, shipped=None)
        folder = convert.folder_of(config.cache) if spec == PACKAGED else hub.folder_of(config.cache, spec)
        lacking = [p for p in ("torch", "transformers", "accelerate", "gguf") if importlib.util.find_spec(p) is None]
        if lacking:
            raise MissingPackage(f"{', '.join(lacking)} not installed; the backbone needs it.", next_step=convert.NEED)
        if spec != PACKAGED:
            hub.snapshot(spec, fetch=False)
        if not folder.exists():
            return True, f"{backbone.name}: not prepared yet; the first use takes about a minute."
        return True, f"{backbone.name}: ready, weights sha256 {backbone.weights_sha256[:12]}, on {backbone.device}."
    except DuebookError as e:
        return False, str(e)


def _frozen_module() -> Any:
    try:
        from core.backbone import frozen
    except ImportError as e:
        raise MissingPackage(f"{e.name} is not installed; the backbone needs it.", next_step=convert.NEED) from e
    return frozen

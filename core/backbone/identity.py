"""Writes and reads the identity of a prepared model, and refuses a folder that no longer matches it.

Small files are hashed each time; the weights are hashed when they are in memory (`frozen.hash_module`).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from core.backbone.base import Identity
from core.errors import ModelError
from core.hashing import json_hash, sha256_file, sha256_hex

IDENTITY_FILE = "identity.json"
WEIGHTS = "*.safetensors"
SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
)
"""What a model is rebuilt from, weights apart; those that exist are hashed."""
PREPARED_BY = ("gguf", "safetensors", "tokenizers", "torch", "transformers")


@dataclass(frozen=True)
class Prepared:
    """A model that can be loaded: its files, and what they must hash to."""

    folder: Path
    """Where weights, configuration and tokenizer lie."""
    identity: Identity
    identity_file: Path
    """Where the identity is kept."""


def small_file_hashes(folder: Path) -> dict[str, str]:
    """Return name -> SHA-256 of the files a model is rebuilt from, weights apart."""
    return {name: sha256_file(folder / name) for name in SMALL_FILES if (folder / name).is_file()}


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object read from a file.

    Raises
    ------
    ModelError : no such file, or not a JSON object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as e:
        raise ModelError(f"The model has no {path.name}.", where=str(path.parent)) from e
    except (OSError, ValueError, RecursionError) as e:
        raise ModelError(f"{path.name} is damaged and cannot be read.", where=str(path)) from e
    if not isinstance(value, dict):
        raise ModelError(f"{path.name} is not a JSON object.", where=str(path))
    return value


def chat_template(folder: Path) -> str:
    """Return the chat template of a model folder.

    Raises
    ------
    ModelError : it has none (a base model cannot be asked).
    """
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except ValueError as e:
            raise ModelError("The chat template is not UTF-8 text.", where=str(path)) from e
    template = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several named ones
        template = next((t.get("template") for t in template if t.get("name") == "default"), None)
    if isinstance(template, str):
        return template
    raise ModelError("The model has no chat template.", where=str(folder), next_step="Choose an instruct model.")


def special_tokens(folder: Path) -> tuple[str, ...]:
    """Return the texts the tokenizer reads as control tokens, sorted; `prompt` keeps them out of user text."""
    tokens = read_json(folder / "tokenizer.json").get("added_tokens") or []
    return tuple(sorted({str(t["content"]) for t in tokens if t.get("special")}))


def describe(folder: Path, *, name: str, source: str, weights_sha256: str, parameters: int) -> Identity:
    """Return the identity of a model whose files lie in `folder` and whose weights hash to `weights_sha256`.

    Raises
    ------
    ModelError : no tokenizer.json, no chat template or no context length.
    """
    if not (folder / "tokenizer.json").is_file():
        raise ModelError("The model has no tokenizer.json.", where=str(folder))
    context = read_json(folder / "config.json").get("max_position_embeddings")
    if not isinstance(context, int):
        raise ModelError(
            "config.json does not say how long an input may be (max_position_embeddings).", where=str(folder)
        )
    return Identity(
        name=name,
        source=source,
        weights_sha256=weights_sha256,
        tokenizer_sha256=sha256_file(folder / "tokenizer.json"),
        template_sha256=sha256_hex(chat_template(folder).encode()),
        dtype="float32",
        parameters=parameters,
        context_tokens=context,
        files=small_file_hashes(folder),
        versions={p: metadata.version(p) for p in PREPARED_BY},
    )


def write(path: Path, identity: Identity) -> None:
    """Write the identity with a hash over itself (the caller makes the rename atomic)."""
    body = dataclasses.asdict(identity)
    path.write_text(json.dumps(body | {"identity_sha256": json_hash(body)}, indent=1, sort_keys=True) + "\n")


def read(folder: Path, identity_file: Path) -> Prepared:
    """Read a prepared model's identity and check every small file against it.

    Raises
    ------
    ModelError : the identity or a file is damaged, missing or changed; names it and the folder to delete.
    """
    remedy = f"Delete the folder {identity_file.parent} and run again."
    try:
        body = read_json(identity_file)
        claimed = body.pop("identity_sha256", None)
        if claimed != json_hash(body):
            raise ModelError(f"{IDENTITY_FILE} does not match its own hash.", where=str(identity_file))
        identity = Identity(**body)
    except TypeError as e:
        raise ModelError(f"{IDENTITY_FILE} has other fields.", where=str(identity_file), next_step=remedy) from e
    except ModelError as e:
        raise ModelError(e.message, where=e.where, next_step=remedy) from e
    found = small_file_hashes(folder)
    for name in sorted(identity.files.keys() | found.keys()):
        if found.get(name) != identity.files.get(name):
            raise ModelError(
                f"The prepared backbone is damaged: {name} does not match {IDENTITY_FILE}.",
                where=str(folder / name),
                next_step=f"Delete the folder {folder} and run again.",
            )
    if not any(folder.glob(WEIGHTS)):
        raise ModelError(
            "The prepared backbone has lost its weights.",
            where=str(folder),
            next_step=f"Delete the folder {folder} and run again.",
        )
    return Prepared(folder, identity, identity_file)

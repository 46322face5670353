from __future__ import annotations

import io
import json
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from core.cli import main
from core.config import Config, load
from core.records.filter import Filter
from core.traces.dataset import from_row
from core.views.read.traces import list_traces
from core.views.views import Views
from tests.views.made import altered, made_traces, store_of

ROWS = made_traces(21, 9)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace of nine executions that counts as prepared."""
    monkeypatch.setattr("core.cli.base.is_prepared", lambda config: True)
    config: Config = store_of(tmp_path / "home", ROWS[:7], ROWS[7:])
    return config.home


def test_sql_answers_with_one_document(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--home", str(home), "--json", "SELECT arm, sum(seed) AS s FROM trace GROUP BY arm"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(document) == ["columns", "left_out", "rows", "truncated"]
    assert document["left_out"] == []
    assert document["columns"] == ["arm", "s"]
    assert {tuple(r) for r in document["rows"]} == {
        (a.value, sum(seeds) if (seeds := [t.seed for t in ROWS if t.arm is a and t.seed is not None]) else None)
        for a in {t.arm for t in ROWS}
    }


def test_sql_without_a_query_lists_the_views(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--home", str(home)]) == 0
    assert "arm_summary" in capsys.readouterr().out


def test_sql_shows_control_characters_as_escapes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--home", str(home), "SELECT chr(27) || '[31mred' AS x, NULL AS y"]) == 0
    assert capsys.readouterr().out.split("\n")[1].split() == ["\\u001b[31mred", "NULL"]


def test_sql_refuses_with_exit_code_2(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--home", str(home), "--json", "DROP VIEW trace"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {"code": "view", "message": "Only a SELECT is taken, not DROP.", "where": None, "next": None}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_export_writes_the_filtered_executions(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    out = tmp_path / f"out.{kind}"
    expected = [t for t in ROWS if t.fired]
    command = ["export", "traces", "--home", str(home), "--filter", "f=fired:eq:true", "--format", kind]
    assert main([*command, "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["filter"], document["left_out"]) == (len(expected), ["fired:eq:true"], [])
    if kind == "parquet":
        assert [from_row(r) for r in pq.read_table(out).to_pylist()] == expected
    elif kind == "jsonl":
        ids = [json.loads(line)["trace_id"] for line in out.read_text().split("\n")[:-1]]
        assert ids == [t.trace_id for t in expected]
    else:
        assert list(pd.read_csv(out)["trace_id"]) == [t.trace_id for t in expected]
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")] == []


def test_export_to_standard_output_is_the_file_and_nothing_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["export", "traces", "--home", str(home), "--format", "jsonl", "--out", "-"]) == 0
    lines = stream.buffer.getvalue().decode().split("\n")
    assert [json.loads(line)["trace_id"] for line in lines[:-1]] == [t.trace_id for t in ROWS]


def test_an_altered_trace_file_is_named_everywhere_and_none_of_its_rows_is_served(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = sorted(home.rglob("*.parquet"))[0]
    inside = {t.trace_id for t in ROWS[:7] if t.run_id == part.parent.name}
    problem = (
        f"The trace file {part.relative_to(home).as_posix()} is not the file that was listed (its SHA-256 differs);"
        f" its {len(inside)} executions are not shown."
    )
    out, every = tmp_path / "out.jsonl", {t.trace_id for t in ROWS}

    def answers() -> tuple[set[str], set[str], set[str], list[int]]:
        """Return the ids that `sql`, `export` and the list give, and the exit codes of `ledger verify` and `doctor`."""
        assert main(["sql", "--home", str(home), "--json", "SELECT trace_id FROM trace"]) == 0
        asked = {r[0] for r in json.loads(capsys.readouterr().out)["rows"]}
        assert main(["export", "traces", "--home", str(home), "--format", "jsonl", "--out", str(out)]) == 0
        exported = {json.loads(line)["trace_id"] for line in out.read_text().splitlines()}
        with closing(Views(load(home))) as views, views.snapshot() as snapshot:
            listed = {r["trace_id"] for r in list_traces(snapshot, Filter()).answer.rows()}
        return asked, exported, listed, [main([*c, "--home", str(home)]) for c in (["ledger", "verify"], ["doctor"])]

    *served, codes = answers()
    assert (served, codes[0]) == ([every] * 3, 0)
    original = part.read_bytes()
    altered(part)
    capsys.readouterr()
    *served, codes = answers()
    assert (served, codes) == ([every - inside] * 3, [1, 1])
    said = capsys.readouterr()
    assert said.err.count(problem) == 1  # by `export`; `sql` before it was read already
    assert said.out.count(problem) == 2
    assert main(["sql", "--home", str(home), "SELECT 1"]) == 0
    said = capsys.readouterr()
    assert problem in said.err
    assert problem not in said.out
    assert main(["sql", "--home", str(home), "--json", "SELECT 1"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == [problem]
    assert main(["ledger", "verify", "--home", str(home), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [ledger["ok"] for ledger in document["ledgers"]] == [True, True]
    assert (document["ok"], document["trace_files"]["problems"]) == (False, [problem])
    part.write_bytes(original)
    *served, codes = answers()
    assert (served, codes[0]) == ([every] * 3, 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--filter", "nope:eq:1", "--out", "x"], "The filter 'nope:eq:1' names 'nope', which is not a column here."),
        (["--filter", "seed:eq:x", "--out", "x"], "The filter on seed compares a whole number with 'x'"),
        (["--out", "/nowhere/x"], "The output cannot be written: No such file or directory."),
        (["--out", "/proc/x"], "The output cannot be written: "),
        (["--out", "n" * 300], "The output cannot be written: File name too long."),
        (["--out", "folder"], "The output is a folder, not a file. (folder) Name a file"),
        (["--out", "folder/.."], "The output has no file's name."),
        (["--out", ""], "The output has no file's name."),
        (["--out", "a\x00b"], "The output has no file's name."),
        (["--out", "file/x"], "The output cannot be written: Not a directory."),
        (["--out", "link"], "The output is not a regular file."),
        (["--json", "--out", "-"], "--json answers on standard output, where --out - writes the export: give a file."),
    ],
)  # fmt: skip
def test_export_refuses_in_one_sentence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to("file")
    before = sorted(p for p in tmp_path.rglob("*") if home not in p.parents)
    assert main(["export", "traces", "--home", str(home), *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert (said.err.count("\n"), said.out.count("\n")) == (1, 1 if "--json" in words else 0)
    assert sorted(p for p in tmp_path.rglob("*") if home not in p.parents) == before
    assert (tmp_path / "file").read_text() == "kept"

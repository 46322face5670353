from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.acts import prepared
from core.acts.prepare import prepare
from core.cli import main
from core.config import load
from core.evaluation import ship
from core.evaluation.verify import verify


def ask(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any]:
    code = main([*args, "--json"])
    return code, json.loads(capsys.readouterr().out)


def message(document: dict[str, Any]) -> str:
    return str(document["error"]["message"])


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A project that ships no run, and a workspace."""
    monkeypatch.setattr(prepared, "EVIDENCE", tmp_path / "none")
    prepare(load())


@pytest.mark.usefixtures("bare")
def test_without_a_run_criteria_say_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "criteria", "controlled")
    assert (code, message(document)) == (1, "There is no complete controlled run here.")
    assert document["error"]["next"] == "Run `python -m core evaluate controlled`."
    code, document = ask(capsys, "criteria", "controlled", "--run", "nothing")
    assert (code, message(document)) == (2, "There is no run 'nothing' in this workspace.")


@pytest.mark.usefixtures("bare")
def test_without_a_run_the_claims_stand_untested(capsys: pytest.CaptureFixture[str]) -> None:
    code, table = ask(capsys, "claims")
    assert code == 0
    assert {row["status"] for row in table} == {"not tested", "no claim"}
    assert all(set(row) == {"claim", "status", "class", "run", "limit"} for row in table)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("evaluate", "controlled", "--limit", "0"), 2, "--limit takes 1 to 720 episodes, not 0."),
        (("evaluate", "controlled", "--jobs", "-2"), 2, "--jobs takes a number of processes, not -2."),
        (
            ("evaluate", "controlled", "--limit", "2", "--ship"),
            1,
            "A limited run enters no criterion and is never shipped.",
        ),
        (("evidence", "verify", "--rerun", "-1"), 2, "--rerun takes a number of executions, at least 1, not -1."),
        (("evidence", "verify", "--rerun", "0"), 2, "--rerun takes a number of executions, at least 1, not 0."),
        (("evidence", "freeze", "/nowhere/x.csv"), 2, "Only files of this project can be frozen."),
        (("evidence", "freeze", "data/contracts/missing.csv"), 2, "There is no such file to freeze."),
        (("evidence", "amend", "nothing", "--reason", ""), 2, "An amendment needs its reason."),
        (("evidence", "amend", "nothing", "--reason", "why"), 2, "There is no run 'nothing' in this workspace."),
    ],
)
@pytest.mark.usefixtures("bare")
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, said: str
) -> None:
    got, document = ask(capsys, *args)
    assert (got, message(document)) == (code, said)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("criteria", "controlled", "--run", "{}"), "There is no run '{}' in this workspace."),
        (("evidence", "amend", "{}", "--reason", "why"), "There is no run '{}' in this workspace."),
        (("score", "--cases", "c", "--out", "o", "--trigger", "{}"), "There is no trigger '{}': choose one of never,"),
    ],
)
@pytest.mark.usefixtures("bare")
def test_an_argument_is_quoted_and_a_long_one_is_cut(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], sentence: str
) -> None:
    for given, said in (("nothing", "nothing"), ("x" * 100_000, f"{'x' * 37}...{'x' * 38}")):
        code, document = ask(capsys, *(a.format(given) for a in args))
        assert (code, message(document)[: len(sentence.format(said))]) == (2, sentence.format(said))
        assert len(message(document)) < 200


def test_an_empty_id_is_seen(capsys: pytest.CaptureFixture[str], bare: None) -> None:
    assert message(ask(capsys, "criteria", "controlled", "--run", "")[1]) == "There is no run '' in this workspace."


@pytest.mark.usefixtures("bare")
def test_a_number_too_long_to_read_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate = ("evaluate", "controlled")
    for args in ((*evaluate, "--limit"), (*evaluate, "--jobs"), ("up", "--port"), ("evidence", "verify", "--rerun")):
        code, document = ask(capsys, *args, "-" + "9" * 4000)
        assert code == 2
        assert "9999...9999" in message(document)
        assert len(message(document)) < 200


@pytest.mark.model
def test_a_limited_run_through_the_real_models(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, "evaluate", "controlled", "--limit", "2", "--jobs", "1")
    assert code == 0
    run = document["run"]
    assert (run["status"], run["evidence_class"], run["stored"]) == ("partial", "demo", 20)
    assert run["backbone"].startswith("HuggingFaceTB/SmolLM2-135M-Instruct")
    assert document["criteria"] == []
    held = {p["item"]: (p["k"], p["n"]) for p in document["properties"]}
    assert held["P1"] == held["P2"] == held["P3"] == held["P4"] == held["P5"] == (2, 2)
    assert document["disagreements"] == []
    code, document = ask(capsys, "criteria", "controlled", "--run", run["run_id"])
    assert (code, message(document)) == (2, f"Run {run['run_id']} is partial: it enters no criterion.")


@pytest.mark.model
def test_the_shipped_evidence_verifies_and_a_slice_of_it_comes_out_equal(tmp_path: Path) -> None:
    assert ship.shipped_runs()
    found = verify(load(tmp_path / "home"), 4)
    assert [c.sentence for c in found.checks if c.ok is False] == []
    assert found.checks[-1].sentence == "4 executions, run again past the cache, came out equal in every column."

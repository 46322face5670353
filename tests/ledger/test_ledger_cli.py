from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core import config
from core.cli.base import Result, build_parser
from core.config import Config
from core.errors import InputError
from core.ledger import trace_tail
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, EvidenceFrozen
from core.ledger.ledger import UNKEYED_CHAIN, UNKEYED_HEAD
from core.ledger.store import open_workspace
from tests.ledger.ledgers import fill, tampering, trace


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A filled workspace and an evidence ledger, both in the temporary folder."""
    monkeypatch.setattr(EvidenceLedger.__init__, "__defaults__", (tmp_path / "evidence",))
    body = EvidenceFrozen(file="data/contracts/a.csv", sha256="a" * 64)
    EvidenceLedger().append(EntryKind.EVIDENCE_FROZEN, body, "file:a", "person:tester")
    loaded = config.load()
    with open_workspace(loaded, create=True) as store:
        fill(store)
        with store.write() as tx:
            trace_tail.append(tx, trace(1))
    return loaded


def run(arguments: Sequence[str], settings: Config) -> Result:
    args = build_parser(arguments[0]).parse_args(list(arguments))
    result: Result = args.run(args, settings)
    json.dumps(result.document)  # a document is JSON as it is
    return result


def test_verify_looks_at_both_ledgers(settings: Config) -> None:
    result = run(["ledger", "verify"], settings)
    assert result.exit_code == 0
    assert result.document["ok"] is True
    assert [(x["ledger"], x["ok"], x["count"], x["first_bad"], x["notes"]) for x in result.document["ledgers"]] == [
        ("workspace", True, 13, None, [UNKEYED_CHAIN]),
        ("evidence", True, 2, None, [UNKEYED_CHAIN]),
    ]
    assert f"  note: {UNKEYED_CHAIN}" in result.text.splitlines()


def test_verify_exits_1_when_the_workspaces_ledger_fails(settings: Config) -> None:
    with tampering(settings.store) as connection:
        connection.execute("UPDATE run SET status = 'complete'")
    result = run(["ledger", "verify"], settings)
    assert result.exit_code == 1
    workspace, evidence = result.document["ledgers"]
    assert (workspace["ok"], evidence["ok"], workspace["first_bad"]) == (False, True, 7)
    assert workspace["findings"] == [
        {"kind": "state", "seq": 7, "sentence": "run run-1: table complete, ledger failed at 7."}
    ]
    assert result.text.splitlines()[0].startswith("workspace ledger: DOES NOT VERIFY, 13 entries")
    assert "  first bad entry: 7" in result.text.splitlines()


def test_verify_exits_1_when_the_evidence_ledger_fails(settings: Config) -> None:
    ledger = EvidenceLedger()
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b"contracts/a", b"contracts/b"))
    result = run(["ledger", "verify"], settings)
    assert result.exit_code == 1
    assert [x["ok"] for x in result.document["ledgers"]] == [True, False]
    assert result.document["ledgers"][1]["first_bad"] == 2


def test_verify_exits_1_when_the_store_is_damaged(settings: Config) -> None:
    for name in ("store.sqlite-wal", "store.sqlite-shm"):
        (settings.home / name).unlink(missing_ok=True)
    settings.store.write_bytes(b"\xa5" * 8192)
    result = run(["ledger", "verify"], settings)
    assert result.exit_code == 1
    assert result.document["ledgers"][0]["findings"] == [
        {"kind": "damaged", "seq": None, "sentence": "The store's file is damaged and cannot be read."}
    ]


def test_a_head_is_taken_and_verified_against(settings: Config, tmp_path: Path) -> None:
    kept = tmp_path / "head.json"
    taken = run(["ledger", "head"], settings)
    assert (taken.document["count"], taken.document["hmac"]) == (13, None)
    kept.write_text(json.dumps(taken.document))
    result = run(["ledger", "verify", "--head", str(kept)], settings)
    assert result.exit_code == 0
    assert [x["notes"] for x in result.document["ledgers"]] == [[UNKEYED_HEAD], [UNKEYED_CHAIN]]
    kept.write_text(json.dumps(taken.document | {"count": 99}))
    result = run(["ledger", "verify", "--head", str(kept)], settings)
    assert result.exit_code == 1
    assert result.document["ledgers"][0]["first_bad"] == 14


def test_a_head_is_keyed_where_a_key_is_given(
    settings: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DUEBOOK_LEDGER_KEY", "sixteen bytes or more")
    keyed = config.load()
    kept = tmp_path / "head.json"
    kept.write_text(json.dumps(run(["ledger", "head"], keyed).document))
    result = run(["ledger", "verify", "--head", str(kept)], keyed)
    assert result.document["ledgers"][0]["notes"] == []
    assert len(json.loads(kept.read_text())["hmac"]) == 64


def test_a_head_of_the_evidence_ledger_is_held_against_that_one(settings: Config, tmp_path: Path) -> None:
    kept = tmp_path / "head.json"
    taken = run(["ledger", "head", "--evidence"], settings)
    assert taken.document["count"] == 2
    kept.write_text(json.dumps(taken.document))
    result = run(["ledger", "verify", "--head", str(kept)], settings)
    assert [x["notes"] for x in result.document["ledgers"]] == [[UNKEYED_CHAIN], [UNKEYED_HEAD]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "The head file cannot be read: No such file or directory."),
        ("{" + " " * 10_000, "The head file is longer than 10,000 bytes."),
        ('{"at": "x"}', "at: 'x' is not an instant: write RFC 3339 with an offset, like 2026-12-04T09:00:00-05:00."),
        ("{}", "ledger_id is missing; count is missing"),
        ("x", "it is not JSON: expected value at line 1 column 1"),
    ],
)
def test_a_head_file_that_is_none_is_bad_input(
    settings: Config, tmp_path: Path, content: str | None, sentence: str
) -> None:
    kept = tmp_path / "head.json"
    if content is not None:
        kept.write_text(content)
    with pytest.raises(InputError) as refused:
        run(["ledger", "verify", "--head", str(kept)], settings)
    assert sentence in refused.value.message
    assert refused.value.where == str(kept)


def test_a_head_file_that_never_ends_is_not_read(settings: Config, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/zero", str(tmp_path), str(tmp_path / "pipe")):
        with pytest.raises(InputError) as refused:
            run(["ledger", "verify", "--head", place], settings)
        assert str(refused.value) == (
            f"The head file is no regular file. ({place}) Make one with `python -m core ledger head --json`."
        )


def annotate(settings: Config, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = run(["annotate", *arguments], settings).document
    return document


def test_annotate_stores_a_remark_on_what_the_views_know(settings: Config) -> None:
    done = annotate(settings, "trace", "trace-000001", "--label", "looks right", "--text", "why", "--expected-seq", "0")
    assert {k: done[k] for k in ("target_kind", "target_id", "label", "text", "author", "replaces", "seq")} == {
        "target_kind": "trace", "target_id": "trace-000001", "label": "looks right", "text": "why",
        "author": "person:tester", "replaces": None, "seq": 14,
    }  # fmt: skip
    again = annotate(settings, "trace", "trace-000001", "--label", "wrong", "--replaces", done["id"])
    assert again["replaces"] == done["id"]
    for kind, target in (("run", "run-1"), ("record", "r1"), ("case", "e1")):
        assert annotate(settings, kind, target, "--label", "x")["target_id"] == target


def test_annotate_refuses_what_is_not_there(settings: Config) -> None:
    for kind in ("trace", "run", "record", "case"):
        with pytest.raises(InputError, match=f"There is no {kind} 'none' here"):
            annotate(settings, kind, "none", "--label", "x")
    with pytest.raises(InputError, match="argument KIND: 'page' is not one of trace, case, run, record"):
        annotate(settings, "page", "none", "--label", "x")
    with pytest.raises(InputError, match="--expected-seq is the number of a ledger entry, or 0 for none"):
        annotate(settings, "trace", "trace-000001", "--label", "x", "--expected-seq", "-1")

"""Scoring a case file: a table made by hand, the controller's own answer, and every way a file can be bad."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cli.base import main
from core.controller.arms import Arm
from core.controller.step import bind, hear, respond
from core.errors import HIDDEN, CaseError, InputError
from core.evaluation import case_file
from core.evaluation.case_file import parse_case, read_cases
from core.evaluation.episodes import episodes
from core.evaluation.score import score_case, score_file
from core.records.case import Case, Operation
from core.records.trace import ArmName
from core.triggers import registry
from core.triggers.constant import AlwaysTrigger, NeverTrigger
from tests.controller.tiny import TableTrigger, TinyBackbone, context

NOON = "2026-01-05T12:00:00Z"
WRITE = {"op": "write", "record": "r1", "condition": "It snows.", "payload": "Salt the steps."}
SECOND = {"op": "write", "record": "r2", "condition": "It freezes.", "payload": "Wrap the pipes."}


def case(case_id: str, operations: list[dict[str, Any]], text: str = "Snow fell.", **more: Any) -> dict[str, Any]:
    return {
        "case_id": case_id,
        "source": "hand",
        "operations": operations,
        "event": {"at": NOON, "text": text},
        "trigger": False,
    } | more


TRIGGER = TableTrigger(
    {("It snows.", "Snow fell."): 0.9, ("It freezes.", "Snow fell."): 0.6, ("It snows.", "Snow may fall."): 0.3}
)
CASES = [
    case("fires", [WRITE]),
    case("near", [WRITE], "Snow may fall."),
    case("two fire", [WRITE, SECOND]),
    case("cancelled", [WRITE, {"op": "cancel", "record": "r1"}]),
    case("expired", [WRITE | {"expires_at": NOON}]),
    case("one microsecond left", [WRITE | {"expires_at": "2026-01-05T12:00:00.000001Z"}]),
    case(
        "replaced",
        [
            WRITE,
            {"op": "replace", "record": "r2", "supersedes": "r1", "condition": "It hails.", "payload": "Cover it."},
        ],
    ),
    case("nothing written", []),
    case("distractor fires", [WRITE, {"op": "distractor", "text": "Snow fell."}], "Snow may fall."),
]
BY_HAND = """\
{"case_id":"fires","trigger":"table","score":0.9,"threshold":0.5,"fired":true,"record":"r1","payload":"Salt the steps.","null_reason":null}
{"case_id":"near","trigger":"table","score":0.3,"threshold":0.5,"fired":false,"record":null,"payload":null,"null_reason":"below_threshold"}
{"case_id":"two fire","trigger":"table","score":0.9,"threshold":0.5,"fired":true,"record":"r1","payload":"Salt the steps.","null_reason":null}
{"case_id":"cancelled","trigger":"table","score":null,"threshold":0.5,"fired":false,"record":null,"payload":null,"null_reason":"lifecycle"}
{"case_id":"expired","trigger":"table","score":null,"threshold":0.5,"fired":false,"record":null,"payload":null,"null_reason":"lifecycle"}
{"case_id":"one microsecond left","trigger":"table","score":0.9,"threshold":0.5,"fired":true,"record":"r1","payload":"Salt the steps.","null_reason":null}
{"case_id":"replaced","trigger":"table","score":0.0,"threshold":0.5,"fired":false,"record":null,"payload":null,"null_reason":"below_threshold"}
{"case_id":"nothing written","trigger":"table","score":null,"threshold":0.5,"fired":false,"record":null,"payload":null,"null_reason":"no_active_record"}
{"case_id":"distractor fires","trigger":"table","score":0.3,"threshold":0.5,"fired":false,"record":null,"payload":null,"null_reason":"below_threshold"}
"""  # noqa: E501 - the lines are compared as they are written


def write_lines(path: Path, lines: list[dict[str, Any] | str | bytes]) -> Path:
    raw = [
        line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else json.dumps(line).encode()
        for line in lines
    ]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


def test_the_score_lines_are_those_of_a_table_made_by_hand(tmp_path: Path) -> None:
    out = tmp_path / "scores.jsonl"
    (tally,) = score_file(write_lines(tmp_path / "cases.jsonl", [*CASES]), [TRIGGER], out)
    assert out.read_text() == BY_HAND
    assert (tally.cases, tally.fired, tally.distractor_fires) == (9, 3, 1)
    assert tally.null_reasons == {"below_threshold": 3, "lifecycle": 2, "no_active_record": 1}
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["cases.jsonl", "scores.jsonl"]


def test_the_output_is_replaced_whole_and_never_written_into(tmp_path: Path) -> None:
    out, before = tmp_path / "out", tmp_path / "before"
    out.write_text("an earlier answer")
    before.hardlink_to(out)
    score_file(write_lines(tmp_path / "cases.jsonl", [*CASES]), [TRIGGER], out)
    assert (out.read_text(), before.read_text()) == (BY_HAND, "an earlier answer")


def test_several_triggers_answer_case_by_case_in_the_files_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    score_file(write_lines(tmp_path / "c", [CASES[3], CASES[0]]), [NeverTrigger(), AlwaysTrigger()], out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(r["case_id"], r["trigger"], r["fired"]) for r in rows] == [
        ("cancelled", "never", False),
        ("cancelled", "always", False),
        ("fires", "never", False),
        ("fires", "always", True),
    ]


def test_a_score_line_is_what_the_controller_answers() -> None:
    cases = [Case.model_validate(c) for c in CASES] + [e.as_case() for e in episodes(2026)[::24]]
    for trigger in (TRIGGER, AlwaysTrigger()):
        for c in cases:
            line, distractor_fires = score_case(c, trigger)
            trace = respond(
                bind(c.operations),
                hear(c.operations, c.event),
                Arm(ArmName.C3, trigger=trigger),
                TinyBackbone(),
                context(None, None),
            )
            assert (line.score, line.fired, line.record, line.payload, line.null_reason, distractor_fires) == (
                trace.score,
                trace.fired,
                trace.fired_record,
                trace.predicted_action,
                trace.null_reason,
                trace.distractor_fires,
            )


POSITIVE: dict[str, Any] = {"trigger": True, "expected_record": "r1", "expected_payload": "Salt the steps."}
DEEP = '{"case_id": "deep", "source": ' + "[" * 64 + "]" * 64 + "}"
BAD = [
    ("{", "The line is not JSON: Expecting property name enclosed in double quotes at column 2"),
    ("[1]", "The line is not a JSON object"),
    (DEEP, "The line nests deeper than 64 brackets"),
    ("[" * 100_000, "The line nests deeper than 64 brackets"),
    ('{"case_id": "a", "case_id": "b"}', "The key 'case_id' stands twice in one object"),
    ('{"event": {"at": "x", "text": "a", "text": "b"}}', "The key 'text' stands twice in one object"),
    ('{"case_id": NaN}', "The line holds NaN, which is not JSON"),
    (b'{"case_id": "\xff"}', "The line is not UTF-8 (byte 14)"),
    ('{"case_id": "\\ud800"}', "The line holds text that is not valid Unicode (a lone surrogate)"),
    ('{"n": ' + "9" * 5_000 + "}", "The line holds a number that is too long"),
    (json.dumps(case("x", [WRITE], "")), "event.text: the text is empty"),
    (json.dumps(case("x", [WRITE], "a\x00b")), "event.text: the text holds a NUL character"),
    (
        json.dumps(case("x", [WRITE], "x" * 1_048_577)),
        "event.text: the text is 1,048,577 bytes long; at most 1,048,576 are taken",
    ),
    (json.dumps(case("x", [WRITE | {"condition": " "}])), "operations.0.condition: the text is empty"),
    (json.dumps(case("x", [WRITE, WRITE])), "operation 2 writes record 'r1' a second time"),
    (
        json.dumps(case("x", [{"op": "cancel", "record": "r9"}])),
        "operation 1 cancels 'r9', which is not open",
    ),
    (json.dumps(case("x", [WRITE]) | {"more": 1}), "more is not a known field"),
    (
        json.dumps(case("x", [WRITE]) | {"event": {"at": "2026-01-05 12:00", "text": "a"}}),
        "event.at: '2026-01-05 12:00' is not an instant: write RFC 3339 with an offset, like 2026-12-04T09:00:00-05:00",
    ),
    (json.dumps(CASES[0]), "case_id: 'fires' stands in line 1 already"),
    (json.dumps(case("", [WRITE])), "case_id: the name is empty"),
    (json.dumps(case("\u00a0\t", [WRITE])), "case_id: the name is empty"),
    (json.dumps(case("a\x00b", [WRITE])), "case_id: the name holds a NUL character"),
    (json.dumps(case("a\x1b[31m", [WRITE])), "case_id: the name holds a hidden character (U+001B)"),
    (json.dumps(case("x" * 1_000_000, [WRITE])), "case_id: the name is 1,000,000 bytes long; at most 200 are taken"),
    (json.dumps(case("x", [WRITE]) | {"k" * 1_000_000: 1}), f"{'k' * 60}... is not a known field"),
    (
        json.dumps(case("x", [WRITE]) | {"event": {"at": "9" * 1_000_000, "text": "a"}}),
        f"event.at: '{'9' * 37}...{'9' * 38}' is not an instant: write RFC 3339 with an offset, "
        "like 2026-12-04T09:00:00-05:00",
    ),
    (
        json.dumps(case("x", [WRITE]) | {"event": {"at": {"a": [1] * 1_000}, "text": "a"}}),
        "event.at: {'a': [1, 1, 1, 1, 1, 1, ...]} is not an instant: write RFC 3339 with an offset, "
        "like 2026-12-04T09:00:00-05:00",
    ),
    (
        json.dumps(case("x", [WRITE, {"op": "cancel", "record": "r1", "payload": "p"}])),
        "operations.1: a cancel takes no payload",
    ),
    (
        json.dumps(case("x", [{"op": "distractor", "record": "r1", "expires_at": NOON, "text": "a"}])),
        "operations.0: a distractor takes no record, expires_at",
    ),
    (json.dumps(case("x", [WRITE | {"supersedes": "r0"}])), "operations.0: a write takes no supersedes"),
    (json.dumps(case("x", [WRITE | {"record": " "}])), "operations.0.record: the name is empty"),
    (
        json.dumps(case("x", [WRITE | {"expires_at": NOON}], **POSITIVE)),
        "expected_record 'r1' has expired when the event comes",
    ),
    (
        json.dumps(case("x", [WRITE, {"op": "cancel", "record": "r1"}], **POSITIVE)),
        "a positive needs an expected_record that is open, not 'r1'",
    ),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[reason[:50] for _, reason in BAD])
def test_a_bad_line_is_named_and_nothing_is_written(tmp_path: Path, line: str | bytes, reason: str) -> None:
    path, out = write_lines(tmp_path / "cases.jsonl", [CASES[0], line]), tmp_path / "out.jsonl"
    out.write_text("what was there before")
    with pytest.raises(CaseError) as e:
        score_file(path, [TRIGGER], out)
    assert str(e.value) == (
        f"1 line is not a case, so nothing was scored: line 2: {reason}. ({path}:2) "
        "Correct or remove what is named and score again."
    )
    assert out.read_text() == "what was there before"
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["cases.jsonl", "out.jsonl"]


def test_a_positive_whose_record_expires_just_after_the_event_is_a_case() -> None:
    line = case("x", [WRITE | {"expires_at": "2026-01-05T12:00:00.000001Z"}], **POSITIVE)
    assert parse_case(json.dumps(line).encode()).expected_record == "r1"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.sampled_from(
        ("", "r1", "r2", "write", "replace", "cancel", "distractor", NOON, "2026-01-05T12:00:00", "\x00", "\ud800")
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
PLACES: list[tuple[str | int, ...]] = [
    *((name,) for name in Case.model_fields),
    ("event", "at"), ("event", "text"), ("event", "more"), ("more",), ("operations", 0),
    *(("operations", n, name) for n in range(3) for name in Operation.model_fields),
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(place=st.sampled_from(PLACES), value=ANY_JSON)
def test_any_json_value_in_any_field_is_a_case_or_one_sentence(place: tuple[str | int, ...], value: object) -> None:
    operations = [dict(WRITE), {"op": "distractor", "text": "Wind."}, {"op": "cancel", "record": "r1"}]
    whole: Any = case("x", operations)
    inner = whole
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    refused: CaseError | None = None
    try:
        score_case(parse_case(json.dumps(whole).encode()), AlwaysTrigger())
    except CaseError as e:
        refused = e
    if refused is not None:
        assert len(refused.message) < 1_000
        assert HIDDEN.search(str(refused)) is None
        assert "should" not in refused.message
        assert "validat" not in refused.message


def test_every_bad_line_is_named_at_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "cases.jsonl", ["{}", CASES[0], "", "nonsense", CASES[0]])
    with pytest.raises(CaseError) as e:
        score_file(path, [TRIGGER], tmp_path / "out")
    assert e.value.where == f"{path}:1"
    assert e.value.message == (
        "3 lines are not cases, so nothing was scored: line 1: case_id is missing; source is missing; "
        "operations is missing; event is missing; trigger is missing; "
        "line 4: The line is not JSON: Expecting value at column 1; "
        "line 5: case_id: 'fires' stands in line 2 already."
    )


def test_very_many_bad_lines_are_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "cases.jsonl", ["x"] * 250)
    with pytest.raises(CaseError, match="line 100: The line is not JSON.*; and 150 more"):
        score_file(path, [TRIGGER], tmp_path / "out")


def test_an_unterminated_string_of_a_megabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "cases.jsonl", ['"\\"' * 400_000])
    ((_, bad),) = read_cases(path)
    assert isinstance(bad, case_file.BadLine)


def test_good_but_unusual_files_are_taken(tmp_path: Path) -> None:
    texts = ["\u200fמחר יירד שלג", "❄️ 12 cm", "a\u2028b\u0085c\rd", "x " * 500_000, 'quotes " and \\ {[}]']
    lines = [json.dumps(case(f"{n} {t[:1]}", [WRITE], t), ensure_ascii=False) for n, t in enumerate(texts)]
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(["", *lines]).encode())  # a byte order mark, CRLF, no last newline
    out = tmp_path / "out"
    score_file(path, [TRIGGER], out)
    assert [json.loads(line)["case_id"] for line in out.read_text().split("\n")[:-1]] == [
        f"{n} {t[:1]}" for n, t in enumerate(texts)
    ]


def test_files_that_cannot_be_read_or_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = write_lines(tmp_path / "cases.jsonl", [CASES[0]])
    empty = write_lines(tmp_path / "empty", ["", " "])

    def message(cases: Path, out: Path) -> str:
        with pytest.raises(InputError) as e:
            score_file(cases, [TRIGGER], out)
        return e.value.message

    out = tmp_path / "out"
    assert message(tmp_path / "none", out) == "There is no such case file."
    assert message(tmp_path, out) == "The case file is not a regular file."
    assert message(empty, out) == "The case file holds no case."
    assert message(good, tmp_path) == "The output is a folder, not a file."
    assert message(good, good) == "The output would replace the case file."
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert message(tmp_path / "pipe", out) == "The case file is not a regular file."
    assert message(good, tmp_path / "pipe") == "The output is not a regular file."
    assert message(good, tmp_path / "link") == "The output is not a regular file."
    assert message(good, tmp_path / "no" / "out") == "The output cannot be written: No such file or directory."
    monkeypatch.setattr(case_file, "MAX_BYTES", 10)
    assert message(good, out) == "The case file is larger than 0 MB."
    assert not out.exists()


def test_the_command_answers_with_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_lines(tmp_path / "cases.jsonl", [*CASES]), tmp_path / "out"
    assert main(["score", "--cases", str(path), "--trigger", "always", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "cases": 9,
        "out": str(out),
        "triggers": [
            {
                "trigger": "always",
                "threshold": 0.5,
                "cases": 9,
                "fired": 6,
                "null_reasons": {"lifecycle": 2, "no_active_record": 1},
                "distractor_fires": 1,
            }
        ],
        "left_out": [],
    }


def test_the_command_scores_with_all_and_says_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> AlwaysTrigger:
        raise InputError("No weights.")

    monkeypatch.setitem(registry._TABLE, "mlp", gone)
    path, out = write_lines(tmp_path / "cases.jsonl", [CASES[0]]), tmp_path / "out"
    assert main(["score", "--cases", str(path), "--trigger", "all", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == (
        "never: 0 of 1 cases fired at 0.5; silent: below_threshold 1; distractor decisions that fired: 0\n"
        "always: 1 of 1 cases fired at 0.5; silent: none; distractor decisions that fired: 0\n"
        f"Written: {out}\n"
    )
    assert said.err == "Left out: mlp. No weights.\n"


def test_a_hyphen_is_standard_output_and_gets_the_files_lines_or_none(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = write_lines(tmp_path / "cases.jsonl", [*CASES])
    command = ["score", "--cases", str(good), "--trigger", "all", "--out"]
    assert main([*command, "./-"]) == 0
    assert main([*command, "named"]) == 0
    assert (tmp_path / "-").read_bytes() == (tmp_path / "named").read_bytes()
    (tmp_path / "-").unlink()
    capfdbinary.readouterr()
    assert main([*command, "-"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "named").read_bytes()
    assert main([*command, "-", "--json"]) == 2
    assert json.loads(capfdbinary.readouterr().out)["error"]["message"] == (
        "--json answers on standard output, where --out - writes the scores: give a file."
    )
    bad = write_lines(tmp_path / "bad.jsonl", [CASES[0], "{"])
    assert main(["score", "--cases", str(bad), "--trigger", "always", "--out", "-"]) == 2
    assert capfdbinary.readouterr().out == b""
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("trigger", "line", "code", "kind"), [("nosuch", CASES[0], 2, "bad_input"), ("always", "{", 2, "case")]
)
def test_the_command_fails_with_one_document_and_no_traceback(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    trigger: str,
    line: dict[str, Any] | str,
    code: int,
    kind: str,
) -> None:
    path, out = write_lines(tmp_path / "cases.jsonl", [line]), tmp_path / "out"
    assert main(["score", "--cases", str(path), "--trigger", trigger, "--out", str(out), "--json"]) == code
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == kind
    assert "Traceback" not in said.err
    assert not out.exists()


def test_triggers_lists_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triggers", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(registry.NAMES)
    assert rows[0] == {
        "name": "never",
        "available": True,
        "threshold": 0.5,
        "weights_sha256": "",
        "device": "cpu",
        "why_not": None,
    }
    assert main(["triggers"]) == 0
    assert capsys.readouterr().out.startswith("never: threshold 0.5, on cpu\nalways: threshold 0.5, on cpu\n")

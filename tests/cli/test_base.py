"""The command line's promises: one document, one sentence, the right exit code, only the called group imported."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from core.acts import prepared
from core.acts.prepared import is_prepared
from core.cli import base, main
from core.config import ROOT, Config, load
from core.errors import CheckFailed, InputError
from core.evaluation.frozen import freeze
from core.evaluation.verify import verify
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.store import open_workspace

Handler = Callable[[argparse.Namespace, Config], base.Result]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Handler], None]:
    """Give a way to install a group called `trial` whose handler is the given one."""

    def install(handler: Handler) -> None:
        module = ModuleType("core.cli.trial")

        def register(subparsers: Any) -> None:
            parser = subparsers.add_parser("trial")
            parser.add_argument("--words", default="none")
            parser.set_defaults(run=handler)

        module.register = register  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "core.cli.trial", module)
        monkeypatch.setattr(base, "GROUPS", {**base.GROUPS, "trial": base.Group("a trial")})

    return install


def say(text: str = "fine", code: int = 0, document: Any = None) -> Handler:
    return lambda args, config: base.Result({"text": text} if document is None else document, text, code)


def fail_with(error: BaseException) -> Handler:
    def handler(args: argparse.Namespace, config: Config) -> base.Result:
        raise error

    return handler


@pytest.mark.parametrize(
    "argv", [["trial"], ["trial", "--home", "h"], ["--home", "h", "trial"], ["trial", "--words", "--home=h"]]
)
def test_text_goes_to_standard_output_and_the_exit_code_is_the_results(
    argv: list[str], command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command(say("fine", 1))
    expected = 2 if "--words" in argv else 1  # an option is no value
    assert main(argv) == expected
    assert capsys.readouterr().out == ("" if expected == 2 else "fine\n")


@pytest.mark.parametrize("place", [0, 1])
def test_home_and_json_are_taken_before_and_after_the_command(
    place: int, command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seen: list[Path] = []

    def handler(args: argparse.Namespace, config: Config) -> base.Result:
        seen.append(config.home)
        return base.Result({"n": 1}, "text")

    command(handler)
    options = ["--json", "--home", str(tmp_path / "there")]
    assert main([*options, "trial"] if place == 0 else ["trial", *options]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 1}
    assert seen == [tmp_path / "there"]


def test_a_library_that_prints_does_not_spoil_the_document(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def handler(args: argparse.Namespace, config: Config) -> base.Result:
        sys.stdout.write("chatter\n")
        base.progress("half way")
        return base.Result([1, 2], "text")

    command(handler)
    assert main(["trial", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [1, 2]
    assert err == "chatter\nhalf way\n"


def test_a_refusal_is_a_sentence_on_standard_error_and_a_document_with_json(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command(fail_with(CheckFailed("Two rows differ.", where="run 7", next_step="Look at them.")))
    assert main(["trial"]) == 1
    assert capsys.readouterr() == ("", "Two rows differ. (run 7) Look at them.\n")
    assert main(["trial", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "error": {"code": "check_failed", "message": "Two rows differ.", "where": "run 7", "next": "Look at them."}
    }
    assert err == "Two rows differ. (run 7) Look at them.\n"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "No command was named."),
        (["scor"], "There is no command 'scor'. Did you mean `score`?"),
        (["xyzzy"], "There is no command 'xyzzy'. Commands: up, prepare,"),
        (
            ["trial", "--wrong"],
            "python -m core trial: there is no option '--wrong'. Options: --help, --home, --json, --w",
        ),
        (
            ["trial", "more"],
            "python -m core trial: there is no further argument 'more'. See `python -m core",
        ),
        (["ledger"], "python -m core ledger: the following arguments are required: PART. PART is one of verify, head."),
        (["ledger", "x"], "python -m core ledger: argument PART: 'x' is not one of verify, head."),
        (["ledger", "head", "-x"], "python -m core ledger head: there is no option '-x'. Options: --help,"),
        (
            ["evaluate", "controlled", "--jobs", "x"],
            "python -m core evaluate controlled: argument --jobs: 'x' is not",
        ),
        (["trial", "--words"], "python -m core trial: argument --words: expected one argument."),
        (["trial", "--wor", "x"], "python -m core trial: there is no option '--wor'."),
        (["--home"], "No command was named."),
    ],
)
def test_a_command_line_that_cannot_be_understood_exits_2(
    argv: list[str], sentence: str, command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command(say())
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(sentence)
    assert main(["--json", *argv]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "usage"
    assert err.startswith(document["error"]["message"])


def test_an_unexpected_error_is_a_sentence_and_a_log_in_the_workspace(
    command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    command(fail_with(ZeroDivisionError("secret detail")))
    assert main(["trial", "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["message"] == "Something went wrong that Duebook did not expect: ZeroDivisionError."
    assert error["code"] == "unexpected"
    log = Path(error["where"])
    assert log.parent == tmp_path / "home" / "logs"
    assert "secret detail" in log.read_text()
    assert "Traceback" not in err
    assert "secret detail" not in err


def test_an_unexpected_error_makes_no_workspace(
    command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    command(fail_with(RuntimeError("x")))
    assert main(["trial"]) == 2
    assert not (tmp_path / "home").exists()
    assert len(list(tmp_path.glob("error-*.log"))) == 1


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied", "mine/x"),
         "The system refused: Permission denied. (mine/x) Get the right to it, or name another place.\n"),
        (OSError(28, "No space left on device"),
         "The system refused: No space left on device. Free some space and do it again.\n"),
    ],
)  # fmt: skip
def test_what_the_system_refuses_is_no_error_of_ours(
    error: OSError, sentence: str, command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    command(fail_with(error))
    assert main(["trial", "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == sentence
    assert json.loads(out)["error"]["code"] == "system"
    assert list((tmp_path / "home").iterdir()) == []
    command(fail_with(BlockingIOError(11, "not foreseen")))
    assert main(["trial"]) == 2
    assert "did not expect: BlockingIOError" in capsys.readouterr().err


def test_an_argument_that_is_no_text_is_named(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def handler(args: argparse.Namespace, config: Config) -> base.Result:
        args.words.encode()
        raise AssertionError

    command(handler)
    assert main(["trial", "--words", "caf\udce9"]) == 2
    assert capsys.readouterr().err == "An argument is not valid UTF-8.\n"
    command(fail_with(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "ours")))
    assert main(["trial", "--words", "x"]) == 2
    assert "did not expect: UnicodeEncodeError" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["x" * 100_000],
        ["trial", "x" * 100_000],
        ["ledger", "x" * 100_000],
        ["trial", f"--{'x' * 100_000}"],
        ["evaluate", "controlled", "--jobs", "x" * 100_000],
    ],
)
def test_a_long_mistake_is_cut(argv: list[str], command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(say())
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert "x" * 50 in err
    assert len(err) < 800


def test_ctrl_c_is_no_traceback(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(fail_with(KeyboardInterrupt()))
    assert main(["trial", "--json"]) == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "interrupted"
    assert err == "Stopped before the end.\n"


def test_a_missing_package_is_named(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(fail_with(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")))
    assert main(["trial"]) == 2
    assert capsys.readouterr().err == (
        "The package `torch` is not installed. (torch) Run `make install`, then `python -m core doctor`.\n"
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`python -m core --help | head -1`, with more text than a pipe holds."""
    code = (
        "import sys, core.cli.base as b\n"
        "sys.exit(b._answer('x' * 1_000_000, 0))"
    )  # fmt: skip
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.read(10)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0


def test_a_text_that_the_terminal_cannot_show_ends_no_command(tmp_path: Path) -> None:
    code = "import core.cli.base as b; b._make_streams_lossless(); b._answer('caf\\u00e9 \\ud800 \\U0001f600', 0)"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, env=environment, check=True)
    assert done.stdout.decode() == "café \\ud800 😀\n"


def test_only_the_called_group_is_imported() -> None:
    code = (
        "import sys; from core.cli import main; main(['--help']);"
        "heavy = {'pyarrow', 'sqlalchemy', 'duckdb', 'streamlit', 'torch', 'pandas', 'numpy'} & set(sys.modules);"
        "own = ('core.cli.base', 'core.cli.document', 'core.cli.parser');"
        "groups = [m for m in sys.modules if m.startswith('core.cli.') and m not in own];"
        "sys.exit(repr((heavy, groups)) if heavy or groups else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name, group in base.GROUPS.items():
        assert f"{name} " in done.stdout
        assert group.help in done.stdout


@pytest.mark.parametrize("name", base.GROUPS)
def test_every_group_answers_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m core {name}")


def test_a_missing_workspace_is_made_only_by_a_command_that_may(
    command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.acts.prepared.EVIDENCE", tmp_path / "no runs")
    command(say())
    for needs, code in ((base.Needs.NOTHING, 0), (base.Needs.WORKSPACE, 2)):
        monkeypatch.setattr(base, "GROUPS", {**base.GROUPS, "trial": base.Group("a trial", needs)})
        assert main(["trial"]) == code
        assert not (tmp_path / "home").exists()
    monkeypatch.setattr(base, "GROUPS", {**base.GROUPS, "trial": base.Group("a trial", base.Needs.ANY)})
    assert main(["trial"]) == 0
    assert (tmp_path / "home" / "store.sqlite").is_file()
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_a_workspace_that_is_there_is_completed_by_any_command_that_needs_it(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.acts.prepared.EVIDENCE", tmp_path / "no runs")
    open_workspace(load(), create=True).close()
    command(say())
    monkeypatch.setattr(base, "GROUPS", {**base.GROUPS, "trial": base.Group("a trial", base.Needs.WORKSPACE)})
    assert not is_prepared(load())
    assert main(["trial"]) == 0
    assert is_prepared(load())


CASES, CONTRACT = str(ROOT / "data" / "demo" / "cases.jsonl"), str(ROOT / "data" / "contracts" / "controlled.csv")
ONLY_READ = [
    (["evidence", "amend", "r", "--reason", "why"], 2),
    (["criteria", "controlled"], 2),
    (["claims"], 2),
    (["ledger", "verify"], 2),
    (["ledger", "head"], 2),
    (["annotate", "run", "r", "--label", "x"], 2),
    (["export", "traces", "--out", "out.csv"], 2),
    (["sql", "SELECT 1"], 2),
    (["sql"], 2),
    (["doctor"], None),  # as this machine is
    (["triggers"], 0),
    (["score", "--cases", CASES, "--trigger", "never", "--out", "-"], 0),
    (["evidence", "verify"], 0),
    (["evidence", "freeze", CONTRACT], 0),
    (["ledger", "head", "--evidence"], 0),
]  # fmt: skip


@pytest.mark.parametrize("place", ["missing", "empty", "other"])
@pytest.mark.parametrize(("argv", "code"), ONLY_READ, ids=[" ".join(Path(a).name for a in c[0]) for c in ONLY_READ])
def test_what_only_reads_makes_no_workspace(
    argv: list[str],
    code: int | None,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    evidence = tmp_path / "evidence"
    for function in (verify, freeze, EvidenceLedger.__init__):
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.default == prepared.EVIDENCE:
                instead_of_default(monkeypatch, function, name, evidence)
    freeze([Path(CONTRACT)], "person:tester", evidence)
    home, out = tmp_path / "typo", tmp_path / "elsewhere"
    out.mkdir()
    monkeypatch.chdir(out)
    if place != "missing":
        home.mkdir(mode=0o755)
    if place == "other":
        (home / "notes.txt").write_text("mine")
    before = as_it_lies(tmp_path, home)
    assert main(["--home", str(home), *argv]) in ({0, 1} if code is None else {code})
    said = capsys.readouterr()
    assert as_it_lies(tmp_path, home) == before
    assert list(out.iterdir()) == []
    if code == 2:
        assert said.out == ""
        assert said.err == (
            f"There is no workspace here. ({home}) Check --home, or make one with `python -m core prepare`.\n"
        )


def as_it_lies(*places: Path) -> list[tuple[Path, int, int, int]]:
    """Return places, and what the last of them holds, each with its inode, mode and time of change."""
    found = [p for p in (*places, *places[-1].rglob("*")) if p.exists()]
    return [(p, s.st_ino, s.st_mode, s.st_ctime_ns) for p in found for s in [p.lstat()]]


def instead_of_default(monkeypatch: pytest.MonkeyPatch, function: Any, name: str, value: object) -> None:
    """Give a parameter another default."""
    parameters = inspect.signature(function).parameters
    if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
        monkeypatch.setitem(function.__kwdefaults__, name, value)
        return
    with_default = [n for n, p in parameters.items() if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY]
    defaults = dict(zip(with_default, function.__defaults__, strict=True)) | {name: value}
    monkeypatch.setattr(function, "__defaults__", tuple(defaults.values()))


def test_every_command_is_among_those_that_only_read_or_those_that_make() -> None:
    makes = {name for name, group in base.GROUPS.items() if group.needs is base.Needs.ANY}
    assert makes == {"up", "evaluate"}
    assert {argv[0] for argv, _ in ONLY_READ} == set(base.GROUPS) - makes - {"prepare"}


@pytest.mark.parametrize(
    ("argv", "key", "text"),
    [
        (["--help"], "help", "usage: python -m core [-h]"),
        (["ledger", "--help"], "help", "usage: python -m core ledger [-h]"),
        (["ledger", "verify", "-h"], "help", "usage: python -m core ledger verify [-h]"),
        (["--version"], "version", "0."),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_help_and_version_are_one_document_too(
    argv: list[str], key: str, text: str, first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json", *argv] if first else [*argv, "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (list(document), err) == ([key], "")
    assert document[key].startswith(text)
    assert main(argv) == 0
    assert document[key] in capsys.readouterr().out


def test_no_command_reaches_the_terminal_with_what_it_obeys(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    obeyed = "\x1b[2J\x07\x9b31m\r\x7f\u202eevil\u2028"
    harmless = "tab\tline\nemoji 👩\u200d👧 مرحبا"
    command(say(f"{obeyed} {harmless}", document={"text": f"{obeyed} {harmless}"}))
    spelled = "\\u001b[2J\\u0007\\u009b31m\\u000d\\u007f\\u202eevil\\u2028"
    assert main(["trial"]) == 0
    assert capsys.readouterr().out == f"{spelled} {harmless}\n"
    assert main(["trial", "--json"]) == 0
    out = capsys.readouterr().out
    assert not set(obeyed) - set("[2J31mevil") & set(out)
    assert json.loads(out) == {"text": f"{obeyed} {harmless}"}
    base.progress(f"{obeyed} {harmless}")
    assert capsys.readouterr().err == f"{spelled} {harmless}\n"
    command(fail_with(InputError(f"No\n{obeyed}.", where=obeyed)))
    assert main(["trial"]) == 2
    assert capsys.readouterr().err == f"No\\u000a{spelled}. ({spelled})\n"


def test_bad_configuration_is_a_sentence(command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command(say())
    (tmp_path / "file").write_text("x")
    assert main(["trial", "--home", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == (
        f"The workspace is a file, not a folder. ({tmp_path / 'file'}) Give a folder with --home.\n"
    )


def test_an_input_error_raised_while_parsing_is_a_document(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(fail_with(InputError("No.")))
    assert main(["--json", "trial"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "bad_input"

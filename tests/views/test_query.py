"""`sql`: one SELECT over the views and nothing else, whatever is tried."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from core.clock import format_instant
from core.config import ROOT, Config
from core.errors import StoreError, ViewError
from core.records.trace import Trace
from core.views.query import run_query
from core.views.query_check import check
from core.views.query_process import answer_of
from core.views.views import Views
from tests.views.made import made_traces, store_of

ROWS = made_traces(8, 6)
SECRET = "nobody must read this"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Return a workspace with two segments, a tail, and a file in the trace folder that is not listed."""
    home = tmp_path_factory.mktemp("query") / "home"
    config = store_of(home, ROWS[:4], ROWS[4:])
    (config.traces / "secret.csv").write_text(f"a\n{SECRET}\n")
    (home / "secret.txt").write_text(SECRET)
    return config


@pytest.fixture(scope="module")
def asked(config: Config) -> Iterator[Views]:
    """Open the views as the process of a query does; most queries are asked without one, to save its start."""
    with closing(Views(config)) as views:
        yield views


def test_a_select_returns_columns_rows_and_no_more(config: Config) -> None:
    found = run_query(config, "SELECT trace_id, seed, created_at FROM trace ORDER BY trace_id")
    assert found.columns == ("trace_id", "seed", "created_at")
    assert found.rows == tuple((t.trace_id, t.seed, format_instant(t.created_at)) for t in ROWS)
    assert not found.truncated


def test_rows_beyond_the_limit_are_cut_and_said(config: Config) -> None:
    found = run_query(config, "SELECT 1 FROM trace CROSS JOIN range(1000)")
    assert len(found.rows) == 1000
    assert found.truncated
    exact = run_query(config, "SELECT i FROM range(1000) AS t(i)")
    assert (len(exact.rows), exact.truncated) == (1000, False)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH t AS (SELECT arm FROM trace) SELECT arm, count(*) FROM t GROUP BY arm -- a comment",
        "SELECT * FROM main.metric;",
        "FROM Trace SELECT count(*)",
        "SELECT (SELECT max(seq) FROM ledger_entry), pg_typeof(1)",
        "DESCRIBE trace",
        "SUMMARIZE SELECT score FROM trace",
        "VALUES (1), (2)",
        "WITH trace AS (SELECT * FROM trace), t AS (WITH u AS (SELECT * FROM trace) SELECT * FROM u) SELECT * FROM t",
        "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t",
        "SELECT unnest([1, 2]) UNION ALL SELECT i FROM generate_series(1, 3) AS g(i)",
        "SELECT e.value FROM trace, json_each(events) AS e LIMIT 1",
        'SELECT "at" FROM annotation',
        "SELECT sum(seed), DATE '2026-01-01', INTERVAL 1 DAY, 'a'::BLOB, uuid(), {'a': [1.5::DECIMAL(9,2)]} FROM trace",
    ],
)
def test_plain_selects_over_views_are_taken(asked: Views, sql: str) -> None:
    with asked.snapshot() as snapshot:
        assert answer_of(snapshot.cursor, sql, 10)["columns"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{home}/secret.txt')",
        "SELECT * FROM read_text('{traces}/secret.csv')",
        "SELECT * FROM read_csv('{traces}/secret.csv')",
        "SELECT * FROM read_csv_auto('{traces}/secret.csv')",
        "SELECT * FROM read_blob('{traces}/secret.csv')",
        "SELECT * FROM read_json('{traces}/secret.csv')",
        "SELECT * FROM read_parquet('{traces}/controlled/run-a/part.parquet')",
        "SELECT * FROM parquet_scan('{traces}/controlled/run-a/part.parquet')",
        "SELECT * FROM parquet_metadata('{traces}/controlled/run-a/part.parquet')",
        "SELECT * FROM sniff_csv('{traces}/secret.csv')",
        "SELECT * FROM glob('{home}/*')",
        "SELECT * FROM '{traces}/secret.csv'",
        'SELECT * FROM "{traces}/secret.csv"',
        "TABLE '{traces}/secret.csv'",
        "DESCRIBE '{traces}/secret.csv'",
        "SELECT (SELECT max(content) FROM read_text('{home}/secret.txt')) FROM trace",
        "SELECT 1 FROM trace WHERE arm IN (SELECT a FROM '{traces}/secret.csv')",
        "SELECT 1 FROM trace ORDER BY (SELECT count(*) FROM glob('*'))",
        "SELECT 1 UNION SELECT a FROM read_csv('{traces}/secret.csv')",
        "WITH x AS (SELECT * FROM read_csv('{traces}/secret.csv')) SELECT * FROM x",
        "WITH RECURSIVE x AS (SELECT 'a' UNION ALL SELECT * FROM glob('*')) SELECT * FROM x",
        'SELECT * FROM (WITH "{traces}/secret.csv" AS (SELECT 1) SELECT 1) t, "{traces}/secret.csv"',
        "SELECT sql FROM sqlite_master, (WITH sqlite_master AS (SELECT 1) SELECT 1)",
        "SELECT sql FROM (SELECT * FROM SQLITE_MASTER), (WITH Sqlite_Master AS (SELECT 1) SELECT 1)",
        "WITH sqlite_master AS (SELECT * FROM sqlite_master) SELECT * FROM sqlite_master",
        "WITH a AS (WITH duckdb_settings AS (SELECT 1) SELECT 1) SELECT * FROM duckdb_settings",
        "SELECT (WITH pg_class AS (SELECT 1) SELECT 1), (SELECT count(*) FROM pg_class)",
        "WITH RECURSIVE store_entry AS (SELECT 1 UNION ALL SELECT 2) SELECT body FROM store_entry",
        "SELECT * FROM (WITH trace_tail AS (SELECT 1) SELECT 1), memory.main.trace_tail",
        "SELECT * FROM (WITH mine AS (SELECT 1) SELECT * FROM mine), mine",
        "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('trace')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT getenv('HOME')",
        "SELECT current_setting('allowed_directories')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_views()",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM store_entry",
        "SELECT * FROM trace_tail",
        "SELECT * FROM python_arrow_scan(1, 2, 3)",
        "SELECT write_log('x')",
        "SELECT sleep_ms(100000)",
        "COPY (SELECT 1) TO '{traces}/out.csv'",
        "COPY trace TO '{traces}/controlled/run-a/part.parquet'",
        "EXPORT DATABASE '{traces}/out'",
        "ATTACH '{home}/store.sqlite' AS s",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET threads = 1",
        "CALL force_checkpoint()",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO trace_tail SELECT * FROM trace",
        "DROP VIEW trace",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "BEGIN; COPY trace TO '{traces}/out.csv'",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
        "SELEC 1",
        "SELECT nope FROM trace",
        "SELECT \x00",
        "SELECT ?",
        "SELECT '\ud800'",
    ],
)
def test_everything_else_is_refused_in_one_sentence_and_touches_no_file(config: Config, asked: Views, sql: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in config.home.rglob("*") if "store" not in p.name}
    sql = sql.replace("{home}", str(config.home)).replace("{traces}", str(config.traces))
    with asked.snapshot() as snapshot, pytest.raises(ViewError) as refused:
        answer_of(snapshot.cursor, sql, 10)
    assert SECRET not in str(refused.value)
    assert "\n" not in refused.value.message
    assert {p: p.stat().st_mtime_ns for p in config.home.rglob("*") if "store" not in p.name} == before


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT 1; SELECT 2", "One SELECT is taken, not 2 statements."),
        ("COPY (SELECT 1) TO 'x'", "Only a SELECT is taken, not COPY."),
        ("SELECT getenv('HOME')", "The function getenv is not allowed here."),
    ],
)
def test_the_refusal_names_what_is_refused(config: Config, sql: str, sentence: str) -> None:
    with pytest.raises(ViewError) as refused:
        run_query(config, sql)
    assert refused.value.message == sentence


LONG = "x" * 90_000


@pytest.mark.parametrize(
    ("sql", "begin"),
    [
        ("SELEC{}", "Parser Error: syntax error at or near"),
        ("SELECT * FROM trace WHERE {}", "Binder Error: Referenced column"),
        ("SELECT '{}'::INTEGER", "Conversion Error: Could not convert string"),
        ("SELECT {}(1)", "Catalog Error: Scalar Function with name"),
        ("SELECT read_{}(1)", "The function read_xxx"),
        ("SELECT * FROM {}(1)", "The table function xxx"),
        ("SELECT * FROM {}", "There is no view 'xxx"),
        ('WITH "{} " AS (SELECT 1) SELECT 1', "The WITH name 'xxx"),
    ],
)
def test_a_refusal_does_not_repeat_a_long_query(asked: Views, sql: str, begin: str) -> None:
    with asked.snapshot() as snapshot, pytest.raises(ViewError) as refused:
        answer_of(snapshot.cursor, sql.format(LONG), 10)
    assert refused.value.message.startswith(begin)
    assert len(refused.value.message) < 500


def test_a_failed_question_of_a_page_is_short_too(asked: Views) -> None:
    with asked.snapshot() as snapshot, pytest.raises(ViewError) as refused:
        snapshot.ask("trace", f"SELECT {LONG} FROM trace")
    assert refused.value.message.startswith("The question could not be answered: Binder Error")
    assert len(refused.value.message) < 500


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a DuckDB without views, in UTC."""
    with duckdb.connect() as connection:  # noqa: TID251 - what the views' own is compared with
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def test_no_with_name_opens_a_table_outside_its_query(asked: Views, plain: duckdb.DuckDBPyConnection) -> None:
    names = plain.execute("SELECT DISTINCT view_name FROM duckdb_views() ORDER BY 1").fetchall()
    assert len(names) > 30
    with asked.snapshot() as snapshot:
        for (name,) in names:
            with pytest.raises(ViewError, match=f"The WITH name '{name}' is the name of a table; take another"):
                check(snapshot.cursor, f"SELECT * FROM (WITH {name} AS (SELECT 1) SELECT 1), {name}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(10000000000) a, range(1000000) b",
        "SELECT len(list_sort(range(20000000)))",  # one step while planning: an interrupt is not seen, an answer comes
    ],
)
def test_a_query_that_takes_too_long_is_stopped(config: Config, sql: str) -> None:
    with pytest.raises(ViewError, match=r"The query took longer than 0\.3 seconds and was stopped\."):
        run_query(config, sql, seconds=0.3)


def test_the_limit_of_time_holds_when_nobody_waits_for_the_answer(config: Config) -> None:
    sql = "SELECT count(*) FROM range(10000000000) a, range(1000000) b"
    order = {"home": str(config.home), "sql": sql, "rows": 1, "seconds": 0.3}
    command = [sys.executable, "-m", "core.views.query_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        assert process.wait() == -signal.SIGALRM


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(i || repeat('x', 1000)) FROM range(100000000) AS t(i)",
        "SELECT list_sum(range(4000000000))",  # values that DuckDB does not count
    ],
)
def test_a_query_that_needs_too_much_memory_is_stopped(config: Config, sql: str) -> None:
    with pytest.raises(ViewError, match=r"needs more than 1GB of memory|took longer than"):
        run_query(config, sql)


def process_of_the_query(asking: subprocess.Popen[bytes]) -> Path:
    """Wait until the process that was started has one of its own in which DuckDB is loaded."""
    while asking.poll() is None:
        for child in Path(f"/proc/{asking.pid}/task/{asking.pid}/children").read_text().split():
            if "duckdb" in (process := Path("/proc") / child).joinpath("maps").read_text():
                return process
        time.sleep(0.02)
    raise AssertionError("it ended before it was asked to")


def running(process: Path) -> bool:
    """Return whether a process is there and is more than an entry that nobody has collected."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells a process's children")
def test_ctrl_c_ends_the_query_too(config: Config) -> None:
    sql = "SELECT count(*) FROM range(10000000000) a, range(1000000) b"
    code = (
        "import sys; from core.config import load; from core.views.query import run_query;"
        " run_query(load(sys.argv[1]), sys.argv[2], seconds=600)"
    )
    command = [sys.executable, "-c", code, str(config.home), sql]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as asking:
        process = process_of_the_query(asking)
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate()
    assert said.decode().splitlines()[-1] == "KeyboardInterrupt"
    patience = time.monotonic() + 60
    while running(process):  # it was killed; the system may take a moment
        assert time.monotonic() < patience
        time.sleep(0.02)


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("DATE 'infinity'", "infinity"),
        ("DATE '-infinity'", "-infinity"),
        ("DATE '99999-01-02'", "99999-01-02"),
        ("DATE '0044-03-15 (BC)'", "0044-03-15 (BC)"),
        ("DATE '2026-12-01'", "2026-12-01"),
        ("TIMESTAMP 'infinity'", "infinity"),
        ("TIMESTAMP '123456-01-01 00:00:00'", "123456-01-01 00:00:00"),
        ("TIMESTAMPTZ '-infinity'", "-infinity"),
        ("TIMESTAMPTZ '10000-01-01 00:00:00+00'", "10000-01-01 00:00:00+00"),
        ("TIMESTAMPTZ '2026-12-01 06:00:00.5+02'", "2026-12-01T04:00:00.500000Z"),
        ("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "0001-01-01T00:00:00.000000Z"),
        ("TIME '24:00:00'", "24:00:00"),
        ("TIME '23:59:59.5'", "23:59:59.5"),
        ("'24:00:00-15:59:59'::TIMETZ", "24:00:00-15:59:59"),
        ("'340282366920938463463374607431768211455'::UHUGEINT", 2**128 - 1),
        ("'-170141183460469231731687303715884105728'::HUGEINT", -(2**127)),
        ("123456789012345678901234567890123456789012345678901234567890::BIGNUM", int("1234567890" * 6)),
        ("sum(i) FROM range(4) AS t(i)", 6),
        ("1.50::DECIMAL(9, 2)", 1.5),
        ("9999999999999999999999999999.9999999999::DECIMAL(38, 10)", "9999999999999999999999999999.9999999999"),
        ("0.1 + 0.2::DOUBLE", 0.30000000000000004),
        ("'nan'::DOUBLE", "NaN"),
        ("'-inf'::FLOAT", "-Infinity"),
        ("-0.0::DOUBLE", -0.0),
        ("'101'::BIT", "101"),
        ("'a\\x00b'::BLOB", "a\\x00b"),
        ("INTERVAL '1 month 2 days'", "1 month 2 days"),
        ("'00000000-0000-0000-0000-000000000001'::UUID", "00000000-0000-0000-0000-000000000001"),
        ("'x'::ENUM('x', 'y')", "x"),
        ("union_value(age := 5)", {"age": 5}),
        ("MAP {1: DATE 'infinity'}", {"1": "infinity"}),
        ("{'a': [1.5, NULL], 'b': {'c': true}}", {"a": [1.5, None], "b": {"c": True}}),
        ("[TIME '24:00:00', NULL]", ["24:00:00", None]),
        ("[1, 2]::INTEGER[2]", [1, 2]),
        ("'[1, {\"a\": null}]'::JSON", [1, {"a": None}]),
        ("'a' || chr(0) || '\u2028\u202e'", "a\x00\u2028\u202e"),
        ("NULL", None),
        ("1::VARIANT", 1),
    ],
)
def test_a_value_is_what_duckdb_prints(plain: duckdb.DuckDBPyConnection, expression: str, value: Any) -> None:
    found = answer_of(plain, f"SELECT {expression}", 1)
    assert found["rows"] == [[value]]
    assert found == json.loads(json.dumps(found))


def test_every_type_that_duckdb_has_is_as_duckdb_prints_it(plain: duckdb.DuckDBPyConnection) -> None:
    plain.execute("CREATE VIEW trace AS FROM test_all_types()")
    types = dict(plain.execute("SELECT column_name, column_type FROM (DESCRIBE trace)").fetchall())
    printed = plain.execute("SELECT COLUMNS(*)::VARCHAR FROM trace").fetchall()
    found = answer_of(plain, "FROM trace", 10)
    assert found["columns"] == list(types)
    assert len(found["rows"]) == len(printed) == 3
    for row, texts in zip(found["rows"], printed, strict=True):
        for (name, kind), value, text in zip(types.items(), row, texts, strict=True):
            if text is None or value is None:
                assert value is text, name
            elif isinstance(value, bool):
                assert str(value).lower() == text, name
            elif isinstance(value, float):
                assert value == pytest.approx(float(text), rel=1e-7 if kind == "FLOAT" else 0), name
            elif not isinstance(value, list | dict):  # those are looked at above
                assert str(value) == text, name


def test_deep_nesting_is_refused_and_not_a_crash(config: Config) -> None:
    with pytest.raises(ViewError):
        run_query(config, "SELECT " + "(" * 20_000 + "1" + ")" * 20_000)


def test_a_damaged_segment_is_named_beside_the_rows(tmp_path: Path) -> None:
    rows: list[Trace] = made_traces(8, 6)
    config = store_of(tmp_path / "home", rows[:4], rows[4:])
    broken = sorted(config.traces.rglob("*.parquet"))[0]
    broken.write_bytes(b"not parquet")
    found = run_query(config, "SELECT count(*) FROM trace")
    assert len(found.left_out) == 1
    assert broken.relative_to(config.home).as_posix() in found.left_out[0]


def test_a_store_that_cannot_be_read_is_said_as_everywhere(tmp_path: Path) -> None:
    config = store_of(tmp_path / "home", [])
    for name in ("store.sqlite-wal", "store.sqlite-shm"):
        (config.home / name).unlink(missing_ok=True)
    config.store.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="The workspace's store cannot be read: ") as refused:
        run_query(config, "SELECT 1")
    assert refused.value.where == str(config.store)
    assert refused.value.next_step == "Run `python -m core ledger verify`."

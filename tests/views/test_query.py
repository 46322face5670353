"""`sql`: one SELECT over the views and nothing else, whatever is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.config import Config
from core.errors import ViewError
from core.records.trace import Trace
from core.views.query import run_query
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


def test_a_select_returns_columns_rows_and_no_more(config: Config) -> None:
    found = run_query(config, "SELECT trace_id, seed, created_at FROM trace ORDER BY trace_id")
    assert found.columns == ("trace_id", "seed", "created_at")
    assert found.rows == tuple((t.trace_id, t.seed, t.created_at) for t in ROWS)
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
        "SELECT unnest([1, 2]) UNION ALL SELECT i FROM generate_series(1, 3) AS g(i)",
        "SELECT e.value FROM trace, json_each(events) AS e LIMIT 1",
        'SELECT "at" FROM annotation',
        "SELECT sum(seed), DATE '2026-01-01', INTERVAL 1 DAY, 'a'::BLOB, uuid(), {'a': [1.5::DECIMAL(9,2)]} FROM trace",
    ],
)
def test_plain_selects_over_views_are_taken(config: Config, sql: str) -> None:
    assert run_query(config, sql).columns


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
    ],
)
def test_everything_else_is_refused_in_one_sentence_and_touches_no_file(config: Config, sql: str) -> None:
    before = {p: p.stat().st_mtime_ns for p in config.home.rglob("*") if "store" not in p.name}
    with pytest.raises(ViewError) as refused:
        run_query(config, sql.replace("{home}", str(config.home)).replace("{traces}", str(config.traces)))
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


def test_a_query_that_takes_too_long_is_stopped(config: Config) -> None:
    with pytest.raises(ViewError, match=r"The query took longer than 0\.3 seconds and was stopped\."):
        run_query(config, "SELECT count(*) FROM range(10000000000) a, range(1000000) b", seconds=0.3)


def test_a_query_that_needs_too_much_memory_is_stopped(config: Config) -> None:
    with pytest.raises(ViewError, match=r"needs more than 1GB of memory|took longer than"):
        run_query(config, "SELECT list(i || repeat('x', 1000)) FROM range(100000000) AS t(i)")


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

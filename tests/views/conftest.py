"""One store of random executions for the questions that only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from core.records.trace import Trace
from core.views.views import Snapshot, Views
from tests.views.made import made_traces, store_of


@pytest.fixture(scope="session")
def rows() -> list[Trace]:
    """Return the executions in the shared store: three quarters in segments, the rest in the tail."""
    return made_traces(2026, 48)


@pytest.fixture(scope="session")
def views(rows: list[Trace], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Views]:
    """Open the shared store; one of its three segments is kept in memory, two are read from disk."""
    with pytest.MonkeyPatch.context() as patch:
        config = store_of(tmp_path_factory.mktemp("views") / "home", rows[:36], rows[36:])
        largest = max(Counter(t.run_id for t in rows[:36]).values())
        patch.setattr("core.views.segments.RESIDENT_ROWS", largest)
        views = Views(config)
        with views.snapshot() as snapshot:
            shape = str(snapshot.ask("", "SELECT sql FROM duckdb_views() WHERE view_name = 'stored_trace'").rows())
            assert all(part in shape for part in ("newest_trace", "trace_tail", "read_parquet"))
    yield views
    views.close()


@pytest.fixture
def snapshot(views: Views) -> Iterator[Snapshot]:
    """Look at the shared store."""
    with views.snapshot() as snapshot:
        yield snapshot

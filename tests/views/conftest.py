"""One store of random executions for the questions that only read."""

from __future__ import annotations

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
    """Open the shared store."""
    views = Views(store_of(tmp_path_factory.mktemp("views") / "home", rows[:36], rows[36:]))
    yield views
    views.close()


@pytest.fixture
def snapshot(views: Views) -> Iterator[Snapshot]:
    """Look at the shared store."""
    with views.snapshot() as snapshot:
        yield snapshot

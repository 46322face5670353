from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from core.errors import ViewError
from core.records.filter import Filter
from core.records.trace import Trace
from core.views.read.export import export_bytes
from core.views.read.traces import field_names
from core.views.views import Snapshot, Views
from tests.views.made import made_trace, store_of

CELLS = {
    "=1+1": "'=1+1", "+cmd": "'+cmd", "-x": "'-x", "@f": "'@f", "\tx": "'\tx", "\rx": "'\rx", "=": "'=",
    "-3.5": "-3.5", "+1e5": "+1e5", "-.5": "-.5", "plain": "plain", "a=1": "a=1", 'q"uote,\nline': 'q"uote,\nline',
    "-1=cmd": "'-1=cmd", "שלום": "שלום",
}  # fmt: skip


@pytest.fixture
def cells() -> list[Trace]:
    """Return one execution a cell."""
    rng = random.Random(1)
    return [
        made_trace(rng, n, event_text=text, contract=None, run_id="run-a", evidence_class="demo", score=-1.5)
        for n, text in enumerate(CELLS)
    ]


def test_csv_cells_that_would_run_as_formulas_are_marked_and_numbers_are_not(
    tmp_path: Path, cells: list[Trace]
) -> None:
    views = Views(store_of(tmp_path / "home", cells))
    with views.snapshot() as snapshot:
        text = export_bytes(snapshot, Filter(), "csv").decode()
    views.close()
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [line["event_text"] for line in lines] == list(CELLS.values())
    assert {line["score"] for line in lines} == {"-1.5"}
    assert {line["contract"] for line in lines} == {""}
    assert list(lines[0]) == list(field_names())


def test_csv_tells_an_empty_text_from_an_undefined_one(tmp_path: Path) -> None:
    rows = [
        made_trace(random.Random(n), n, output=output, run_id="run-a", evidence_class="demo")
        for n, output in enumerate(["", None])
    ]
    views = Views(store_of(tmp_path / "home", rows))
    with views.snapshot() as snapshot:
        exported = export_bytes(snapshot, Filter.parse(["output:is:null"], field_names()), "csv").decode()
        whole = export_bytes(snapshot, Filter(), "csv").decode()
    views.close()
    assert exported.count("\n") >= 2
    assert ',"",' in whole


def test_an_unknown_format_is_refused(snapshot: Snapshot) -> None:
    with pytest.raises(ViewError, match=r"There is no export format 'xls'; there are csv, jsonl, parquet\."):
        export_bytes(snapshot, Filter(), "xls")

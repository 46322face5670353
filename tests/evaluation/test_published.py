from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from core.errors import InputError
from core.evaluation import contract, published
from core.evaluation.published import Known
from core.hashing import sha256_file


@pytest.mark.parametrize(("number", "columns", "rows"), [(1, 4, 8), (2, 3, 6), (3, 5, 8), (4, 5, 11), (5, 5, 9)])
def test_tables_1_to_5_are_whole(number: int, columns: int, rows: int) -> None:
    table = published.table(number)
    assert (len(table.columns), len(table.rows)) == (columns, rows)
    assert all(cell.strip() == cell != "" for row in table.rows for cell in row)


@pytest.mark.parametrize(("name", "number", "column"), [("controlled", 4, 2), ("eligibility", 5, 2)])
def test_a_contract_holds_the_thresholds_its_table_prints(name: str, number: int, column: int) -> None:
    if not (contract.CONTRACTS / f"{name}.csv").exists():
        pytest.skip(f"the {name} contract comes with its evaluation")
    printed = [float(row[column].lstrip("><= ")) for row in published.table(number).rows]
    assert printed == [c.threshold for c in contract.load(name).criteria]


def test_table_5_margins_are_observed_minus_threshold() -> None:
    for _, observed, threshold, margin, decision in published.table(5).rows:
        # Printed from unrounded values: a last digit may differ by one.
        assert float(margin) == pytest.approx(float(observed) - float(threshold), abs=1.01e-4)
        assert (decision == "met") == (float(margin) >= 0)


def test_a_fraction_rounds_to_the_number_it_stands_for() -> None:
    values = published.values()
    pairs = [(v, values[v.id.removesuffix("_fraction")]) for v in values.values() if v.id.endswith("_fraction")]
    assert len(pairs) == 13
    for fraction, printed in pairs:
        assert fraction.known is Known.INFERRED
        assert fraction.value is not None
        assert printed.value == pytest.approx(fraction.value, abs=6e-4)


def test_the_transfer_counts_add_up() -> None:
    v = published.values()
    negative = ["cancellation_negative", "expiry_negative", "near_miss_negative", "hedged_future_negative"]
    assert sum(v[f"transfer.{s}_specificity"].k or 0 for s in negative) == v["transfer.specificity_fraction"].k == 45
    positive = [v["transfer.indirect_positive_sensitivity"].k, v["transfer.other_positive_sensitivity"].k]
    assert sum(p or 0 for p in positive) == v["transfer.sensitivity_fraction"].k == 45
    assert (v["literature.studies"].value, v["literature.core_studies"].value) == (46, 37)


def test_what_was_not_reported_is_none_and_never_0() -> None:
    silent = [v for v in published.values().values() if v.known is Known.NOT_REPORTED]
    assert len(silent) >= 10
    assert all(v.value is None and v.k is None and v.note for v in silent)


def test_the_readme_states_the_hashes_of_the_files() -> None:
    text = (published.PUBLISHED / "README.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"- `(\w+\.csv)` `([0-9a-f]{64})`", text))
    assert stated == {p.name: sha256_file(p) for p in published.PUBLISHED.glob("*.csv")}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a.b,a,b,0.5,,,5,guessed,", "'guessed' is not a valid Known"),
        ("a.b,a,b,,,,5,reported,", "reported does not go with value '' and k/n /"),
        ("a.b,a,b,0.5,,,5,not reported,", "not reported does not go with value '0.5' and k/n /"),
        ("a.b,a,b,,3,,5,reported,", "k without n"),
        ("a.c,a,b,0.5,,,5,reported,", "id and section do not name its place"),
        ("a.b,a,b,0.5,,,,reported,", "id and section do not name its place"),
        ("a.b,a,b,0.5", "4 columns instead of 9"),
        ("a.b,a,b,half,,,5,reported,", "could not convert string to float: 'half'"),
    ],
)
def test_a_line_that_is_no_value_is_refused_by_number(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "values.csv").write_text(",".join(published.HEADER) + f"\nx.y,x,y,1,,,5,reported,\n{line}\n")
    with pytest.raises(InputError) as caught:
        published.values(tmp_path)
    assert caught.value.message == f"Line 3 of the published values is none: {what}."


def test_a_repeated_value_and_a_ragged_table_are_refused(tmp_path: Path) -> None:
    row = "x.y,x,y,1,,,5,reported,\n"
    (tmp_path / "values.csv").write_text(",".join(published.HEADER) + "\n" + row + row)
    with pytest.raises(InputError, match=r"Line 3 of the published values repeats x\.y"):
        published.values(tmp_path)
    shutil.copy(published.PUBLISHED / "table2.csv", tmp_path)
    with (tmp_path / "table2.csv").open("a") as f:
        f.write("P7\n")
    with pytest.raises(InputError, match="A published table has rows of several lengths"):
        published.table(2, tmp_path)
    with pytest.raises(InputError, match="There is no published table 6; there are 1 to 5"):
        published.table(6)

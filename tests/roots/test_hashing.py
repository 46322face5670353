from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.hashing import canonical_json, json_hash, sha256_file, sha256_hex, sha256_tree, text_hash

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="ascii")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_json_agrees_with_the_standard_library_without_floats(value: object) -> None:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json(value) == plain.encode()


def test_the_rfc_8785_example_comes_out_as_printed_in_the_rfc() -> None:
    value = {"numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 1e-27], "literals": [None, True, False]}
    expected = '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]}'
    assert canonical_json(value).decode() == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53 + 1, "\ud800", {1: "a"}])
def test_a_value_without_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="no canonical JSON form"):
        canonical_json(value)


def test_hashes_are_the_standard_librarys(tmp_path: Path) -> None:
    data = b"a" * 1_000_003
    (tmp_path / "f").write_bytes(data)
    assert sha256_file(tmp_path / "f") == sha256_hex(data) == hashlib.sha256(data).hexdigest()
    assert json_hash({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()
    assert text_hash("salt", "text") == hashlib.sha256(b"salttext").hexdigest()


def test_a_trees_hash_changes_with_a_name_or_a_byte_and_with_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("1")
    (tmp_path / "y.py").write_text("2")
    before = sha256_tree(tmp_path, ("**/*.py",))
    (tmp_path / "note.txt").write_text("not matched")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "z.py").write_text("derived")
    assert sha256_tree(tmp_path, ("**/*.py", "a/*.py")) == before
    (tmp_path / "y.py").rename(tmp_path / "z.py")
    renamed = sha256_tree(tmp_path, ("**/*.py",))
    assert renamed != before
    (tmp_path / "z.py").write_text("3")
    assert sha256_tree(tmp_path, ("**/*.py",)) != renamed

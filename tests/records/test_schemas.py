from __future__ import annotations

import json

import pytest

from core.records.schemas import FOLDER, NOUNS, documents


def test_the_schema_files_are_what_the_models_say() -> None:
    stored = {p.name: p.read_text() for p in FOLDER.glob("*.json")}
    assert stored == documents(), "run `python -m core.records.schemas`"


@pytest.mark.parametrize("name", NOUNS)
def test_every_field_has_its_sentence_and_nothing_extra_is_taken(name: str) -> None:
    schema = json.loads(documents()[f"{name}.schema.json"])
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(NOUNS[name].model_fields)
    for field, described in schema["properties"].items():
        assert described.get("description"), field


def test_every_schema_file_stands_in_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in documents())

"""JSON Schemas of the nouns that travel, as text; `python -m core.records.schemas` writes them to `data/schemas/`.

Promise: generated from the models alone, so a file that differs from `documents()` is out of date, and a test says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel

from core.config import DATA
from core.records.annotation import Annotation
from core.records.case import Case
from core.records.decision import Decision, ScoreLine
from core.records.event import Event
from core.records.filter import Filter
from core.records.record import Record
from core.records.run import CriterionRow, Manifest
from core.records.trace import Trace

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = DATA / "schemas"

NOUNS: Mapping[str, type[BaseModel]] = {
    "annotation": Annotation,
    "case": Case,
    "criterion": CriterionRow,
    "decision": Decision,
    "event": Event,
    "filter": Filter,
    "manifest": Manifest,
    "record": Record,
    "score_line": ScoreLine,
    "trace": Trace,
}
"""File name -> model."""


def documents() -> dict[str, str]:
    """Return the text of every schema file, by file name."""
    return {
        f"{name}.schema.json": json.dumps({"$schema": DIALECT} | model.model_json_schema(), indent=2) + "\n"
        for name, model in NOUNS.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, text in documents().items():
        (FOLDER / file_name).write_text(text)

"""A run's folder: `manifest.json`, `hashes.json`, `parts.json`, Parquet parts; in a workspace or in the evidence.

Promise: a part counts only when its bytes hash to what `parts.json` says; every file is written whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import EvidenceMissing, StoreError
from core.evaluation import metrics, properties
from core.evaluation.manifest import Hashes
from core.files import write_whole
from core.hashing import sha256_file
from core.ledger.trace_tail import list_segment, segments
from core.ledger.tx import Tx
from core.records.run import Manifest

MANIFEST, HASHES, PARTS, READS = "manifest.json", "hashes.json", "parts.json", "reads.json"
COLUMNS = tuple(
    dict.fromkeys(
        (
            *metrics.KEY, *metrics.POOLED_NEVER, *metrics.COMPARED, *properties.COLUMNS, "run_id", "execution_key",
            "model_action", "event_text", "regenerated",
        )
    )
)  # fmt: skip
"""What the metrics, properties and the diagnostic read."""


@dataclass(frozen=True)
class Part:
    """One finished shard."""

    name: str
    rows: int
    bytes: int
    sha256: str
    min_id: str
    max_id: str

    def problem(self, folder: Path) -> str | None:
        """Return what is wrong with its file, or None."""
        path = folder / f"{self.name}.parquet"
        try:
            size = path.stat().st_size
        except OSError:
            return f"The part {path.name} is missing"
        if size != self.bytes:
            return f"The part {path.name} has {size:,} bytes instead of {self.bytes:,}"
        if sha256_file(path) != self.sha256:
            return f"The part {path.name} is not the file that was written (its SHA-256 differs)"
        return None


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all, on disk before its name appears.

    Raises
    ------
    StoreError : the disk refuses.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with write_whole(path, what="A file of the run", kind=StoreError, next_step="Free some space and try again.") as f:
        f.write(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json`."""
    write_json(folder / MANIFEST, manifest.model_dump(mode="json"))


def read_manifest(folder: Path) -> Manifest:
    """Read `manifest.json`.

    Raises
    ------
    EvidenceMissing : it is missing or no manifest.
    """
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError) as e:
        raise EvidenceMissing("The run has no readable manifest.", where=str(folder / MANIFEST)) from e


def write_hashes(folder: Path, hashes: Hashes) -> None:
    """Write `hashes.json`: the file hashes behind the manifest's."""
    write_json(folder / HASHES, {k: dict(v) for k, v in vars(hashes).items()})


def read_hashes(folder: Path) -> Hashes:
    """Read `hashes.json`.

    Raises
    ------
    EvidenceMissing : it is missing or damaged.
    """
    try:
        told = json.loads((folder / HASHES).read_bytes())
        return Hashes(**{k: {str(p): str(h) for p, h in told[k].items()} for k in ("code", "data", "contract")})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise EvidenceMissing("The run has no readable file hashes.", where=str(folder / HASHES)) from e


def write_parts(folder: Path, parts: Iterable[Part]) -> None:
    """Write `parts.json`, sorted by name."""
    write_json(folder / PARTS, [asdict(p) for p in sorted(parts, key=lambda p: p.name)])


def read_parts(folder: Path) -> dict[str, Part]:
    """Return the finished parts by name; none where the run has no list yet.

    Raises
    ------
    EvidenceMissing : the list is damaged.
    """
    path = folder / PARTS
    try:
        return {p["name"]: Part(**p) for p in json.loads(path.read_bytes())}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise EvidenceMissing("The run's list of parts cannot be read.", where=str(path)) from e


def list_parts(tx: Tx, home: Path, folder: Path, parts: Iterable[Part], manifest: Manifest) -> None:
    """List a run's parts in the workspace's store; those that are listed already stay as they are.

    Parameters
    ----------
    home : the workspace, which listed paths are relative to.
    folder : where the parts lie.
    """
    listed = {s.path for s in segments(tx.conn)}
    for part in sorted(parts, key=lambda p: p.name):
        path = (folder / f"{part.name}.parquet").relative_to(home).as_posix()
        if path not in listed:
            list_segment(
                tx,
                path=path,
                rows=part.rows,
                sha256=part.sha256,
                min_id=part.min_id,
                max_id=part.max_id,
                evidence_class=manifest.evidence_class,
                run_id=manifest.run_id,
            )


def problems(folder: Path, parts: Mapping[str, Part]) -> list[str]:
    """Return a sentence for every part that is missing or not the file that was written."""
    return [f"{p}." for part in parts.values() if (p := part.problem(folder)) is not None]


def read_rows(folder: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Return a run's executions, its parts checked first.

    Returns
    -------
    One row an execution, in the order of the parts' names; undefined cells are missing values.

    Raises
    ------
    EvidenceMissing : no parts, or a damaged one.
    """
    parts = read_parts(folder)
    if not parts:
        raise EvidenceMissing("The run has no stored executions.", where=str(folder))
    if wrong := problems(folder, parts):
        raise EvidenceMissing(" ".join(wrong), where=str(folder), next_step="Run it again, or restore the files.")
    try:
        tables = [pq.read_table(folder / f"{name}.parquet", columns=list(columns)) for name in sorted(parts)]
        return pa.concat_tables(tables).to_pandas()
    except (pa.ArrowException, OSError) as e:
        raise EvidenceMissing(f"The run's executions cannot be read: {e}.", where=str(folder)) from e

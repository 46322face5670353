"""A run's folder: `manifest.json`, `hashes.json`, `parts.json`, Parquet parts; in a workspace or in the evidence.

Promise: a part counts only when its bytes hash to what `parts.json` says; every file is written whole or not at all.
Nobody signs `parts.json`, so what a criterion or a claim rests on is read by `read_listed_rows`: exactly the parts that
the store lists for the run, holding the executions of that run and no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, TypeAdapter

from core.errors import EvidenceMissing, StoreError, quoted
from core.evaluation import metrics, properties
from core.evaluation.manifest import Hashes
from core.files import write_whole
from core.hashing import sha256_file
from core.ledger.rows import SegmentRow
from core.ledger.trace_tail import list_segment, segments
from core.ledger.tx import Tx
from core.records.run import Manifest, RunStatus

MANIFEST, HASHES, PARTS, READS = "manifest.json", "hashes.json", "parts.json", "reads.json"
EVALUATION_LOCK = "work/evaluate.lock"
"""Below the home; held while an evaluation works in the workspace."""
COLUMNS = tuple(
    dict.fromkeys(
        (
            *metrics.KEY, *metrics.POOLED_NEVER, *metrics.COMPARED, *properties.COLUMNS, "run_id", "execution_key",
            "model_action", "event_text", "regenerated",
        )
    )
)  # fmt: skip
"""What the metrics, properties and the diagnostic read."""


RESTORE = "Restore the run's files from a copy, or run it again."


@dataclass(frozen=True)
class Part:
    """One finished shard."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    rows: Annotated[int, Field(ge=1)]
    bytes: Annotated[int, Field(ge=1)]
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


_PART_LIST = TypeAdapter(list[Part])


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
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise EvidenceMissing("The run has no readable file hashes.", where=str(folder / HASHES)) from e


def write_parts(folder: Path, parts: Iterable[Part]) -> None:
    """Write `parts.json`, sorted by name."""
    write_json(folder / PARTS, [asdict(p) for p in sorted(parts, key=lambda p: p.name)])


def read_parts(folder: Path) -> dict[str, Part]:
    """Return the finished parts by name; none where the run has no list yet.

    Raises
    ------
    EvidenceMissing : the list is damaged, or names a part twice.
    """
    path = folder / PARTS
    try:
        listed = _PART_LIST.validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise EvidenceMissing("The run's list of parts cannot be read.", where=str(path), next_step=RESTORE) from e
    parts = {p.name: p for p in listed}
    if len(parts) != len(listed):
        raise EvidenceMissing("The run's list of parts names a part twice.", where=str(path), next_step=RESTORE)
    return parts


def write_reads(folder: Path, run_id: str) -> None:
    """Write `reads.json`: the run whose executions a diagnostic reads."""
    write_json(folder / READS, {"run_id": run_id})


def read_reads(folder: Path) -> str | None:
    """Return the run whose executions a diagnostic reads; None where its file does not say."""
    try:
        told = json.loads((folder / READS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return told.get("run_id") if isinstance(told, dict) else None


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
        raise EvidenceMissing(" ".join(wrong), where=str(folder), next_step=RESTORE)
    try:
        tables = [pq.read_table(folder / f"{name}.parquet", columns=list(columns)) for name in sorted(parts)]
        return pa.concat_tables(tables).to_pandas()
    except (pa.ArrowException, OSError) as e:
        raise EvidenceMissing(f"The run's executions cannot be read: {e}.", where=str(folder)) from e


def read_listed_rows(
    folder: Path, manifest: Manifest, listed: Sequence[SegmentRow], listed_in: str, columns: Sequence[str] = COLUMNS
) -> pd.DataFrame:
    """Return a run's executions: exactly those the store lists for it, each saying that it belongs to it.

    Parameters
    ----------
    manifest : as the store holds it.
    listed : the run's segments in the store.
    listed_in : the folder that they must be listed in, relative to the home, POSIX.

    Raises
    ------
    EvidenceMissing : parts or rows are not the listed ones; the first difference is named.
    """
    if (told := read_manifest(folder).run_id) != manifest.run_id:
        raise _other(folder, f"The folder holds run {quoted(told)} instead of run {manifest.run_id}")
    if wrong := _unlisted(manifest, read_parts(folder), listed, listed_in):
        raise _other(folder, wrong)
    rows = read_rows(folder, columns)
    if wrong := _foreign(manifest, rows):
        raise _other(folder, wrong)
    return rows


def _other(folder: Path, sentence: str) -> EvidenceMissing:
    return EvidenceMissing(f"{sentence}: nothing is counted.", where=str(folder), next_step=RESTORE)


def _unlisted(
    manifest: Manifest, parts: Mapping[str, Part], listed: Sequence[SegmentRow], listed_in: str
) -> str | None:
    """Return the first difference between a run's parts and what the store says of them, or None."""
    run = f"run {manifest.run_id}"
    used = {f"{listed_in}/{name}.parquet": (p.sha256, p.rows) for name, p in parts.items()}
    known = {s.path: (s.sha256, s.rows) for s in listed}
    for path in sorted(known.keys() | used.keys()):
        if path not in used:
            return f"The store lists {path} for {run}, and parts.json does not name it"
        if path not in known:
            return f"parts.json names {path}, which the store does not list for {run}"
        if used[path] != known[path]:
            return f"parts.json gives {path} other rows or another SHA-256 than the store lists"
    count = sum(p.rows for p in parts.values())
    if count != manifest.stored:
        return f"The parts of {run} hold {count:,} executions, and the store says {manifest.stored:,}"
    whole = manifest.status in (RunStatus.COMPLETE, RunStatus.AMENDED)
    if whole and count != manifest.planned:
        return f"The {manifest.status} {run} holds {count:,} of the {manifest.planned:,} executions it planned"
    return None


def _foreign(manifest: Manifest, rows: pd.DataFrame) -> str | None:
    """Return what the first row that does not belong to the run says of itself, or None."""
    if len(rows) != manifest.stored:
        return f"The parts of run {manifest.run_id} hold {len(rows):,} executions instead of {manifest.stored:,}"
    for column in ("run_id", "evidence_class", "origin", "contract"):
        value = getattr(manifest, column)
        own = None if value is None else str(value)
        other = rows[column].notna() if own is None else rows[column].ne(own)
        if other.any():
            first = rows.loc[other, column].iloc[0]
            told = None if pd.isna(first) else str(first)
            return (
                f"An execution listed for run {manifest.run_id} says {column} {quoted(told)} instead of {quoted(own)}"
            )
    if (twice := rows["execution_key"].duplicated()).any():
        return f"Run {manifest.run_id} holds the execution {rows.loc[twice, 'execution_key'].iloc[0]} twice"
    return None

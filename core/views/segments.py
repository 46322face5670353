"""Which listed Parquet files can be read, and a sentence for each that cannot.

Promise: only listed files are read, and only while they are the bytes they were listed with. A file that is missing,
altered, foreign or outside the trace folders is left out and named; the others are still shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core.config import DATA, Config
from core.hashing import sha256_file
from core.traces.dataset import ARROW_SCHEMA
from core.views.tables import Segment, StoreReader

SHIPPED = DATA / "evidence"
"""Shipped evidence may be listed too, where it lies."""

Mark = tuple[int, int, int, int]
"""A file's inode, size, and times of its last write and of its last change of any kind; the latter cannot be set."""


@dataclass(frozen=True)
class Checked:
    """What was found out about one listed file."""

    mark: Mark | None
    """The file looked at; None: it was not there."""
    problem: str | None
    """Why it is left out."""
    exact: bool = True
    """Whether it has exactly our columns."""


RESIDENT_ROWS = 20_480
"""So many of the newest rows are kept in memory: a run lies in 30 files, and opening those is most of a question."""


@dataclass(frozen=True)
class Files:
    """The readable files, by how they are read."""

    resident: tuple[tuple[Path, Mark | None], ...] = ()
    """The newest, to be copied into memory; the mark tells when to copy them again."""
    exact: tuple[Path, ...] = ()
    """Of exactly our columns."""
    older: tuple[Path, ...] = ()
    """Lacking some."""


class Segments:
    """The listed segments of one workspace.

    Parameters
    ----------
    config : names the workspace; listed paths are relative to it.
    """

    def __init__(self, config: Config) -> None:
        self._home = config.home
        self._folders = trace_folders(config)
        self._listed: tuple[Segment, ...] = ()
        self._checked: dict[Segment, Checked] = {}
        self._copies: dict[Segment, str] = {}

    def stamp(self) -> tuple[Mark | None, ...]:
        """Return a value that changes when a listed file appears, vanishes or is written to."""
        return tuple(_mark(self._path(s)) for s in self._listed)

    def checked(self) -> tuple[Mark | None, ...]:
        """Return the stamp of what was checked: it differs from `stamp` where a file changed since."""
        return tuple(self._checked[s].mark for s in self._listed)

    @property
    def state(self) -> tuple[object, ...]:
        """What is listed, what was looked at, and what is left out: it differs as soon as any of them does."""
        return self._listed, self.checked(), self.problems

    def use(self, listed: Sequence[Segment]) -> None:
        """Take over a new list and check the files that are new or changed: bytes, columns, row count."""
        self._listed = tuple(listed)
        checked = {}
        for segment in self._listed:
            mark = _mark(self._path(segment))
            known = self._checked.get(segment)
            checked[segment] = known if known is not None and known.mark == mark else self._check(segment, mark)
        self._checked = checked
        self._copies = self._found_twice()

    def forget(self) -> None:
        """Check every file again at the next use, whatever its mark: reading one of them has failed."""
        self._checked = {}

    def files(self) -> Files:
        """Return the readable files, oldest first."""
        usable = sorted((s for s in self._listed if self._problem(s) is None), key=lambda s: s.min_id)
        room, resident = RESIDENT_ROWS, set()
        for segment in reversed(usable):
            if self._checked[segment].exact and segment.rows <= room:
                resident.add(segment)
                room -= segment.rows
        return Files(
            resident=tuple((self._path(s), self._checked[s].mark) for s in usable if s in resident),
            exact=tuple(self._path(s) for s in usable if self._checked[s].exact and s not in resident),
            older=tuple(self._path(s) for s in usable if not self._checked[s].exact),
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each listed file that is left out."""
        return tuple(p for s in self._listed if (p := self._problem(s)) is not None)

    @property
    def lost(self) -> tuple[Segment, ...]:
        """The listed files whose executions cannot be read; of a file that is listed twice they can."""
        return tuple(s for s in self._listed if self._checked[s].problem is not None)

    def _problem(self, segment: Segment) -> str | None:
        return self._checked[segment].problem or self._copies.get(segment)

    def _found_twice(self) -> dict[Segment, str]:
        """Return a sentence for each readable file of the same bytes as one listed before it."""
        first: dict[str, Segment] = {}
        for segment in self._listed:
            if self._checked[segment].problem is None:
                first.setdefault(segment.sha256, segment)
        return {
            s: f"The trace file {s.path} holds the same bytes as {of.path}; its {s.rows:,} executions are shown once."
            for s in self._listed
            if (of := first.get(s.sha256, s)) is not s and self._checked[s].problem is None
        }

    def _path(self, segment: Segment) -> Path:
        return (self._home / segment.path).resolve()

    def _check(self, segment: Segment, mark: Mark | None) -> Checked:
        path, file = self._path(segment), f"The trace file {segment.path}"
        lost = f"its {segment.rows:,} executions are not shown."
        if not any(path.is_relative_to(f) for f in self._folders):
            return Checked(mark, f"{file} lies outside the trace folders; {lost}")
        try:
            # Hashed before it is parsed: a file of the same size, rows and columns may still hold other values.
            if sha256_file(path) != segment.sha256:
                return Checked(mark, f"{file} is not the file that was listed (its SHA-256 differs); {lost}")
            rows, schema = _footer(path)
        except FileNotFoundError:
            return Checked(mark, f"{file} is missing; {lost}")
        except (pa.ArrowException, OSError) as e:
            return Checked(mark, f"{file} cannot be read ({str(e).splitlines()[0]}); {lost}")
        if foreign := [n for n in schema.names if not _fits(schema, n)]:
            return Checked(mark, f"{file} holds foreign columns ({', '.join(foreign)}); {lost}")
        if rows != segment.rows:
            return Checked(
                mark, f"{file} holds {rows:,} executions and was listed with {segment.rows:,}; none of them are shown."
            )
        return Checked(mark, None, exact=schema.names == ARROW_SCHEMA.names)


def trace_folders(config: Config) -> tuple[Path, ...]:
    """Return the folders that a listed file must lie in."""
    return config.traces.resolve(), SHIPPED.resolve()


@dataclass(frozen=True)
class ListedFiles:
    """What a look at every listed file of a workspace found."""

    listed: int
    """How many there are."""
    problems: tuple[str, ...]
    """A sentence for each that is missing, altered or damaged."""


def verify_files(config: Config) -> ListedFiles:
    """Hash every listed file of a workspace.

    Raises
    ------
    StoreError : the store that lists them cannot be read.
    """
    reader, segments = StoreReader(config.store), Segments(config)
    try:
        segments.use(reader.segments())
    finally:
        reader.close()
    return ListedFiles(len(segments.checked()), segments.problems)


def read(path: Path) -> pa.Table:
    """Return a whole file.

    Raises
    ------
    pa.ArrowException, OSError : it cannot be read.
    """
    with path.open("rb") as f:
        return pq.read_table(f)


def _mark(path: Path) -> Mark | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _footer(path: Path) -> tuple[int, pa.Schema]:
    with path.open("rb") as f:
        parquet = pq.ParquetFile(f)
        return parquet.metadata.num_rows, parquet.schema_arrow


def _fits(schema: pa.Schema, name: str) -> bool:
    return name in ARROW_SCHEMA.names and bool(schema.field(name).type == ARROW_SCHEMA.field(name).type)

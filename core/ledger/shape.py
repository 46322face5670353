"""The store's shape: its header and every table, index, trigger and view, compared with what the migrations make.

Promise: what guards the ledger (the triggers that refuse to change an entry) is there as it was made, nothing else
stands in the file, and no view stands in a table's place. What is expected comes from running the migrations on an
empty database, so that there is one description of the schema.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection

from core.ledger import schema

STATISTICS = frozenset({b"sqlite_stat1", b"sqlite_stat4"})
"""Made by SQLite's own ANALYZE; they change how fast a query is and nothing else."""

_MASTER = "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master"
# As bytes: a name that is no text must be named, not raised by the driver.

Objects = dict[tuple[bytes, bytes], tuple[bytes, bytes | None]]
"""Type and name -> the table it belongs to and the statement that made it."""


@dataclass(frozen=True)
class Shape:
    """What a file says it is, and what stands in it."""

    version: int
    """`user_version`: how many migrations were done."""
    application_id: int
    """Ours is `schema.APPLICATION_ID`."""
    objects: Objects
    """Every table, index, trigger and view."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the migrations make it."""

    sentence: str
    """What it is, in words."""
    unreadable: bool
    """Whether the tables can no longer be trusted to be read as ours: the header, or a table, differs."""


def read_shape(conn: Connection) -> Shape:
    """Return the shape of an open store."""
    version = int(conn.exec_driver_sql("PRAGMA user_version").scalar_one())
    application_id = int(conn.exec_driver_sql("PRAGMA application_id").scalar_one())
    return Shape(version, application_id, _objects(conn.exec_driver_sql(_MASTER).all()))


def differences(shape: Shape) -> Iterator[Difference]:
    """Yield what differs from a store of the version that the file names, the worst first.

    Parameters
    ----------
    shape : of a file that holds tables; its version is at most the newest.
    """
    if shape.application_id != schema.APPLICATION_ID:
        yield Difference(
            f"The file's application id was changed: it reads {shape.application_id:#x}, a store's is"
            f" {schema.APPLICATION_ID:#x}.",
            unreadable=True,
        )
    made = [expected(schema.MIGRATIONS[:n]) for n in range(len(schema.MIGRATIONS) + 1)]
    fitting = next((n for n in reversed(range(1, len(made))) if made[n] == shape.objects), None)
    if fitting is not None and fitting != shape.version:
        yield Difference(
            f"The file's schema version was changed: it reads {shape.version}, its tables are those of {fitting}.",
            unreadable=True,
        )
        return
    if not 0 < shape.version < len(made):
        yield Difference(f"The file's schema version was changed: it reads {shape.version}.", unreadable=True)
        return
    yield from sorted(_between(made[shape.version], shape.objects), key=lambda d: not d.unreadable)


@cache
def expected(migrations: tuple[tuple[str, ...], ...]) -> Objects:
    """Return what the migrations make of an empty database."""
    with closing(sqlite3.connect(":memory:")) as empty:
        for statements in migrations:
            for statement in statements:
                empty.execute(statement)
        return _objects(empty.execute(_MASTER).fetchall())


def is_ours(objects: Objects) -> bool:
    """Return whether the two tables that make a file a store are named in it, whatever its header says."""
    return {(b"table", b"entry"), (b"table", b"ledger_head")} <= objects.keys()


def _objects(rows: object) -> Objects:
    assert isinstance(rows, list)
    return {(kind, name): (table, sql) for kind, name, table, sql in rows if name not in STATISTICS}


def _between(made: Objects, found: Objects) -> Iterator[Difference]:
    for (kind, name), of in made.items():
        said = f"{_text(kind)} {_text(name)}"
        is_table = kind == b"table"
        if (kind, name) not in found:
            other = next((k for k, n in found if n == name), None)
            if other is None:
                yield Difference(f"The {said} is missing.", is_table)
            else:
                article = "An" if other == b"index" else "A"
                yield Difference(f"{article} {_text(other)} stands in the place of the {said}.", is_table)
        elif found[kind, name] != of:
            yield Difference(f"The {said} was changed: it is not as Duebook makes it.", is_table)
    names = {name for _, name in made}
    for kind, name in sorted(found.keys() - made.keys()):
        if name not in names:
            of_table = found[kind, name][0]
            on = "" if of_table == name else f" on {_text(of_table)}"
            yield Difference(f"The {_text(kind)} {_text(name)}{on} is not one that Duebook makes.", False)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")

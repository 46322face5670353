"""Writes annotations into a shared store and prints each id once it is stored. `writer.py STORE NAME COUNT`."""

from __future__ import annotations

import sys
from pathlib import Path

from core.ledger import annotation_store
from core.ledger.store import open_store
from tests.ledger.ledgers import annotation


def main(path: Path, name: str, count: int) -> None:
    """Write `count` annotations, one transaction each."""
    with open_store(path) as store:
        for n in range(count):
            with store.write(actor=f"person:{name}") as tx:
                annotation_store.add(tx, annotation(id=f"{name}-{n:04d}"))
            sys.stdout.write(f"{name}-{n:04d}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

"""What was frozen before it was scored: contracts and case sets, by hash, in the evidence ledger.

Promise: a file's last freeze is the one that counts; freezing it unchanged again adds nothing. Refused: anything but
regular files of `FOLDERS` (no links, pipes or devices, no names with characters that cannot be shown), read me and
derived files; a complete evaluation of anything that was not frozen as it stands.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config import DATA, ROOT
from core.errors import HIDDEN, EvidenceMissing, InputError
from core.evaluation.manifest import CONTROLLED_DATA, Hashes, case_files
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, EvidenceFrozen

EVIDENCE = DATA / "evidence"
FOLDERS = ("data/contracts", *CONTROLLED_DATA)
"""Where contracts and cases lie; nothing else can be frozen."""


@dataclass(frozen=True)
class Freeze:
    """What freezing one file came to."""

    file: str
    sha256: str
    before: str | None
    """The hash it was frozen with earlier; None: never."""
    added: bool
    """Whether an entry was added; a file frozen as it stands needs none."""


def frozen_files(evidence: Path = EVIDENCE) -> dict[str, str]:
    """Return the last frozen hash of every file, by its path in the project.

    Raises
    ------
    LedgerCorrupt : the evidence ledger does not verify.
    """
    entries = EvidenceLedger(evidence).entries()
    return {body["file"]: body["sha256"] for e, body in entries if e.kind == EntryKind.EVIDENCE_FROZEN.value}


def freeze(paths: Iterable[Path], actor: str, evidence: Path = EVIDENCE, root: Path = ROOT) -> list[Freeze]:
    """Freeze files, or all case files below a folder: all of them or none.

    Raises
    ------
    InputError : a path that is not there, holds no file, or is refused (see the module); then nothing is frozen.
    LedgerCorrupt : the evidence ledger does not verify; nothing is frozen.
    """
    files = {name: digest for path in paths for name, digest in _named(path, root).items()}
    EvidenceLedger(evidence).mend()
    known = frozen_files(evidence)
    done = [Freeze(name, digest, known.get(name), known.get(name) != digest) for name, digest in sorted(files.items())]
    told = [
        (EntryKind.EVIDENCE_FROZEN, EvidenceFrozen(file=f.file, sha256=f.sha256), f"file:{f.file}")
        for f in done
        if f.added
    ]
    EvidenceLedger(evidence).append_all(told, actor)
    return done


def _named(path: Path, root: Path) -> Mapping[str, str]:
    """Return the hashes of a file, or of all files below a folder, by their paths in the project."""
    _check(path, str(path))
    top, real = Path(os.path.realpath(root)), Path(os.path.realpath(path))
    if not real.is_relative_to(top):
        raise _refused(path, "Only files of this project can be frozen.")
    inside = real.relative_to(top)
    if not any(inside.is_relative_to(folder) for folder in FOLDERS):
        raise _refused(path, "Only contracts and cases are frozen.")
    mode = _mode(real)
    if mode is None:
        raise _refused(path, "There is no such file to freeze.")
    if stat.S_ISDIR(mode):
        for entry in _entries(real):
            _check(entry, entry.relative_to(real).as_posix())
        if not (found := case_files([inside.as_posix()], top)):
            raise _refused(path, "The folder holds no file to freeze.")
        return found
    name = inside.as_posix()
    found = case_files([inside.parent.as_posix()], top)
    if name not in found:
        raise _refused(path, "Read me files and files that can be made again are not frozen.")
    return {name: found[name]}


def _check(path: Path, name: str) -> None:
    """Refuse a name that cannot be shown, and anything that is neither a regular file nor a folder."""
    if HIDDEN.search(name):
        raise _refused(path, "A name with characters that cannot be shown cannot be frozen.")
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise _refused(path, f"{'A link' if stat.S_ISLNK(mode) else 'What is no regular file'} cannot be frozen.")


def _refused(path: Path, why: str) -> InputError:
    return InputError(why, where=str(path), next_step=f"Name files or folders of {' or '.join(FOLDERS)}.")


def _mode(path: Path) -> int | None:
    """Return what a path is, a link not followed; None where nothing is there."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return None


def _entries(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder, links not followed, but what a name beginning with a dot sets apart."""
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from _entries(path)


def differences(hashes: Hashes, evidence: Path = EVIDENCE) -> list[str]:
    """Return a sentence for each contract or case file that was not frozen as it stands."""
    known = frozen_files(evidence)
    return [
        f"{name} was never frozen" if name not in known else f"{name} was changed after it was frozen"
        for name, digest in sorted({**hashes.contract, **hashes.data}.items())
        if known.get(name) != digest
    ]


def require(hashes: Hashes, evidence: Path = EVIDENCE) -> None:
    """Do nothing where contract and case files are frozen as they stand.

    Raises
    ------
    EvidenceMissing : one of them is not.
    """
    if wrong := differences(hashes, evidence):
        raise EvidenceMissing(
            f"Contract and cases must be frozen before anything is scored on them: {wrong[0]}"
            + (f", and {len(wrong) - 1} more." if len(wrong) > 1 else "."),
            where=str(evidence / "ledger.jsonl"),
            next_step="Run `python -m core evidence freeze data/contracts data/controlled`.",
        )

"""What was frozen before it was scored: contracts and case sets, by hash, in the evidence ledger.

Promise: a file's last freeze is the one that counts; freezing it unchanged again adds nothing. Refused: a file outside
the project, a complete evaluation of anything that was not frozen as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config import DATA, ROOT
from core.errors import EvidenceMissing, InputError
from core.evaluation.manifest import Hashes, case_files
from core.hashing import sha256_file
from core.ledger.evidence_ledger import EvidenceLedger
from core.ledger.kinds import EntryKind, EvidenceFrozen

EVIDENCE = DATA / "evidence"


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
    InputError : a path that is not there, holds no file, or lies outside the project; then nothing is frozen.
    LedgerCorrupt : the evidence ledger does not verify; nothing is frozen.
    """
    files = {name: digest for path in paths for name, digest in _named(path, root).items()}
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
    resolved = path.resolve()
    if not resolved.is_relative_to(root):
        raise InputError("Only files of this project can be frozen.", where=str(path))
    inside = resolved.relative_to(root)
    own = inside.is_relative_to("data/evidence") or any(part.startswith(".") for part in inside.parts)
    if resolved == root or own:  # the evidence ledger changes with every freeze: frozen, it could never verify again
        raise InputError(
            "Only contracts and cases are frozen.", where=str(path), next_step="Name a contract or a folder of cases."
        )
    if resolved.is_file():
        return {resolved.relative_to(root).as_posix(): sha256_file(resolved)}
    if not resolved.is_dir():
        raise InputError("There is no such file to freeze.", where=str(path))
    found = case_files([resolved.relative_to(root).as_posix()], root)
    if not found:
        raise InputError("The folder holds no file to freeze.", where=str(path))
    return found


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

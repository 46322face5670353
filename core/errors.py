"""The error tree. Every error says what was wrong, where, and what to do next; nothing here does I/O.

Promise: an error as text is one line, and whatever it quotes, a terminal does not obey it.

`exit_code` is what the shell returns: 1 a check failed or an act was refused, 2 bad input or a missing package.
"""

from __future__ import annotations

import re
import reprlib

HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: they move the cursor, recolour, ring
    "\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides, isolates: they reorder what follows
    "\u200b\u2028\u2029\ufeff\ud800-\udfff]"  # zero-width space, line separators, byte-order mark, lone surrogates
)
"""Characters that a terminal obeys, or that hide or reorder what stands beside them."""


def spelled(text: str, keep: str = "") -> str:
    """Return the text with every hidden character written as its number, as JSON spells it, but those to keep.

    Parameters
    ----------
    keep : hidden characters that stay, like the line end of a text of several lines.
    """
    return HIDDEN.sub(lambda m: m[0] if m[0] in keep else f"\\u{ord(m[0]):04x}", text)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def quoted(value: object) -> str:
    """Return a value as an error quotes it: text in quotation marks, its middle left out where it is long."""
    return _SHORT.repr(value)


PLACE = 1_000
"""An error names its place by at most so many characters: an argument that is no path can be very long."""


def shortened(text: str, limit: int) -> str:
    """Return the text with its middle left out where it has more characters than the limit."""
    half = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


class DuebookError(Exception):
    """Root of every error Duebook raises on purpose.

    Parameters
    ----------
    message : one sentence: what was wrong, which id, what is allowed.
    where : the file, line, field or id it concerns.
    next_step : what the reader can do about it.
    """

    code = "error"
    exit_code = 2

    def __init__(self, message: str, *, where: str | None = None, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = None if where is None else shortened(where, PLACE)
        self.next_step = next_step

    def as_dict(self) -> dict[str, str | None]:
        """Return the failure document's inner object: code, message, where, next."""
        return {"code": self.code, "message": self.message, "where": self.where, "next": self.next_step}

    def __str__(self) -> str:
        """Return message, place and next step as one line for a terminal."""
        place = f" ({self.where})" if self.where else ""
        step = f" {self.next_step}" if self.next_step else ""
        return spelled(f"{self.message}{place}{step}")


class InputError(DuebookError):
    """A value from outside (argument, file, field) is not usable."""

    code = "bad_input"


class ConfigError(DuebookError):
    """The environment or the workspace folder is not usable as configured."""

    code = "config"


class MissingPackage(DuebookError):
    """A package or a packaged model that this action needs is not installed."""

    code = "missing_package"


class ConditionError(InputError):
    """A condition, payload or event text, or an expression, cannot be used."""

    code = "condition"


class CaseError(InputError):
    """A line of a case file is not a case."""

    code = "case"


class ModelError(DuebookError):
    """Model weights, tokenizer or lock are missing, damaged, or do not match each other."""

    code = "model"


class StoreError(DuebookError):
    """The operational store cannot be opened, or refuses what was asked of it."""

    code = "store"


class LedgerCorrupt(DuebookError):
    """The ledger's chain, or a table folded from it, does not verify."""

    code = "ledger_corrupt"
    exit_code = 1


class TransitionError(DuebookError):
    """A status change that is not legal from where the subject stands."""

    code = "transition"
    exit_code = 1


class PermissionRefused(DuebookError):
    """The acting identity does not hold the authority the act needs."""

    code = "permission"
    exit_code = 1


class EvidenceMissing(DuebookError):
    """Evidence that an act or a claim needs is not there."""

    code = "evidence_missing"
    exit_code = 1


class SealedDataError(DuebookError):
    """Somebody asked for data that is sealed, or for a class that must not be mixed."""

    code = "sealed"
    exit_code = 1


class CheckFailed(DuebookError):
    """A verification ran to its end and its answer is no."""

    code = "check_failed"
    exit_code = 1


class ImportRefused(InputError):
    """A file, or rows of it, were refused by an importer."""

    code = "import_refused"


class ViewError(InputError):
    """A question put to the views is malformed: unknown field, bad operator, a query that is not one SELECT."""

    code = "view"

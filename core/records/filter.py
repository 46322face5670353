"""The one filter: it drives table, chart, totals and export, and lives in the URL as sorted `f=field:op:value`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from core.errors import ViewError, quoted
from core.records.base import EVENT_BYTES, Noun, text_problem

TERMS = 200
"""A filter has at most so many comparisons: planning 10,000 of them took more memory than a small machine has."""


class FilterOp(StrEnum):
    """How a field is compared."""

    EQ = "eq"
    """Equal, as text."""
    NE = "ne"
    """Not equal, as text; undefined values are kept."""
    LT = "lt"
    """Less than."""
    LE = "le"
    """Less than or equal."""
    GT = "gt"
    """Greater than."""
    GE = "ge"
    """Greater than or equal."""
    CONTAINS = "contains"
    """Holds the text, ignoring case."""
    IS = "is"
    """`null` or `set`: undefined, or not."""


class FilterTerm(Noun):
    """One comparison."""

    field: str
    """A column of the view."""
    op: FilterOp
    """The comparison."""
    value: str
    """The value as text; bound, never pasted into SQL."""

    @property
    def token(self) -> str:
        """Its spelling in the URL."""
        return f"{self.field}:{self.op}:{self.value}"


class Filter(Noun):
    """A conjunction of terms; several `eq` terms of one field mean any of them."""

    terms: tuple[FilterTerm, ...] = ()
    """Sorted, without duplicates: equal filters are equal values."""

    @classmethod
    def of(cls, terms: Iterable[FilterTerm]) -> Filter:
        """Return the normal form of these terms."""
        return cls(terms=tuple(sorted(set(terms), key=lambda t: t.token)))

    @classmethod
    def parse(cls, tokens: Iterable[str], fields: Iterable[str]) -> Filter:
        """Read `field:op:value` tokens, the fields from the view's column list.

        Raises
        ------
        ViewError : an unknown field or operator, a token without three parts, more terms than `TERMS`, a value
            that no stored text could hold.
        """
        known = set(fields)
        terms: list[FilterTerm] = []
        for token in tokens:
            if len(terms) == TERMS:
                raise ViewError(f"A filter has at most {TERMS} comparisons.", next_step="Take some away.")
            field, _, rest = token.partition(":")
            op, colon, value = rest.partition(":")
            if not colon:
                raise ViewError(f"The filter {quoted(token)} is not field:op:value.")
            if field not in known:
                raise ViewError(f"The filter {quoted(token)} names {quoted(field)}, which is not a column here.")
            if op not in FilterOp.__members__.values():
                raise ViewError(f"The filter {quoted(token)} uses {quoted(op)}; allowed are {', '.join(FilterOp)}.")
            if value.strip() and (problem := text_problem(value, EVENT_BYTES)) is not None:
                raise ViewError(f"A filter value {problem}.")
            if op == FilterOp.IS and value not in ("null", "set"):
                raise ViewError(f"The filter {quoted(token)} must end in null or set.")
            terms.append(FilterTerm(field=field, op=FilterOp(op), value=value))
        return cls.of(terms)

    def tokens(self) -> list[str]:
        """Return the URL's `f` values, sorted."""
        return [t.token for t in self.terms]

    def with_term(self, field: str, op: FilterOp, value: str) -> Filter:
        """Return the filter with one term more."""
        return Filter.of((*self.terms, FilterTerm(field=field, op=op, value=value)))

    def without(self, field: str) -> Filter:
        """Return the filter without the terms of a field."""
        return Filter(terms=tuple(t for t in self.terms if t.field != field))

    def values(self, field: str, op: FilterOp = FilterOp.EQ) -> list[str]:
        """Return the values this filter compares a field with."""
        return [t.value for t in self.terms if t.field == field and t.op is op]

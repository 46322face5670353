"""An estimate with its interval, and Wilson's interval for rates (contrasts: `core.evaluation.bootstrap`).

Promise: undefined is None with n = 0, never 0. Refused: k outside 0..n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


@dataclass(frozen=True)
class Estimate:
    """One metric, observed."""

    metric: str
    """Its name in the contract."""
    observed: float | None
    """The point value; None: undefined."""
    ci_low: float | None
    """Lower end of the 95% interval."""
    ci_high: float | None
    """Upper end of the 95% interval."""
    n: int
    """Independent episodes; 0 when undefined."""
    k: int | None
    """Numerator (of a contrast: the difference of the numerators)."""
    interval: str
    """wilson | bootstrap."""
    terms: tuple[str, ...]
    """Filter tokens of the rows behind it."""


def wilson(k: int, n: int) -> tuple[float, float] | None:
    """Return the 95% Wilson score interval of k of n, or None for n = 0.

    Raises
    ------
    ValueError : k outside 0..n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"k = {k} is not in 0..{n}")
    if n == 0:
        return None
    p, z2 = k / n, Z * Z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # The ends are exact at 0 and n; rounding must not push them past.
    return (0.0 if k == 0 else centre - half), (1.0 if k == n else centre + half)


def rate(metric: str, k: int, n: int, terms: tuple[str, ...] = ()) -> Estimate:
    """Return k of n with its Wilson interval; n = 0 gives an undefined estimate."""
    bounds = wilson(k, n)
    if bounds is None:
        return Estimate(metric, None, None, None, 0, None, "wilson", terms)
    return Estimate(metric, k / n, bounds[0], bounds[1], n, k, "wilson", terms)

"""Percentile bootstrap over clusters: 5,000 resamples, seed 2026, a `match_id` with all its arms and boundaries.

Promise: the same clusters give the same interval, whatever the order or number of copies of their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

RESAMPLES = 5_000
SEED = 2026

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@lru_cache(maxsize=8)
def weights(clusters: int, resamples: int = RESAMPLES, seed: int = SEED) -> Counts:
    """Return how often each cluster is drawn in each resample.

    Returns
    -------
    (resamples, clusters); every row sums to `clusters`.
    """
    draws = np.random.default_rng(seed).integers(0, clusters, size=(resamples, clusters))  # (B, K)
    flat = draws + np.arange(resamples)[:, None] * clusters
    counts = np.bincount(flat.ravel(), minlength=resamples * clusters)
    return counts.reshape(resamples, clusters).astype(np.int64)


def interval(sums: Counts, statistic: Callable[[Counts], Values]) -> tuple[float, float] | None:
    """Return the 95% percentile interval of a statistic of summed counts.

    Parameters
    ----------
    sums : (clusters, columns), one row a cluster, in a fixed order of the clusters.
    statistic : maps (resamples, columns) summed counts to (resamples,) values; NaN where undefined.

    Returns
    -------
    Both ends, or None where there is no cluster or a resample is undefined.

    Source
    ------
    Paper section 3.4: 5,000 paired bootstrap iterations clustered by semantic episode.
    """
    if len(sums) == 0:
        return None
    values = statistic(weights(len(sums)) @ sums)  # (B,)
    if np.isnan(values).any():
        return None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)

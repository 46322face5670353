from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.evaluation import bootstrap
from core.evaluation.estimate import Z, rate, wilson


def by_bisection(k: int, n: int) -> tuple[float, float]:
    """Both p with (k/n - p)^2 = z^2 p (1 - p) / n, found by halving instead of by formula."""

    def excess(p: float) -> float:
        return abs(k / n - p) - Z * sqrt(p * (1 - p) / n)

    def root(inside: float, outside: float) -> float:
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if excess(middle) <= 0 else (inside, middle)
        return (inside + outside) / 2

    return (0.0 if k == 0 else root(k / n, 0.0)), (1.0 if k == n else root(k / n, 1.0))


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_equation(case: tuple[int, int]) -> None:
    assert wilson(*case) == pytest.approx(by_bisection(*case), abs=1e-9)


# Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_examples(k: int, n: int, low: float, high: float) -> None:
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


def test_nothing_out_of_nothing_is_undefined() -> None:
    estimate = rate("m", 0, 0)
    assert (estimate.observed, estimate.ci_low, estimate.ci_high, estimate.n, estimate.k) == (None, None, None, 0, None)


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_a_count_outside_its_total_is_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"k = {k} is not in 0..{n}"):
        wilson(k, n)


def test_each_resample_draws_as_many_clusters_as_there_are() -> None:
    drawn = bootstrap.weights(37)
    assert drawn.shape == (5000, 37)
    assert (drawn.sum(axis=1) == 37).all()
    assert np.array_equal(drawn, bootstrap.weights.__wrapped__(37))


def test_the_interval_equals_resampling_in_a_plain_loop() -> None:
    values = np.array([[3, 4], [0, 4], [4, 4], [2, 4], [1, 4]])
    rng = np.random.default_rng(2026)
    means = []
    for draw in rng.integers(0, 5, size=(5000, 5)):
        taken = [values[i] for i in draw]
        means.append(sum(int(v[0]) for v in taken) / sum(int(v[1]) for v in taken))
    expected = tuple(float(x) for x in np.percentile(means, [2.5, 97.5]))
    assert bootstrap.interval(values, lambda s: s[:, 0] / s[:, 1]) == pytest.approx(expected, abs=1e-12)


def test_no_cluster_has_no_interval() -> None:
    assert bootstrap.interval(np.zeros((0, 2), dtype=np.int64), lambda s: s[:, 0] / s[:, 1]) is None

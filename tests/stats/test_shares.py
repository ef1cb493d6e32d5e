"""Bounds of a rate, against the definition summed term by term."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from pytest_winml.stats.shares import at_least, at_most


def at_most_hits(hits: int, trials: int, rate: float) -> float:
    """P(X <= hits), exactly."""
    hit = Fraction(rate)
    return float(sum(math.comb(trials, k) * hit**k * (1 - hit) ** (trials - k) for k in range(hits + 1)))


@pytest.mark.parametrize("trials", [1, 2, 5, 20, 61])
def test_each_bound_leaves_exactly_five_per_cent_beyond_it(trials: int) -> None:
    for hits in range(trials):
        assert at_most_hits(hits, trials, at_most(hits, trials)) == pytest.approx(0.05, abs=1e-9)
    for hits in range(1, trials + 1):
        assert 1 - at_most_hits(hits - 1, trials, at_least(hits, trials)) == pytest.approx(0.05, abs=1e-9)


def test_no_hits_and_only_hits_have_a_formula() -> None:
    assert at_most(0, 5) == pytest.approx(1 - 0.05 ** (1 / 5))
    assert at_least(5, 5) == pytest.approx(0.05 ** (1 / 5))
    assert at_least(0, 5) == 0.0
    assert at_most(5, 5) == 1.0


def test_nothing_tried_says_nothing() -> None:
    assert (at_least(0, 0), at_most(0, 0)) == (0.0, 1.0)


def test_thousands_of_trials_are_no_trouble() -> None:
    assert at_most(0, 10_000) == pytest.approx(1 - 0.05 ** (1 / 10_000))
    assert at_least(9_999, 10_000) < 0.9999 < at_most(9_999, 10_000)


def test_more_confidence_is_a_wider_bound() -> None:
    assert at_most(1, 20, confidence=0.99) > at_most(1, 20)

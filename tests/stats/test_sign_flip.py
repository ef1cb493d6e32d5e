"""The test is as slow counting says, and as often wrong as it says."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.stats.sign_flip import Looks, all_sums, fixed_p_value, walk
from tests.stats import oracle

if TYPE_CHECKING:
    from pytest_winml.stats.location import Floats

SMALL = Looks(at=(5, 6, 8), alpha=0.10)
EVERY = Looks.up_to(16)

# A coarse grid makes ties, zeros and equal sizes common.
coarse = st.lists(st.integers(-4, 4).map(float), min_size=8, max_size=8)
fine = st.lists(st.floats(-1, 1).map(lambda x: round(x, 4)), min_size=8, max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.one_of(coarse, fine), st.sampled_from([0.0, 0.25, -0.5]))
def test_it_decides_as_counting_all_sign_vectors_one_by_one_does(differences: list[float], shift: float) -> None:
    found = walk(np.array(differences), SMALL, shift=shift).rejected_at
    assert found == oracle.rejected_at(differences, SMALL.at, SMALL.alpha, shift)


@pytest.mark.parametrize("shape", ["normal", "cauchy"])
def test_the_oracle_agrees_where_much_is_rejected(shape: str) -> None:
    """Random draws reject too rarely to say much; these lean to one side, and the wild ones meet the cap."""
    lot = np.random.default_rng(3)
    draws = lot.normal(0.6, 1.0, (40, 8)) if shape == "normal" else 1.0 + lot.standard_cauchy((40, 8))
    ours = [walk(row, SMALL).rejected_at for row in draws]
    assert ours == [oracle.rejected_at(row.tolist(), SMALL.at, SMALL.alpha) for row in draws]
    assert {None, 5, 8} <= set(ours)


def test_all_sums_are_those_of_all_sign_vectors_first_session_first() -> None:
    weights = np.array([1.0, 10.0, 100.0])
    expected = [
        sum(s * w for s, w in zip(signs, weights, strict=True)) for signs in itertools.product((1, -1), repeat=3)
    ]
    assert all_sums(weights).tolist() == expected


@pytest.mark.parametrize("shape", ["cauchy", "t2", "bimodal", "normal", "growing"])
def test_peeking_at_every_session_is_wrong_no_more_often_than_promised(shape: str) -> None:
    draws = 3_000
    wrong = sum(walk(row, EVERY).rejected_at is not None for row in _symmetric(shape, draws))
    assert wrong / draws <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / draws)
    assert wrong / draws > 0.03  # and it does spend what it may


def _symmetric(shape: str, draws: int) -> Floats:
    lot = np.random.default_rng(sum(map(ord, shape)))
    size = (draws, 12)
    if shape == "cauchy":
        return lot.standard_cauchy(size)
    if shape == "t2":
        return lot.standard_t(2, size)
    if shape == "bimodal":
        return lot.choice((-1.0, 1.0), size) + lot.normal(0, 0.1, size)
    if shape == "growing":  # sessions need not be alike, only fair
        return np.asarray(lot.normal(0, 1, size) * np.arange(1, 13))
    return lot.normal(0, 1, size)


def test_six_sessions_of_one_sign_are_the_least_that_decide() -> None:
    assert walk(np.full(6, 0.1), EVERY).rejected_at == 6
    assert walk(np.full(5, 0.1), EVERY).rejected_at is None
    assert walk(np.array([0.1] * 5 + [-0.1]), EVERY).rejected_at is None


def test_what_was_rejected_stays_rejected() -> None:
    turned = np.array([0.1] * 6 + [-0.5] * 4)
    assert walk(turned, EVERY).rejected_at == 6


def test_a_p_value_is_never_zero_and_counts_the_observed_signs() -> None:
    assert fixed_p_value(np.arange(1.0, 7.0)) == 1 / 64
    assert fixed_p_value(-np.arange(1.0, 7.0)) == 1.0
    assert walk(np.arange(1.0, 7.0), EVERY).p_value == 1 / 64


def test_zeros_everywhere_reject_nothing() -> None:
    assert walk(np.zeros(16), EVERY) == (None, 1.0)


def test_a_rejection_is_a_p_value_within_what_may_be_spent() -> None:
    for row in np.random.default_rng(5).normal(0.5, 1.0, (100, 10)):
        found = walk(row, EVERY)
        if found.rejected_at:
            assert found.p_value <= EVERY.spent(found.rejected_at)


def test_the_whole_error_is_spent_at_the_last_look() -> None:
    assert EVERY.spent(16) == pytest.approx(0.05)
    assert [EVERY.vectors(sessions) for sessions in (6, 8, 10)] == [1, 7, 37]


@pytest.mark.parametrize("at", [(), (6, 6), (8, 6), (0, 6), (6, 17)])
def test_looks_that_make_no_sense_are_refused(at: tuple[int, ...]) -> None:
    with pytest.raises(UsageProblem, match="looks"):
        Looks(at=at)


def test_more_sessions_than_can_be_counted_are_refused() -> None:
    with pytest.raises(UsageProblem, match="17 sessions"):
        fixed_p_value(np.ones(17))

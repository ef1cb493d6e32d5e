from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.stats.location import hodges_lehmann, median, quantile, trimmed_mean

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_hodges_lehmann_is_the_median_of_all_pairwise_means(values: list[float]) -> None:
    walsh = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2)]
    assert hodges_lehmann(np.array(values)) == pytest.approx(statistics.median(walsh))


@given(st.lists(numbers, min_size=1, max_size=20))
def test_locations_change_sign_with_the_values(values: list[float]) -> None:
    array = np.array(values)
    assert hodges_lehmann(-array) == -hodges_lehmann(array)
    assert median(-array) == -median(array)
    assert median(array) == pytest.approx(statistics.median(values))


def test_one_wild_value_in_eight_does_not_move_the_trimmed_mean() -> None:
    calm = np.log(np.full((1, 24), 5e6))
    wild = calm.copy()
    wild[0, :3] += 7
    assert trimmed_mean(wild) == pytest.approx(trimmed_mean(calm))


def test_the_trimmed_mean_drops_as_many_at_either_end() -> None:
    assert trimmed_mean(np.array([[9.0, 1.0, 2.0, 3.0, -50.0]]), 0.2)[0] == pytest.approx(2.0)


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert quantile(np.array([1.0, 3.0]), 0.5) == 2.0

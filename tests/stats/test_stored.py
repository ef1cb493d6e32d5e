from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_winml.errors import InvalidSamples
from pytest_winml.stats.stored import compare_stored, split_p_value

STORED = np.random.default_rng(1).normal(0.9, 0.02, 12)
NEW = np.random.default_rng(2).normal(0.9, 0.02, 8)


@pytest.mark.parametrize(
    ("change", "outcome"), [(0.0, "EQUIVALENT"), (0.12, "REGRESSED"), (-0.12, "IMPROVED"), (0.075, "REGRESSED")]
)
def test_it_finds_what_is_there_and_says_which_way_it_went(change: float, outcome: str) -> None:
    verdict = compare_stored(STORED, NEW + math.log1p(change))
    assert verdict.outcome == outcome
    assert verdict.route == "stored"
    assert verdict.effect == pytest.approx(change, abs=0.03)
    assert verdict.interval is not None
    assert verdict.interval[0] < change < verdict.interval[1]
    assert verdict.reasons == ("compared with 12 stored sessions, each relative to its own process's canary.",)
    assert verdict.mde is not None
    assert 0 < verdict.mde < 0.10


def test_a_certain_slowdown_that_is_too_small_to_matter_is_no_alarm() -> None:
    assert compare_stored(STORED, STORED[:8] * 0 + np.median(STORED) + 0.035).outcome == "EQUIVALENT"


def test_noise_leaves_it_open() -> None:
    noisy = np.random.default_rng(3).normal(0, 0.3, 8)
    assert compare_stored(noisy, noisy[::-1] + 0.01).outcome == "INCONCLUSIVE"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=5),
    st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=5),
)
def test_few_sessions_are_split_in_all_ways_there_are(lower: list[float], higher: list[float]) -> None:
    values = lower + higher
    ranks = [(sum(one < value for one in values) + sum(one <= value for one in values) + 1) / 2 for value in values]
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(higher))]
    expected = sum(one >= sum(ranks[len(lower) :]) for one in sums) / len(sums)
    assert split_p_value(np.array(lower), np.array(higher)) == pytest.approx(expected)


def test_many_sessions_are_split_by_lot_and_the_same_lot_every_time() -> None:
    first = split_p_value(STORED, NEW + 0.01, seed=4)
    assert first == split_p_value(STORED, NEW + 0.01, seed=4)
    assert first == pytest.approx(split_p_value(STORED, NEW + 0.01, seed=5), abs=0.05)
    assert split_p_value(STORED, NEW + 1.0, seed=1) == 1 / 2000  # never zero


def test_it_is_wrong_no_more_often_than_it_says() -> None:
    lot = np.random.default_rng(8)
    trials = 400
    wrong = sum(split_p_value(lot.standard_t(2, 7), lot.standard_t(2, 5)) <= 0.05 for _ in range(trials))
    assert wrong / trials <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / trials)


def test_sessions_that_agree_to_the_bit_are_equivalent() -> None:
    verdict = compare_stored([0.5] * 12, [0.5] * 8)
    assert (verdict.outcome, verdict.effect) == ("EQUIVALENT", 0.0)
    assert verdict.interval == pytest.approx((-0.01, 0.01), abs=1e-4)  # what the canary may have missed
    assert verdict.mde == 0.0


def test_groups_wholly_apart_are_as_rare_as_a_split_can_be() -> None:
    assert split_p_value(np.arange(4.0), np.arange(4.0) + 10) == 1 / 70


def test_asked_both_ways_a_speed_up_has_to_be_excluded_too() -> None:
    wide = np.linspace(-0.02, 0.02, 8)
    assert compare_stored(wide, wide - 0.04, alternative="slower").outcome == "EQUIVALENT"
    assert compare_stored(wide, wide - 0.045, alternative="both").outcome in {"EQUIVALENT", "INCONCLUSIVE"}


def test_too_few_sessions_carry_no_verdict() -> None:
    verdict = compare_stored([0.1] * 12, [0.9] * 3)
    assert verdict.outcome == "INCONCLUSIVE"
    assert verdict.reasons == ("12 stored sessions and 3 new ones can carry no verdict.",)


@pytest.mark.parametrize("bad", [[], [math.nan] * 5, [math.inf] * 5, ["a"], [None], [[1.0]]])
def test_figures_that_are_none_are_refused(bad: list[float]) -> None:
    with pytest.raises(InvalidSamples, match="stored session"):
        compare_stored(bad, [0.1] * 8)
    with pytest.raises(InvalidSamples, match="new session"):
        compare_stored([0.1] * 8, bad)

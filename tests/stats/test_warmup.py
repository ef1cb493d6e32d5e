from __future__ import annotations

import pytest

from pytest_winml.stats.warmup import Warmup, warmup_state

MS = 1_000_000


def test_a_steady_arm_is_warm_after_a_second() -> None:
    assert not warmup_state([50 * MS] * 19).done
    state = warmup_state([50 * MS] * 20)
    assert (state.done, state.converged, state.iterations, state.spent_s) == (True, True, 20, 1.0)


def test_an_arm_that_still_falls_goes_on_until_the_cap() -> None:
    falling = [round(200 * MS * 0.97**step) for step in range(200)]
    taken = next(count for count in range(1, 200) if warmup_state(falling[:count]).done)
    state = warmup_state(falling[:taken])
    assert not state.converged
    assert state.spent_s >= 5.0
    assert sum(falling[: taken - 1]) < 5e9


def test_an_arm_that_settles_is_warm_when_two_windows_agree() -> None:
    times = [400 * MS] * 4 + [60 * MS] * 40
    taken = next(count for count in range(1, 44) if warmup_state(times[:count]).done)
    assert 20 <= taken <= 24
    assert warmup_state(times[:taken]).converged


def test_a_model_slower_than_the_cap_stops_unconverged() -> None:
    state = warmup_state([6_000 * MS])
    assert (state.done, state.converged) == (True, False)


@pytest.mark.parametrize("times", [[], [0] * 50, [-1] * 50])
def test_a_clock_that_stands_still_or_goes_back_does_not_end_it(times: list[int]) -> None:
    assert not warmup_state(times).done


def test_the_rule_is_a_value() -> None:
    quick = Warmup(fewest_iterations=2, least_s=0.0, window=2, agree_within=0.5)
    assert warmup_state([MS] * 4, quick).converged

from __future__ import annotations

import pytest

from pytest_winml.errors import InvalidSamples
from pytest_winml.records.latency import FEWEST_FOR, Latency, Samples


def latency(*times_ms: int) -> Latency:
    return Latency(sessions=(Samples(times_ns=tuple(time * 1_000_000 for time in times_ms)),))


def test_the_median_of_one_and_three_is_two() -> None:
    assert latency(3, 1).p50_ms == 2.0


def test_one_sample_is_its_own_median() -> None:
    assert latency(7).p50_ms == 7.0


@pytest.mark.parametrize("times", [(), (0,), (5, -1, 7)])
def test_no_samples_and_times_that_no_clock_gives_are_refused(times: tuple[int, ...]) -> None:
    with pytest.raises(InvalidSamples):
        Samples(times_ns=times)


def test_a_quantile_is_there_when_the_samples_support_it() -> None:
    few, enough = FEWEST_FOR[0.90] - 1, FEWEST_FOR[0.90]
    assert latency(*range(1, few + 1)).p90_ms is None
    assert latency(*range(1, enough + 1)).p90_ms == pytest.approx(1 + 0.9 * (enough - 1))
    assert latency(*range(1, enough + 1)).p99_ms is None
    assert latency(*[5] * FEWEST_FOR[0.99]).p99_ms == 5.0


def test_samples_of_all_sessions_count() -> None:
    both = Latency(sessions=(Samples(times_ns=(1_000_000,)), Samples(times_ns=(3_000_000,))))
    assert both.p50_ms == 2.0
    assert both.samples.times_ns == (1_000_000, 3_000_000)

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_winml import PairedTest, SimulatedDevice
from pytest_winml.stats.tails import Tail, tail_of, tail_reasons
from tests.stats.driving import settle

if TYPE_CHECKING:
    from pytest_winml.records.latency import SessionPlan


class TailedDevice:
    """Arm B has another median, and slow runs that are slower yet."""

    def __init__(self, *, median: float, slow_share: float, slow: float) -> None:
        self._lot = np.random.default_rng(1)
        self._median, self._share, self._slow = median, slow_share, slow

    def run(self, plan: SessionPlan) -> list[tuple[str, list[float]]]:
        return [(arm, self._times(arm, iterations)) for arm, iterations in plan.blocks]

    def _times(self, arm: str, iterations: int) -> list[float]:
        times = 5e6 * np.exp(self._lot.normal(0, 0.02, iterations))
        if arm == "B":
            times *= np.where(self._lot.random(iterations) < self._share, self._slow, self._median)
        return [float(time) for time in times]


def judged(device: TailedDevice, test: PairedTest) -> PairedTest:
    while test.verdict is None:
        test.add(device.run(test.next_session()))
    return test


def test_a_better_median_with_a_worse_tail_says_so() -> None:
    device = TailedDevice(median=0.85, slow_share=0.13, slow=1.6)
    verdict = judged(device, PairedTest(seed=1, latency_hint_ns=5e6)).verdict
    assert verdict is not None
    assert verdict.outcome == "IMPROVED"
    assert verdict.p90_effect is not None
    assert verdict.p90_effect > 0.3
    assert verdict.spread_effect is not None
    assert verdict.spread_effect > 1
    assert verdict.reasons[-1].startswith("the median is better, but the tail is worse: p90 is ")


def test_the_same_device_is_a_regression_of_the_tail_when_that_is_the_objective() -> None:
    device = TailedDevice(median=0.85, slow_share=0.13, slow=1.6)
    verdict = judged(device, PairedTest(seed=1, latency_hint_ns=5e6, objective="p90")).verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.objective) == ("REGRESSED", "p90")
    assert verdict.p90_effect is None


def test_a_tail_that_follows_the_median_is_not_worth_a_word() -> None:
    verdict = settle(PairedTest(seed=1, latency_hint_ns=5e6), SimulatedDevice("calm", seed=1, slowdown=-0.2))
    assert verdict.p90_effect == pytest.approx(-0.2, abs=0.02)
    assert len(verdict.reasons) == 1


def test_p99_gets_sessions_long_enough_and_a_verdict() -> None:
    test = PairedTest(seed=1, latency_hint_ns=5e6, objective="p99")
    plan = test.next_session()
    assert sum(iterations - 2 for arm, iterations in plan.blocks if arm == "A") >= 473
    verdict = settle(test, SimulatedDevice("calm", seed=4, slowdown=0.3))
    assert (verdict.outcome, verdict.objective) == ("REGRESSED", "p99")


@pytest.mark.parametrize("sessions_before", [0, 1])
def test_p99_of_a_model_too_slow_for_it_is_refused_with_the_reason(sessions_before: int) -> None:
    test = PairedTest(seed=1, latency_hint_ns=2e9 if not sessions_before else None, objective="p99")
    if sessions_before:
        test.add([(arm, [2e9] * iterations) for arm, iterations in test.next_session().blocks])
    assert test.verdict is not None
    assert test.verdict.outcome == "INCONCLUSIVE"
    assert test.verdict.reasons[0].startswith("no verdict about p99: it needs 473 samples of each arm in a session")


def test_too_few_samples_have_no_tail() -> None:
    assert tail_of(np.zeros(45), np.zeros(45)) == Tail()
    assert tail_of(np.zeros(46), np.zeros(46)) == Tail(p90=0.0, spread=None)
    assert tail_reasons([Tail()] * 6, "IMPROVED", 0.05) == ()


def test_a_worse_median_with_a_better_tail_says_so() -> None:
    tails = [Tail(p90=-0.2 + 0.001 * at, spread=-0.1) for at in range(6)]
    said = tail_reasons(tails, "REGRESSED", 0.05)
    assert said == (f"the median is worse, but the tail is better: p90 is {100 * -math.expm1(-0.1975):.1f} % faster.",)

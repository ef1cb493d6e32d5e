from __future__ import annotations

import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.simulator import SimulatedDevice
from pytest_winml.stats.canary_pairs import CanaryPairedTest
from tests.stats.driving import constant, settle


@pytest.mark.parametrize(("slowdown", "outcome"), [(0.0, "EQUIVALENT"), (0.15, "REGRESSED"), (-0.15, "IMPROVED")])
def test_arms_that_never_meet_are_compared_through_the_canary(slowdown: float, outcome: str) -> None:
    test = CanaryPairedTest(seed=2, latency_hint_ns=5e6)
    verdict = settle(test, SimulatedDevice("thermal", seed=8, slowdown=slowdown))
    assert verdict.outcome == outcome
    assert verdict.effect == pytest.approx(slowdown, abs=0.06)
    assert verdict.route == "canary-paired"
    assert test.sessions == verdict.sessions


def test_every_process_holds_one_arm_and_the_canary_and_every_pair_both_arms() -> None:
    test = CanaryPairedTest(seed=5, latency_hint_ns=5e6)
    orders = set()
    for pair in range(5):
        arms = []
        for half in range(2):
            plan = test.next_session()
            assert plan.number == 2 * pair + half + 1
            (arm,) = set(plan.create) - {"canary"}
            assert {one for one, _ in plan.blocks} == {arm, "canary"}
            arms.append(arm)
            test.add(constant(plan, A=5e6, B=5e6, canary=2e6))
        orders.add("".join(arms))
        assert test.sessions == pair + 1
    assert orders == {"AB", "BA"}


def test_what_slows_a_whole_process_cancels() -> None:
    test = CanaryPairedTest(seed=5, latency_hint_ns=5e6)
    for factor in (1.0, 1.7, 0.6, 1.1):
        test.add(constant(test.next_session(), A=5e6 * factor, B=6e6 * factor, canary=2e6 * factor))
    assert test.differences == pytest.approx([0.1823, 0.1823], abs=1e-3)


def test_a_pair_half_done_is_not_judged() -> None:
    test = CanaryPairedTest(seed=5, latency_hint_ns=5e6)
    test.add(constant(test.next_session(), A=5e6, B=5e6, canary=2e6))
    verdict = test.stop("no more time.")
    assert (verdict.outcome, verdict.effect, verdict.sessions) == ("INCONCLUSIVE", None, 0)
    with pytest.raises(UsageProblem, match="has its verdict"):
        test.next_session()

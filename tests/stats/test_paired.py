"""The paired test, driven as a user would."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_winml import PairedTest, SimulatedDevice
from pytest_winml.errors import UsageProblem
from tests.stats.driving import constant, settle

if TYPE_CHECKING:
    from pytest_winml.records.latency import Alternative

_OTHER = {"A": "B", "B": "A"}


@pytest.mark.parametrize(
    ("slowdown", "alternative", "outcome"),
    [
        (0.0, "both", "EQUIVALENT"),
        (0.0, "slower", "EQUIVALENT"),
        (0.15, "both", "REGRESSED"),
        (0.15, "slower", "REGRESSED"),
        (-0.15, "both", "IMPROVED"),
        (-0.15, "slower", "IMPROVED"),
        (0.02, "both", "EQUIVALENT"),
    ],
)
def test_it_finds_what_is_there(slowdown: float, alternative: Alternative, outcome: str) -> None:
    test = PairedTest(seed=7, alternative=alternative, latency_hint_ns=5_000_000)
    verdict = settle(test, SimulatedDevice("dvfs", seed=3, slowdown=slowdown))
    assert verdict.outcome == outcome
    assert verdict.effect == pytest.approx(slowdown, abs=0.02)
    assert verdict.interval is not None
    assert verdict.interval[0] <= slowdown <= verdict.interval[1]
    assert verdict.sessions == 6 == test.sessions
    assert verdict.mde is not None
    assert 0 < verdict.mde < 0.10
    assert verdict.seed == 7
    assert all(reason.endswith(".") for reason in verdict.reasons)


def test_noise_that_hides_everything_ends_inconclusive_and_says_so() -> None:
    test = PairedTest(seed=1, tolerance=0.01, min_effect=0.005, latency_hint_ns=5_000_000)
    verdict = settle(test, SimulatedDevice("placement", seed=5, slowdown=0.01))
    assert verdict.outcome == "INCONCLUSIVE"
    assert verdict.sessions == 16
    assert verdict.reasons


def test_plans_come_from_the_seed_alone() -> None:
    first, again, other = (PairedTest(seed=seed, latency_hint_ns=5e6) for seed in (7, 7, 8))
    assert first.next_session() == again.next_session()
    assert first.next_session() != other.next_session()


def test_the_same_seed_and_times_give_the_same_verdict() -> None:
    verdicts = [settle(PairedTest(seed=4), SimulatedDevice("spikes", seed=9)) for _ in range(2)]
    assert verdicts[0] == verdicts[1]


def test_a_plan_alternates_the_arms_in_balanced_quads() -> None:
    plan = PairedTest(seed=7, latency_hint_ns=5_000_000).next_session()
    assert plan.number == 1
    assert sorted(plan.create) == ["A", "B"]
    assert {iterations for _, iterations in plan.blocks} == {25}
    quads = ["".join(arm for arm, _ in plan.blocks[at : at + 4]) for at in range(0, len(plan.blocks), 4)]
    assert sorted(quads) == ["ABBA"] * 4 + ["BAAB"] * 4


def test_the_order_of_the_quads_is_drawn_by_lot() -> None:
    assert len({PairedTest(seed=seed).next_session().blocks for seed in range(40)}) > 20


def test_the_first_two_runs_of_a_block_do_not_count() -> None:
    test = PairedTest(seed=1, latency_hint_ns=20e6)
    plan = test.next_session()
    slow_start = {"A": [20e6, 20e6], "B": [90e6, 60e6]}
    test.add([(arm, slow_start[arm] + [20e6] * (iterations - 2)) for arm, iterations in plan.blocks])
    assert test.differences == (0.0,)


def test_either_arm_is_created_first_in_half_of_the_sessions() -> None:
    first = [PairedTest(seed=seed).next_session().create[0] for seed in range(200)]
    assert 70 < first.count("A") < 130


def test_asking_twice_gives_the_same_session() -> None:
    test = PairedTest(seed=1)
    assert test.next_session() is test.next_session()


def test_without_a_hint_later_blocks_are_sized_by_the_times_seen() -> None:
    test = PairedTest(seed=1)
    assert test.next_session().blocks[0][1] == 25
    test.add(constant(test.next_session(), A=50_000.0, B=51_000.0))
    assert 2_000 < test.next_session().blocks[0][1] < 3_000


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["calm", "spikes", "logn2", "placement", "jit", "bimodal"]),
    st.floats(-0.2, 0.2),
)
def test_exchanging_the_arms_flips_the_sign_and_nothing_else(seed: int, regime: str, slowdown: float) -> None:
    test, mirrored = (PairedTest(seed=seed, latency_hint_ns=5e6, alternative="both") for _ in range(2))
    device = SimulatedDevice(regime, seed=seed, slowdown=slowdown)
    while test.verdict is None:
        assert test.next_session() == mirrored.next_session()
        blocks = device.run(test.next_session())
        test.add(blocks)
        mirrored.add([(_OTHER[arm], times) for arm, times in blocks])
    one, other = test.verdict, mirrored.verdict
    assert other is not None
    flipped = {"REGRESSED": "IMPROVED", "IMPROVED": "REGRESSED"}
    assert other.outcome == flipped.get(one.outcome, one.outcome)
    assert one.effect is not None
    assert other.effect is not None
    assert math.log1p(other.effect) == pytest.approx(-math.log1p(one.effect), abs=1e-9)
    assert one.interval is not None
    assert other.interval is not None
    assert [math.log1p(end) for end in other.interval] == pytest.approx(
        [-math.log1p(end) for end in reversed(one.interval)], abs=1e-9
    )
    assert (other.sessions, other.p_value, other.seed) == (one.sessions, one.p_value, one.seed)
    assert other.mde == pytest.approx(one.mde)
    assert len(other.reasons) == len(one.reasons)


def test_reasons_speak_of_the_change_they_saw() -> None:
    slow = settle(PairedTest(seed=7, latency_hint_ns=5e6), SimulatedDevice("calm", seed=1, slowdown=0.2))
    assert slow.reasons[0].startswith("the candidate is slower for certain: ")
    assert slow.reasons[0].endswith("slower after 6 sessions.")
    small = settle(PairedTest(seed=7, latency_hint_ns=5e6), SimulatedDevice("calm", seed=1, slowdown=0.035))
    assert small.outcome == "EQUIVALENT"
    assert "too little to matter" in small.reasons[1]


def test_a_gate_stops_earlier_than_a_comparison_both_ways() -> None:
    device = {alternative: SimulatedDevice("logn2", seed=12, slowdown=0.0) for alternative in ("slower", "both")}
    sessions = {
        name: settle(PairedTest(seed=12, alternative="slower" if name == "slower" else "both"), one).sessions
        for name, one in device.items()
    }
    assert sessions["slower"] <= sessions["both"]


def test_times_that_never_vary_are_equivalent_with_no_effect_at_all() -> None:
    test = PairedTest(seed=7, latency_hint_ns=5e6)
    while test.verdict is None:
        test.add(constant(test.next_session(), A=5_000_000.0, B=5_000_000.0))
    verdict = test.verdict
    assert (verdict.outcome, verdict.effect, verdict.interval) == ("EQUIVALENT", 0.0, (0.0, 0.0))
    assert (verdict.mde, verdict.sessions, verdict.p90_effect) == (0.0, 6, 0.0)
    assert verdict.reasons == ("a change of 10.0 % is excluded either way: no difference.",)


@pytest.mark.parametrize("base_ns", [50.0, 5e6, 2 * 3600e9])
def test_times_of_any_size_are_judged_alike(base_ns: float) -> None:
    test = PairedTest(seed=7, latency_hint_ns=base_ns)
    while test.verdict is None:
        test.add(constant(test.next_session(), A=base_ns, B=base_ns * 1.2))
    assert test.verdict.outcome == "REGRESSED"
    assert test.verdict.effect == pytest.approx(0.2)
    assert test.verdict.interval == pytest.approx((0.2, 0.2))


def test_a_budget_that_runs_out_leaves_what_was_seen() -> None:
    test = PairedTest(seed=7, latency_hint_ns=5e6)
    device = SimulatedDevice("calm", seed=1)
    for _ in range(3):
        test.add(device.run(test.next_session()))
    assert test.interim().effect == pytest.approx(0.10, abs=0.02)
    assert test.verdict is None
    verdict = test.stop("the budget of 20 s is used up.")
    assert verdict.outcome == "INCONCLUSIVE"
    assert verdict.effect == pytest.approx(0.10, abs=0.02)
    assert verdict.interval is None
    assert verdict.reasons[0] == "the budget of 20 s is used up."
    assert test.stop("again") is verdict
    assert test.interim() is verdict


def test_stopping_before_anything_ran_says_nothing_but_why() -> None:
    verdict = PairedTest(seed=7).stop("no time at all.")
    assert (verdict.outcome, verdict.effect, verdict.sessions) == ("INCONCLUSIVE", None, 0)
    assert verdict.reasons == ("no time at all.",)


def test_two_sessions_are_a_screen_and_never_a_verdict() -> None:
    verdict = settle(PairedTest(seed=7, max_sessions=2), SimulatedDevice("calm", seed=1, slowdown=0.5))
    assert (verdict.outcome, verdict.sessions, verdict.interval) == ("INCONCLUSIVE", 2, None)
    assert "a screen only" in verdict.reasons[0]


def test_a_settled_test_takes_no_more_sessions() -> None:
    test = PairedTest(seed=7)
    settle(test, SimulatedDevice("calm", seed=1))
    with pytest.raises(UsageProblem, match="has its verdict, REGRESSED"):
        test.next_session()
    with pytest.raises(UsageProblem, match="has its verdict"):
        test.add([])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"min_effect": 0.2}, "least effect"),
        ({"seed": -1}, "seed"),
        ({"seed": "7"}, "seed"),
        ({"alternative": "faster"}, "alternative"),
        ({"objective": "p95"}, "objective"),
        ({"latency_hint_ns": 0}, "latency hint"),
        ({"latency_hint_ns": math.nan}, "latency hint"),
        ({"max_sessions": 0}, "looks"),
        ({"max_sessions": 17}, "looks"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        PairedTest(**wrong)  # type: ignore[arg-type]


def test_with_no_least_effect_what_is_not_established_is_equivalent() -> None:
    test = PairedTest(seed=7, min_effect=0.0, latency_hint_ns=5e6)
    while test.verdict is None:
        test.add(constant(test.next_session(), A=5e6, B=5e6))
    assert test.verdict.outcome == "EQUIVALENT"

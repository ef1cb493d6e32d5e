from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from pytest_winml import SimulatedDevice
from pytest_winml.errors import UsageProblem
from pytest_winml.records.latency import SessionPlan
from pytest_winml.simulator import EXTRA_REGIMES, REGIMES, SEVEN, Regime

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUIET = Regime(
    name="quiet", about="no noise at all", session_sd=0.0, spike_session_share=0.0, day_sd=0.0, arm_sd=0.0,
    iteration_sd=0.0,
)  # fmt: skip


def alone(arm: str = "A", iterations: int = 200, number: int = 1) -> SessionPlan:
    return SessionPlan(number=number, create=(arm,), blocks=((arm, iterations),))


def steady(device: SimulatedDevice, plan: SessionPlan) -> dict[str, NDArray[np.float64]]:
    """Times by arm, the switch left out."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    for arm, times in device.run(plan):
        found.setdefault(arm, []).append(times[2:])
    return {arm: np.concatenate(parts).astype(np.float64) for arm, parts in found.items()}


ABBA = SessionPlan(number=1, create=("A", "B"), blocks=(("A", 25), ("B", 25), ("B", 25), ("A", 25)))


def test_it_answers_a_plan_block_by_block_in_whole_nanoseconds() -> None:
    blocks = SimulatedDevice("calm", seed=1).run(ABBA)
    assert [(arm, len(times)) for arm, times in blocks] == list(ABBA.blocks)
    assert all(times.dtype == np.int64 and times.min() > 0 for _, times in blocks)


@pytest.mark.parametrize("regime", sorted(REGIMES))
def test_the_same_seed_is_the_same_device_and_another_is_not(regime: str) -> None:
    one, again, other = (SimulatedDevice(regime, seed=seed) for seed in (5, 5, 6))
    for _ in range(2):
        times, same, different = (np.concatenate([t for _, t in device.run(ABBA)]) for device in (one, again, other))
        assert times.tolist() == same.tolist()
        assert times.tolist() != different.tolist()
    assert one.elapsed_s == again.elapsed_s


def test_without_noise_times_are_exactly_what_was_asked_for() -> None:
    device = SimulatedDevice(QUIET, latency_ns=4_000_000, slowdown=0.25)
    found = steady(device, ABBA)
    assert set(found["A"]) == {4_000_000}
    assert set(found["B"]) == {5_000_000}
    assert device.elapsed_s == pytest.approx(6.0 + 50 * 0.004 + 50 * 0.005, rel=0.02)


def test_the_first_runs_after_a_switch_are_slower() -> None:
    times = SimulatedDevice(QUIET).run(ABBA)[1][1]
    assert times[0] > times[1] > times[2] == times[3]


def test_other_arms_can_be_given_slowdowns_by_name() -> None:
    device = SimulatedDevice(QUIET, slowdowns={"canary": 0.5, "w8a8": -0.5}, canary_latency_ns=2_000_000)
    assert steady(device, alone("canary"))["canary"][0] == 3_000_000
    assert steady(device, alone("w8a8"))["w8a8"][0] == 2_500_000


def test_device_time_is_set_up_and_runs_and_rests() -> None:
    device = SimulatedDevice(QUIET, setup_s=3.0)
    device.run(alone(iterations=200))
    device.rest(30)
    assert device.elapsed_s == pytest.approx(34, abs=0.1)
    assert device.sessions == 1


def test_a_block_of_an_arm_that_was_not_created_is_refused() -> None:
    with pytest.raises(UsageProblem, match="session 1 has blocks of B, which it does not create"):
        SimulatedDevice("calm").run(SessionPlan(number=1, create=("A",), blocks=(("B", 5),)))


def test_an_unknown_regime_suggests_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="did you mean 'thermal'"):
        SimulatedDevice("termal")


def medians(regime: str | Regime, sessions: int = 150) -> NDArray[np.float64]:
    device = SimulatedDevice(regime, seed=2)
    return np.array([np.median(steady(device, alone(number=n))["A"]) for n in range(1, sessions + 1)])


def test_sessions_scatter_as_on_a_real_npu() -> None:
    """On one: 0.03 in the middle, 0.10 to 0.20 for the noisier half, 8 % of the sessions off by a fifth and more."""
    assert np.log(medians("calm")).std() < 0.03
    noisy = np.log(medians("thermal"))
    spread = 1.4826 * np.median(np.abs(noisy - np.median(noisy)))
    assert 0.08 < spread < 0.20
    assert 0.03 < np.mean(np.abs(np.expm1(noisy - np.median(noisy))) > 0.3) < 0.20


@pytest.mark.parametrize(("regime", "cv"), [("spikes", 2.0), ("logn1", 1.0), ("logn2", 2.0), ("calm", 0.03)])
def test_runs_scatter_as_the_regime_says(regime: str, cv: float) -> None:
    device = SimulatedDevice(regime, seed=3)
    found = []
    for _ in range(60):
        times = steady(device, alone(iterations=1000))["A"]
        found.append(times.std() / times.mean())
    assert np.mean(found) == pytest.approx(cv, rel=0.25)


def test_log_normal_regimes_keep_the_mean_latency() -> None:
    device = SimulatedDevice(replace(QUIET, lognormal_cv=1.0), seed=1)
    assert steady(device, alone(iterations=100_000))["A"].mean() == pytest.approx(5e6, rel=0.02)


def test_heat_drifts_by_a_tenth_over_tens_of_seconds() -> None:
    device = SimulatedDevice(replace(QUIET, drift_sd=0.10), seed=1)
    blocks = SessionPlan(number=1, create=("A",), blocks=(("A", 25),) * 8000)
    heat = np.log([float(times[-1]) for _, times in device.run(blocks)])
    assert heat.std() == pytest.approx(0.10, rel=0.35)
    lag = 320  # 40 s
    assert np.corrcoef(heat[:-lag], heat[lag:])[0, 1] == pytest.approx(math.exp(-1), abs=0.25)


def test_the_clock_has_two_states() -> None:
    device = SimulatedDevice(replace(QUIET, slow_clock=0.22), seed=1)
    times = steady(device, alone(iterations=20_000))["A"]
    assert len(set(times)) == 2
    assert max(times) / min(times) == pytest.approx(math.exp(0.22), rel=1e-3)
    assert 0.2 < np.mean(times == max(times)) < 0.8


def test_only_the_first_session_compiles() -> None:
    device = SimulatedDevice("jit", seed=1)
    first = steady(device, alone(iterations=2000))["A"]
    assert np.median(first[:20]) > 1.5 * np.median(first[-500:])
    second = steady(device, alone(iterations=2000))["A"]
    assert np.median(second[:20]) < 1.3 * np.median(second[-500:])


def test_a_bimodal_host_has_two_kinds_of_sessions() -> None:
    found = np.log(medians("bimodal", 300))
    assert np.mean(found - np.median(found) > 0.3) == pytest.approx(0.4, abs=0.15)


def test_arms_of_one_process_share_its_luck() -> None:
    device = SimulatedDevice("dvfs", seed=4, slowdown=0.0)
    pairs = [steady(device, ABBA) for _ in range(100)]
    a, b = (np.log([np.median(pair[arm]) for pair in pairs]) for arm in "AB")
    assert np.std(a - b) < 0.5 * np.std(a)


def test_the_canary_feels_what_its_elasticity_says() -> None:
    plan = SessionPlan(number=1, create=("A", "canary"), blocks=(("A", 100), ("canary", 100)))
    noisy = replace(QUIET, session_sd=0.3)
    device = SimulatedDevice(noisy, seed=4, canary_elasticity=0.5)
    pairs = [steady(device, plan) for _ in range(30)]
    a, canary = (np.log([np.median(pair[arm]) for pair in pairs]) for arm in ("A", "canary"))
    assert np.polyfit(a, canary, 1)[0] == pytest.approx(0.5, abs=0.01)


def test_another_day_is_another_state() -> None:
    device = SimulatedDevice(replace(QUIET, day_sd=0.1), seed=1)
    before = steady(device, alone())["A"][0]
    assert steady(device, alone())["A"][0] == before
    device.new_day()
    assert steady(device, alone())["A"][0] != before


def test_there_are_the_seven_regimes_and_two_more() -> None:
    assert [regime.name for regime in SEVEN] == ["calm", "thermal", "dvfs", "spikes", "logn1", "logn2", "placement"]
    assert [regime.name for regime in EXTRA_REGIMES] == ["jit", "bimodal"]

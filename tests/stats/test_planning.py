from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pytest_winml.stats.planning import (
    Noise,
    block_iterations,
    detectable,
    dropped,
    next_quads,
    predicted_mde,
    predicted_mde_within,
    quad_sd,
    quads_wanted,
    session_seconds,
    sessions_within,
    student_quantile,
    tail_quads,
)


@pytest.mark.parametrize(
    ("latency_ns", "iterations"),
    [(5e6, 25), (1e6, 125), (50e3, 2500), (50.0, 10_000), (20e6, 10), (200e6, 10), (300e6, 6), (3600e9, 5)],
)
def test_blocks_are_sized_by_time_also_for_the_fastest_and_slowest_models(latency_ns: float, iterations: int) -> None:
    assert block_iterations(latency_ns) == iterations
    assert dropped(iterations) < iterations - 2


def test_more_scatter_asks_for_more_quads_within_limits() -> None:
    assert [quads_wanted(sd, 0.04) for sd in (0.0, 0.05, 0.14, 0.17, 5.0)] == [4, 4, 14, 20, 20]


def test_quads_follow_scatter_within_sessions_and_not_the_difference_of_the_arms() -> None:
    lot = np.random.default_rng(0)
    sessions = [lot.normal(0, 0.15, 8) for _ in range(3)]
    assert next_quads([], 0.04) == 8
    assert next_quads(sessions, 0.04) == next_quads([-one for one in sessions], 0.04)
    moved = [one + shift for one, shift in zip(sessions, (0.5, -0.3, 0.0), strict=True)]
    assert quad_sd(moved) == pytest.approx(quad_sd(sessions))
    assert quad_sd([lot.normal(0, 0.15, 8) for _ in range(200)]) == pytest.approx(0.15, rel=0.1)


@pytest.mark.parametrize(
    ("share", "freedom", "value"),
    [(0.95, 1, 6.314), (0.95, 2, 2.920), (0.95, 5, 2.015), (0.80, 5, 0.920), (0.95, 15, 1.753), (0.8, 10, 0.879)],
)
def test_quantiles_of_student_are_those_of_the_tables(share: float, freedom: int, value: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(value, abs=6e-4)


def test_more_sessions_see_smaller_changes_and_one_sees_none() -> None:
    noise = Noise(session_sd=0.03, quad_sd=0.05)
    seen = [predicted_mde(sessions, noise=noise) for sessions in (2, 6, 12, 16)]
    assert all(a is not None and b is not None and a > b for a, b in itertools.pairwise(seen))
    assert predicted_mde(1, noise=noise) is None
    assert detectable(0.0, 6) == 0.0


def test_a_slowdown_of_the_detectable_size_is_found_four_times_in_five() -> None:
    lot = np.random.default_rng(9)
    size = detectable(0.04, 8)
    assert size is not None
    draws = lot.normal(math.log1p(size), 0.04, (4000, 8))
    t = draws.mean(axis=1) / draws.std(axis=1, ddof=1) * math.sqrt(8)
    assert np.mean(t > student_quantile(0.95, 7)) == pytest.approx(0.80, abs=0.05)


def test_a_budget_buys_whole_sessions() -> None:
    assert session_seconds(5e6, 4, setup_s=6.0) == pytest.approx(8.0)
    assert sessions_within(60, 5e6, setup_s=6.0) == 7
    noise = Noise()
    assert predicted_mde_within(60, 5e6, noise=noise, setup_s=6.0) == predicted_mde(7, noise=noise)
    assert predicted_mde_within(10, 5e6, noise=noise, setup_s=6.0) is None


def test_a_tail_asks_for_samples_enough_in_every_session() -> None:
    assert tail_quads("p50", 25) == 0
    assert tail_quads("p90", 25) == 2  # 92 samples, of which 46 are needed
    assert tail_quads("p99", 25) * 2 * 23 >= 473

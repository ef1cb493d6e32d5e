"""How other tools would decide, as rules on the same simulated device: what their documentation and source say they
compare, at the number of processes and runs they take. Approximations of their decisions, not the tools themselves.

A rule runs a device and answers whether it calls arm B slower.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml.records.latency import SessionPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_winml.simulator.device import SimulatedDevice

LONG = 2500  # 12.5 s of a 5 ms model


def one_process(device: SimulatedDevice, arm: str, iterations: int) -> NDArray[np.float64]:
    """A fresh process with one arm, timed in one go; the switch-in is left out."""
    plan = SessionPlan(number=device.sessions + 1, create=(arm,), blocks=((arm, iterations + 2),))
    times: NDArray[np.float64] = device.run(plan)[0][1][2:].astype(np.float64)
    return times


def pytest_benchmark_like(device: SimulatedDevice) -> bool:
    """One process each, and the mean may not grow by more than 10 % (`--benchmark-compare-fail=mean:10%`)."""
    a, b = one_process(device, "A", LONG), one_process(device, "B", LONG)
    return bool(b.mean() > 1.10 * a.mean())


def criterion_like(device: SimulatedDevice) -> bool:
    """One process each, Welch's t over all runs at 5 %, beyond a noise threshold of 1 %."""
    a, b = one_process(device, "A", LONG), one_process(device, "B", LONG)
    error = math.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
    return bool(abs(b.mean() - a.mean()) > 1.96 * error and b.mean() > 1.01 * a.mean())


def asv_like(device: SimulatedDevice) -> bool:
    """Four interleaved rounds of 100 runs, Mann-Whitney at 0.002 over all runs, medians apart by a factor 1.1."""
    rounds = [(one_process(device, "A", 100), one_process(device, "B", 100)) for _ in range(4)]
    a, b = (np.concatenate(runs) for runs in zip(*rounds, strict=True))
    ranks = np.empty(a.size + b.size)
    ranks[np.argsort(np.concatenate((a, b)))] = np.arange(1, a.size + b.size + 1)
    above = float(ranks[a.size :].sum()) - b.size * (b.size + 1) / 2
    sd = math.sqrt(a.size * b.size * (a.size + b.size + 1) / 12)
    return bool(above - a.size * b.size / 2 > 3.09 * sd and np.median(b) > 1.1 * np.median(a))


def three_times_500(device: SimulatedDevice) -> bool:
    """Three processes of 500 runs each with rests of 30 s; medians in disjoint ranges, 5 % apart and twice their CV."""
    medians: dict[str, NDArray[np.float64]] = {}
    for arm in ("A", "B"):
        found = []
        for _ in range(3):
            found.append(float(np.median(one_process(device, arm, 500))))
            device.rest(30.0)
        medians[arm] = np.array(found)
    a, b = medians["A"], medians["B"]
    effect = float(np.median(b) / np.median(a)) - 1
    cv = max(float(x.std(ddof=1) / x.mean()) for x in (a, b))
    return bool(b.min() > a.max() and effect >= max(0.05, 2 * cv))


RULES: dict[str, Callable[[SimulatedDevice], bool]] = {
    "pytest-benchmark-like (mean > 10 %)": pytest_benchmark_like,
    "Criterion-like (Welch, > 1 %)": criterion_like,
    "asv-like (Mann-Whitney, x 1.1)": asv_like,
    "3 x 500 runs, disjoint medians": three_times_500,
}

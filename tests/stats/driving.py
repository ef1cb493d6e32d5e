"""Sessions for tests that need no device: times that are exactly what one says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_winml.records.latency import SessionPlan, Verdict
    from pytest_winml.simulator.device import SimulatedDevice
    from pytest_winml.stats.canary_pairs import CanaryPairedTest
    from pytest_winml.stats.paired import PairedTest

Blocks = list[tuple[str, list[float]]]


def constant(plan: SessionPlan, **times_ns: float) -> Blocks:
    """Every run of an arm takes what is given for it."""
    return [(arm, [times_ns[arm]] * iterations) for arm, iterations in plan.blocks]


def settle(test: PairedTest | CanaryPairedTest, device: SimulatedDevice) -> Verdict:
    while test.verdict is None:
        test.add(device.run(test.next_session()))
    return test.verdict

"""The simulator as a device: what the harness would say of a machine that one describes, in no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.records.latency import Block, SessionPlan
from pytest_winml.records.placement import Placement
from pytest_winml.session.timing_messages import ArmLoad, Conditions, TimedSession
from pytest_winml.stats.planning import block_iterations

if TYPE_CHECKING:
    from pytest_winml.measure.ordering import Order
    from pytest_winml.simulator.device import SimulatedDevice

_HINT_NS = 5_000_000


class SimulatedTimedDevice:
    """Arms are told apart by name, as the simulator does: `A`, `B` and `target` are the case, `canary` is not."""

    def __init__(self, device: SimulatedDevice, *, latency_hint_ns: int = _HINT_NS) -> None:
        self.device = device
        self._iterations = block_iterations(latency_hint_ns)
        self._sessions = 0

    def run(self, order: Order) -> tuple[TimedSession, tuple[str, ...]]:
        self._sessions += 1
        plan = SessionPlan(
            number=self._sessions,
            create=tuple(arm for arm, _ in order.arms),
            blocks=tuple((arm, count or self._iterations) for arm, count in order.blocks),
        )
        started_s = self.device.elapsed_s
        blocks = tuple(
            Block(arm=arm, times_ns=tuple(round(time * (1 + order.slow_down.get(arm, 0.0))) for time in times.tolist()))
            for arm, times in self.device.run(plan)
        )
        session = TimedSession(
            arms=tuple(_load(arm, subject.target.spec) for arm, subject in order.arms),
            blocks=blocks,
            conditions=Conditions(
                timed_ns=round((self.device.elapsed_s - started_s) * 1e9),
                gc_disabled=True,
                python_threads=1,
                clock="simulated",
                clock_resolution_ns=1.0,
            ),
        )
        return session, ()


def _load(arm: str, target: str) -> ArmLoad:
    return ArmLoad(
        name=arm,
        placement=Placement(
            target=target, target_nodes=(), fallback_nodes=(), boundary_nodes=(), partitions=1, emulated=False
        ),
        create_ns=1_000_000_000,
        first_run_ns=20_000_000,
        warm_up_iterations=20,
        warm_up_ns=1_000_000_000,
        warm_up_converged=True,
        warm_up_median_ns=5_000_000.0,
    )

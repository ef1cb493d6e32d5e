"""Devices to measure with in tests: the simulator, told what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.measure.budget import Budget
from pytest_winml.measure.ordering import Subject
from pytest_winml.measure.recording import Recordings
from pytest_winml.measure.sessions import Sessions
from pytest_winml.measure.simulated import SimulatedTimedDevice
from pytest_winml.records.target import Target
from pytest_winml.simulator.device import SimulatedDevice

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_winml.measure.budget import Allowance
    from pytest_winml.measure.ordering import Order, TimedDevice
    from pytest_winml.session.timing_messages import TimedSession

CPU = Target("cpu")
BASELINE = Subject(label="old", key="a", path="old.onnx", target=CPU)
CANDIDATE = Subject(label="new", key="b", path="new.onnx", target=CPU)
CANARY_SUBJECT = Subject(label="canary", key="c", path="canary.onnx", target=CPU)


class Scripted:
    """The simulator, with disturbances by the number of the session, and death when it is time."""

    def __init__(
        self,
        regime: str = "calm",
        *,
        slowdown: float = 0.0,
        seed: int = 1,
        disturbed: dict[int, str] | None = None,
        dies_at: int | None = None,
        slower_alone: float = 0.0,
    ) -> None:
        self.simulated = SimulatedTimedDevice(SimulatedDevice(regime, seed=seed, slowdown=slowdown))
        self.orders: list[Order] = []
        self._disturbed = disturbed or {}
        self._dies_at = dies_at
        self._slower_alone = slower_alone

    def run(self, order: Order) -> tuple[TimedSession, tuple[str, ...]]:
        self.orders.append(order)
        if len(self.orders) == self._dies_at:
            raise KeyboardInterrupt
        if len(order.arms) == 1 and self._slower_alone:
            order = type(order)(arms=order.arms, blocks=order.blocks, slow_down={order.arms[0][0]: self._slower_alone})
        session, _ = self.simulated.run(order)
        reason = self._disturbed.get(len(self.orders))
        return session, (reason,) if reason else ()


def sessions_on(
    device: TimedDevice,
    folder: Path,
    *,
    resume: bool = False,
    allowance: Allowance | None = None,
    said: list[str] | None = None,
) -> Sessions:
    recording = Recordings(folder, resume=resume, new_seed=lambda: 7).recording("case a b standard")
    return Sessions(device, recording, allowance or Budget(None, 1).allow(), (said if said is not None else []).append)

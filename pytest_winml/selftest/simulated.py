"""The bench of a machine that is only described: the whole engine, on the simulator."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_winml.measure.budget import unlimited
from pytest_winml.measure.comparing import compare_together
from pytest_winml.measure.ordering import Subject
from pytest_winml.measure.recording import Recording
from pytest_winml.measure.sessions import Sessions
from pytest_winml.measure.simulated import SimulatedTimedDevice
from pytest_winml.records.target import Target
from pytest_winml.simulator.device import SimulatedDevice
from pytest_winml.simulator.regimes import regime_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.measure.comparing import Question
    from pytest_winml.measure.protocols import Protocol
    from pytest_winml.records.latency import Verdict

_SEEDS_APART = 1_000_003  # a device and the plan of its comparison never draw the same numbers


class SimulatedBench:
    """Every comparison has a device of its own, in a state of its own, all drawn from the seed."""

    def __init__(self, regime: str, protocol: Protocol, *, seed: int, on_progress: Callable[[str], None]) -> None:
        self._regime = regime_named(regime)
        self._seed = seed
        self._on_progress = on_progress
        self.subject = f"a simulated device ({self._regime.name}: {self._regime.about})"
        self.most_sessions = protocol.most_sessions

    def compare(self, number: int, question: Question) -> tuple[Verdict, float]:
        seed = self._seed * _SEEDS_APART + 2 * number
        device = SimulatedDevice(self._regime, seed=seed, slowdown=0.0)
        target = Target("cpu")
        model, canary = (Subject(label=name, key=name, path=name, target=target) for name in ("model", "canary"))
        with TemporaryDirectory(prefix="winml-", ignore_cleanup_errors=True) as folder:
            recording = Recording(Path(folder) / "sessions.jsonl", "self-test", seed=seed + 1)
            sessions = Sessions(SimulatedTimedDevice(device), recording, unlimited(), self._on_progress)
            verdict = compare_together(model, model, canary, question, sessions)
        return verdict, device.elapsed_s

"""Sessions that count: run on the device, judged by their conditions and never by their result, kept as they come."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.stats.planning import SIZES, Noise, predicted_mde, session_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.measure.budget import Allowance
    from pytest_winml.measure.ordering import Order, TimedDevice
    from pytest_winml.measure.recording import Recording
    from pytest_winml.session.timing_messages import TimedSession

_SETUP_S = 3.0  # starting a process, opening and warming two arms
_FIGURE = re.compile(r"[+-]?[0-9.]+ %")
MOST_REPEATED = 4  # sessions of one measurement
BUDGET_OVER = "the time budget ran out before the noise allowed more."


class Sessions:
    """The sessions of one measurement. `notes` say which were repeated and why."""

    def __init__(
        self,
        device: TimedDevice,
        recording: Recording,
        allowance: Allowance,
        on_progress: Callable[[str], None],
    ) -> None:
        self._device = device
        self._recording = recording
        self._allowance = allowance
        self._on_progress = on_progress
        self._reasons: dict[str, str] = {}  # the last of each kind, by what is the same in all of them
        self._repeated = 0
        self._taken_disturbed = 0

    @property
    def seed(self) -> int:
        return self._recording.seed

    @property
    def device_s(self) -> float:
        return self._allowance.spent_s

    @property
    def notes(self) -> tuple[str, ...]:
        said = []
        if self._recording.resumed:
            resumed = units.count(
                self._recording.resumed, "session of an interrupted run was", "sessions of an interrupted run were"
            )
            said.append(f"{resumed} taken over.")
        if self._repeated:
            repeated = units.count(self._repeated, "session was", "sessions were")
            said.append(f"{repeated} disturbed and repeated: {'; '.join(self._reasons.values())}.")
        if self._taken_disturbed:
            taken = units.count(self._taken_disturbed, "disturbed session was", "disturbed sessions were")
            said.append(f"the machine is not quiet: {taken} counted all the same. Let nothing else run on it.")
        return tuple(said)

    def announce(self, latency_ns: float, most: int) -> None:
        """Before it starts: what the time there is can be expected to see."""
        session_s = session_seconds(latency_ns, SIZES.fewest_quads, setup_s=_SETUP_S)
        left_s = self._allowance.limit_s - self._allowance.spent_s
        count = most if math.isinf(left_s) else min(most, int(left_s / session_s))
        mde = predicted_mde(count, noise=Noise())
        seen = f"changes of {units.percent(mde)} and more" if mde is not None else "no change with certainty"
        self._on_progress(
            f"up to {units.count(count, 'session')}, about {units.seconds(count * session_s)}: {seen} can be found"
        )

    def run(self, name: str, order: Order) -> TimedSession:
        self._on_progress(name)
        return self._recording.session(name, lambda: self._run(order))

    def next(self, name: str, order: Order) -> TimedSession | None:
        """One more, or None when the time is over."""
        if self._allowance.exhausted and not self._recording.has(name):
            return None
        return self.run(name, order)

    def _run(self, order: Order) -> TimedSession:
        """Repeated when it was disturbed, until that is how the machine is: then the noise is a part of the answer."""
        while True:
            with self._allowance.spending():
                session, reasons = self._device.run(order)
            if not reasons:
                return session
            self._reasons.update({_FIGURE.sub("", reason): reason for reason in reasons})
            if self._repeated >= MOST_REPEATED:
                self._taken_disturbed += 1
                return session
            self._repeated += 1

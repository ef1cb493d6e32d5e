"""Sessions that count: run on the device, judged by their conditions and never by their result, kept as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.errors import MeasurementError, SessionInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.measure.budget import Allowance
    from pytest_winml.measure.ordering import Order, TimedDevice
    from pytest_winml.measure.recording import Recording
    from pytest_winml.session.timing_messages import TimedSession

MOST_DISTURBED = 4  # in one measurement; a machine that disturbs more often is not fit to time on


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
        self._disturbed: list[str] = []

    @property
    def seed(self) -> int:
        return self._recording.seed

    @property
    def exhausted(self) -> bool:
        """Whether the time that this measurement may take is over."""
        return self._allowance.exhausted

    @property
    def device_s(self) -> float:
        return self._allowance.spent_s

    @property
    def notes(self) -> tuple[str, ...]:
        said = []
        if self._recording.resumed:
            said.append(f"{units.count(self._recording.resumed, 'session')} of an interrupted run were taken over.")
        if self._disturbed:
            repeated = units.count(len(self._disturbed), "session was", "sessions were")
            said.append(f"{repeated} disturbed and repeated: {'; '.join(dict.fromkeys(self._disturbed))}.")
        return tuple(said)

    def run(self, name: str, order: Order) -> TimedSession:
        self._on_progress(name)
        return self._recording.session(name, lambda: self._undisturbed(order))

    def _undisturbed(self, order: Order) -> TimedSession:
        while True:
            try:
                with self._allowance.spending():
                    return self._device.run(order)
            except SessionInvalid as invalid:
                self._disturbed.append(invalid.message)
                if len(self._disturbed) > MOST_DISTURBED:
                    raise MeasurementError(
                        f"{units.count(len(self._disturbed), 'session')} of one measurement were disturbed, "
                        f"the last because {invalid.message}",
                        remedy="let nothing else run on the machine, and keep it on one power source and mode.",
                    ) from invalid

"""What is timed, and the seam between those who ask for a timed session and the device that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from pytest_winml.records.artifact import Artifact
from pytest_winml.records.base import Record
from pytest_winml.records.latency import Arm
from pytest_winml.records.target import Target
from pytest_winml.session.messages import TensorData

if TYPE_CHECKING:
    from pytest_winml.session.timing_messages import TimedSession


class Subject(Record, frozen=True, kw_only=True):
    """A built file on a target, with the inputs of every run. `key` tells files apart, `label` is for people."""

    label: str
    key: str
    path: str
    target: Target
    feeds: dict[str, TensorData] = msgspec.field(default_factory=dict)
    size_bytes: int = 0
    artifact: Artifact | None = None


class Order(Record, frozen=True, kw_only=True):
    """One fresh session: subjects by arm, in the order they are created, and blocks of (arm, iterations).

    A block of 0 iterations lasts about as long as the device's blocks do.
    """

    arms: tuple[tuple[Arm, Subject], ...]
    blocks: tuple[tuple[Arm, int], ...]
    slow_down: dict[Arm, float] = msgspec.field(default_factory=dict)


class TimedDevice(Protocol):
    """Runs one session in a fresh process; answers also with what disturbed it, whatever it had found."""

    def run(self, order: Order) -> tuple[TimedSession, tuple[str, ...]]: ...

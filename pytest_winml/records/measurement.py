"""What was timed in a test: raw samples with their conditions, comparisons, and how it went with the gates."""

from __future__ import annotations

from typing import Literal

from pytest_winml.records.base import Record
from pytest_winml.records.latency import Arm, Block, Latency, Samples, Verdict
from pytest_winml.records.trace_difference import TraceDifference

ProtocolName = Literal["quick", "standard", "rigorous"]
TARGET: Arm = "target"
CANARY: Arm = "canary"


class Memory(Record, frozen=True, kw_only=True):
    """The artifact's size on disk, and what opening and running it alone took of a process. None: not known here."""

    artifact_bytes: int
    load_bytes: int | None = None
    peak_bytes: int | None = None


class Measured(Record, frozen=True, kw_only=True):
    """One case, timed by a protocol: raw blocks of each fresh process, the canary's among them, in their order.

    `create_ms` and `first_run_ms` are of a process that held nothing else. `notes` are what a reader of the figures has
    to know.
    """

    protocol: ProtocolName
    artifact_key: str
    canary_key: str
    sessions: tuple[tuple[Block, ...], ...]
    memory: Memory
    create_ms: float
    first_run_ms: float
    steady: bool
    device_s: float
    notes: tuple[str, ...] = ()

    @property
    def latency(self) -> Latency:
        return Latency(sessions=tuple(_samples(blocks, TARGET) for blocks in self.sessions))


class Comparison(Record, frozen=True, kw_only=True):
    """A verdict, what the candidate was compared with, and how long that kept the device.

    `explained` is what traces of both say of a slowdown; `unexplained` why there is none.
    """

    against: str
    verdict: Verdict
    device_s: float = 0.0
    explained: TraceDifference | None = None
    unexplained: str | None = None


def _samples(blocks: tuple[Block, ...], arm: Arm) -> Samples:
    return Samples(times_ns=tuple(time for block in blocks if block.arm == arm for time in block.times_ns))

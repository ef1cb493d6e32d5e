"""What is kept of a measurement for later ones to be held against.

Schema versions of a baseline's file (`BASELINE_SCHEMA`):
1  first: name, case, artifact, machine, protocol, canary, memory, and the raw blocks of every session.
"""

from __future__ import annotations

from datetime import datetime

from pytest_winml.errors import MeasurementError
from pytest_winml.records.base import Record
from pytest_winml.records.case import CaseRef
from pytest_winml.records.identity import MachineIdentity
from pytest_winml.records.latency import Arm, Block, Samples
from pytest_winml.records.machine_state import MachineState
from pytest_winml.records.measurement import CANARY, TARGET

BASELINE_SCHEMA = 1


class BaselineArtifact(Record, frozen=True, kw_only=True):
    """The built file that was timed: by its key it may be had again, by its digest it is known to be the same."""

    key: str
    sha256: str
    size_bytes: int


class MemoryFigures(Record, frozen=True, kw_only=True):
    """What loading took and the most that was in use; None where it was not measured."""

    load_bytes: int | None = None
    peak_bytes: int | None = None


class BaselineSession(Record, frozen=True, kw_only=True):
    """One fresh process: the blocks of the target and of the canary, raw and in the order they ran."""

    blocks: tuple[Block, ...]
    before: MachineState = MachineState()
    after: MachineState = MachineState()

    def __post_init__(self) -> None:
        for block in self.blocks:
            if block.arm not in (TARGET, CANARY):
                raise MeasurementError(f"a baseline's arms are {TARGET} and {CANARY}, not {block.arm!r}")
            Samples(times_ns=block.times_ns)
        if not self.times_ns(TARGET):
            raise MeasurementError("a session without one time of its target is no baseline")

    def times_ns(self, arm: Arm) -> tuple[int, ...]:
        return tuple(time for block in self.blocks if block.arm == arm for time in block.times_ns)


class Baseline(Record, frozen=True, kw_only=True):
    """One case on one machine, saved under a name. Without sessions it stands for size and memory only.

    `canary` is the digest of the canary's file: times of two baselines may be set in relation through their
    canaries only when these are the same file.
    """

    schema_version: int = BASELINE_SCHEMA
    name: str
    created_at: str
    case: CaseRef
    artifact: BaselineArtifact
    machine: MachineIdentity
    protocol: str
    canary: str | None = None
    memory: MemoryFigures = MemoryFigures()
    sessions: tuple[BaselineSession, ...]

    def __post_init__(self) -> None:
        if self.sessions and self.machine.mode == "emulated":
            raise MeasurementError(f"{self.case.id}: times of an emulated device mean nothing and are not kept")
        if not _is_instant(self.created_at):
            raise MeasurementError(f"{self.created_at!r} is no time with its zone, such as 2026-01-31T12:00:00+00:00")

    @property
    def case_id(self) -> str:
        return self.case.id

    @property
    def created(self) -> datetime:
        return datetime.fromisoformat(self.created_at)


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False

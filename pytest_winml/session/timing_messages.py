"""What is asked of a timed session, and its answer: raw nanoseconds, and the conditions they were taken under."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from pytest_winml.errors import MeasurementError
from pytest_winml.records.base import Record
from pytest_winml.records.latency import Arm, Block
from pytest_winml.records.placement import Placement
from pytest_winml.records.target import Target
from pytest_winml.session.messages import ProviderSettings, TensorData

PowerSource = Literal["mains", "battery"]


class TimedArm(Record, frozen=True, kw_only=True):
    """One model on one target, with the inputs that every run of it takes."""

    name: Arm
    target: Target
    model_path: str
    feeds: dict[str, TensorData]


class WarmUp(Record, frozen=True, kw_only=True):
    """Until the medians of the last two windows agree within `tolerance`; the minima hold first, `max_s` above all."""

    min_iterations: int = 10
    min_s: float = 1.0
    max_s: float = 5.0
    tolerance: float = 0.02
    window: int = 10


class TimedRequest(Record, frozen=True, kw_only=True):
    """`arms` are created in this order; `blocks` are run in theirs, as (arm, iterations).

    A block of 0 iterations is sized by the worker to last about `block_ns`, within the two bounds. A and B, which are
    compared, get the same size, from the slower of them. The device rests for `cool_down_s` between what creating and
    first running the sessions heats and the warm-up. `slow_down` makes an arm slower by that share of its own latency,
    in the timed part: it is how the harness tests itself.
    """

    settings: ProviderSettings
    arms: tuple[TimedArm, ...]
    blocks: tuple[tuple[Arm, int], ...]
    warm_up: WarmUp = WarmUp()
    cool_down_s: float = 0.0
    slow_down: dict[Arm, float] = msgspec.field(default_factory=dict)
    block_ns: int | None = None
    min_block_iterations: int = 10
    max_block_iterations: int = 5000

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if not names or not self.blocks:
            raise MeasurementError("a timed session has at least one arm and one block")
        if len(set(names)) < len(names):
            raise MeasurementError(f"two arms of a timed session have one name: {', '.join(names)}")
        strangers = {arm for arm, _ in self.blocks} | self.slow_down.keys()
        if strangers := strangers - set(names):
            raise MeasurementError(f"a timed session of {', '.join(names)} has no arm {min(strangers)!r}")
        if any(size < 0 or (size == 0 and not self.block_ns) for _, size in self.blocks):
            raise MeasurementError("a block has iterations, or 0 of them with a block_ns to size it by")
        if any(not 0 <= share < math.inf for share in self.slow_down.values()):
            raise MeasurementError(f"slow_down is a share of the latency, not {self.slow_down}")


class ArmLoad(Record, frozen=True, kw_only=True):
    """How an arm came up. What this system does not tell is None.

    `load_memory_bytes` and `threads` are what the process grew by while the session was created; with the first arm
    that holds, as `create_ns` does, what the runtime and the EP start up once in a process. `peak_memory_bytes`
    is the process's own high-water mark, the interpreter and the runtime included; a process that holds several arms
    cannot tell whose it is. `warm_up_median_ns` is of the last two windows.
    """

    name: Arm
    placement: Placement
    create_ns: int
    first_run_ns: int
    warm_up_iterations: int
    warm_up_ns: int
    warm_up_converged: bool
    warm_up_median_ns: float
    load_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    threads: int | None = None


class Conditions(Record, frozen=True, kw_only=True):
    """What was around the timed blocks. None: this system does not tell, or has no such thing.

    `foreign_cpu_share` is the share of the machine's processors that others than this process used, time stolen by a
    hypervisor included.
    """

    timed_ns: int
    gc_disabled: bool
    python_threads: int
    clock: str
    clock_resolution_ns: float
    priority: str | None = None
    eco_qos_off: bool | None = None
    foreign_cpu_share: float | None = None
    involuntary_switches: int | None = None
    power_before: PowerSource | None = None
    power_after: PowerSource | None = None
    cpu_mhz_before: float | None = None
    cpu_mhz_after: float | None = None


class TimedSession(Record, frozen=True, kw_only=True):
    """`arms` in the order they were created, `blocks` in the order they ran."""

    arms: tuple[ArmLoad, ...]
    blocks: tuple[Block, ...]
    conditions: Conditions

    @property
    def block_sizes(self) -> tuple[tuple[Arm, int], ...]:
        return tuple((block.arm, len(block.times_ns)) for block in self.blocks)

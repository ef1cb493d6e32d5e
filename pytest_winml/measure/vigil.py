"""Whether a timed session counts, told by what was around it and never by what it found.

A rule that looked at which arm was faster would choose its own result. So each reason here is one that swapping the
arms cannot change: power, other programs, where the graph ran, and how far the reference drifted in the session. That
reference is the canary; where two arms stand beside each other without one, it is both of them together, in equal
parts. What the machine does not tell is no reason: a session that can never be valid would be repeated for ever.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from pytest_winml import units
from pytest_winml.providers.power import read_power
from pytest_winml.records.base import Record
from pytest_winml.records.latency import Arm, Block, Samples
from pytest_winml.records.machine_state import MachineState
from pytest_winml.records.measurement import CANARY
from pytest_winml.records.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_winml.session.timing_messages import TimedSession

_CANARY_BLOCKS = 2  # of a quad of four; the other two are the target's
_QUAD = 4
# Of normal data: the interquartile range in standard deviations, and the median's error against the mean's.
_IQR_SD = 1.349
_MEDIAN_ERROR = 1.2533
_NAMED = 3


class Limits(Record, frozen=True, kw_only=True):
    """`drift` of the reference from first to last quad, and at least `sure` standard errors of it: with times as
    scattered as those of some devices, two quads of the same speed are often further apart than that.
    """

    drift: float = 0.15
    sure: float = 3.0
    foreign_cpu_share: float = 0.75


class Drift(Record, frozen=True, kw_only=True):
    """The relative change of the reference, as its logarithm, with the standard error of that."""

    log_ratio: float
    error: float

    @property
    def change(self) -> float:
        return math.exp(self.log_ratio) - 1


class Observation(Record, frozen=True, kw_only=True):
    """All that may be known of a session when it is judged. `expected` is where each arm's graph ran before."""

    before: MachineState = MachineState()
    after: MachineState = MachineState()
    drift: Drift | None = None
    expected: dict[Arm, Placement] = msgspec.field(default_factory=dict)
    placements: dict[Arm, Placement] = msgspec.field(default_factory=dict)


_LIMITS = Limits()


def disturbances(seen: Observation, limits: Limits = _LIMITS) -> tuple[str, ...]:
    """Why the session does not count; nothing where it does."""
    return (
        *_power(seen.before, seen.after),
        *_others(seen, limits),
        *_drifted(seen.drift, limits),
        *_moved(seen.expected, seen.placements),
    )


def observe(
    session: TimedSession,
    before: MachineState | None = None,
    after: MachineState | None = None,
    expected: Mapping[Arm, Placement] | None = None,
) -> Observation:
    """A session with the machine's state around it. What the worker itself saw of it counts first."""
    conditions = session.conditions
    before, after = before or MachineState(), after or MachineState()
    return Observation(
        before=msgspec.structs.replace(before, power_source=conditions.power_before or before.power_source),
        after=msgspec.structs.replace(
            after,
            power_source=conditions.power_after or after.power_source,
            foreign_cpu_share=conditions.foreign_cpu_share,
        ),
        drift=drift(session.blocks),
        expected=dict(expected or {}),
        placements={arm.name: arm.placement for arm in session.arms},
    )


def machine_state() -> MachineState:
    power = read_power()
    return MachineState(power_source=power.source, power_mode=power.mode)


def drift(blocks: Sequence[Block]) -> Drift | None:
    """From the first quad to the last; None where there are not two of them.

    With m the median and s the spread (interquartile range / 1.349) of the log times of a block of n,

        end = mean over its blocks of m        error of end = sqrt(sum of (1.2533 s)^2 / n) / blocks
    """
    canary = [block for block in blocks if block.arm == CANARY]
    chosen, size = (canary, _CANARY_BLOCKS) if canary else (list(blocks), _QUAD)
    if len(chosen) < 2 * size:
        return None
    (first, first_variance), (last, last_variance) = _end(chosen[:size]), _end(chosen[-size:])
    return Drift(log_ratio=last - first, error=math.sqrt(first_variance + last_variance))


def _end(blocks: Sequence[Block]) -> tuple[float, float]:
    """Location of log time, and its variance."""
    location = variance = 0.0
    for block in blocks:
        samples = Samples(times_ns=block.times_ns)
        low, middle, high = (math.log(samples.quantile_ns(share)) for share in (0.25, 0.5, 0.75))
        location += middle / len(blocks)
        error = _MEDIAN_ERROR * (high - low) / _IQR_SD
        variance += error**2 / len(block.times_ns) / len(blocks) ** 2
    return location, variance


def _power(before: MachineState, after: MachineState) -> Iterator[str]:
    for what, was, now in (
        ("power source", before.power_source, after.power_source),
        ("power mode", before.power_mode, after.power_mode),
    ):
        if was is not None and now is not None and was != now:
            yield f"the {what} changed from {was} to {now}"


def _others(seen: Observation, limits: Limits) -> Iterator[str]:
    names = sorted({*seen.before.foreign_on_device, *seen.after.foreign_on_device})
    if names:
        yield f"other programs used the device: {_listed(names)}"
    share = seen.after.foreign_cpu_share
    if share is not None and share > limits.foreign_cpu_share:
        yield f"other programs took {units.percent(share)} of the processors"


def _drifted(found: Drift | None, limits: Limits) -> Iterator[str]:
    """As a ratio, so that 15 % slower and as much faster are the same distance."""
    if found is None:
        return
    size = abs(found.log_ratio)
    if size > math.log1p(limits.drift) and size > limits.sure * found.error:
        yield f"the reference drifted by {units.signed_percent(found.change)} within it"


def _moved(expected: Mapping[Arm, Placement], seen: Mapping[Arm, Placement]) -> Iterator[str]:
    for arm in sorted(expected.keys() & seen.keys()):
        was, now = _elsewhere(expected[arm]), _elsewhere(seen[arm])
        if left := sorted(now - was):
            yield f"nodes of {arm} left the target: {_listed(left)}"
        elif came := sorted(was - now):
            yield f"nodes of {arm} came to the target that were not on it before: {_listed(came)}"
        elif len(expected[arm].target_nodes) != len(seen[arm].target_nodes):
            yield f"the graph of {arm} was partitioned in another way than before"


def _elsewhere(placement: Placement) -> frozenset[str]:
    return frozenset(f"{node.op_type} {node.name!r}" for node in placement.fallback_nodes)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

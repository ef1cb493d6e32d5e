"""Timing runs: the loop, the warm-up before it, the size of blocks, and a collector that keeps quiet.

A time of zero or below is an error, never a sample. There is no batching for coarse clocks: the coarsest in use ticks
every 100 ns (Windows), and no call of the runtime returns within a microsecond, so a zero is a clock that stood still.
"""

from __future__ import annotations

import gc
import math
from array import array
from contextlib import contextmanager
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import InvalidSamples
from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_winml.records.latency import Arm
    from pytest_winml.session.timing_messages import WarmUp

    Clock = Callable[[], int]
    Run = Callable[[Any], object]

_NS_PER_S = 1_000_000_000
_COMPARED = frozenset({"A", "B"})


def time_block(run: Run, binding: Any, iterations: int, clock: Clock = perf_counter_ns) -> array[int]:
    """Nanoseconds of each `run(binding)`. Nothing else is called between the two readings of the clock."""
    times = array("q", bytes(8 * iterations))
    for index in range(iterations):
        start = clock()
        run(binding)
        times[index] = clock() - start
    return times


def time_slowed_block(
    run: Run, binding: Any, iterations: int, share: float, clock: Clock = perf_counter_ns
) -> array[int]:
    """As `time_block`, each run made longer by `share` of itself: a busy wait, which no timer of the system rounds."""
    times = array("q", bytes(8 * iterations))
    for index in range(iterations):
        start = clock()
        run(binding)
        end = clock()
        until = end + int(share * (end - start))
        while (now := clock()) < until:
            if now < end:
                break  # a clock that went backwards might never arrive; `check_times` names it
        times[index] = now - start
    return times


def check_times(times: Sequence[int], of: str) -> None:
    shortest = min(times)
    if shortest <= 0:
        what = "stood still" if shortest == 0 else "went backwards"
        raise InvalidSamples(
            f"{of}: a run took {shortest} ns by the clock, which {what}",
            remedy="check the machine's clock source (a virtual machine may have a broken one) and time again.",
        )


class Warmed(Record, frozen=True, kw_only=True):
    iterations: int
    elapsed_ns: int
    converged: bool
    median_ns: float


def warm_up(run: Run, binding: Any, settings: WarmUp, of: str, clock: Clock = perf_counter_ns) -> Warmed:
    """Run until steady. One run is the least, however slow it is."""
    times: list[int] = []
    begin = clock()
    while True:
        start = clock()
        run(binding)
        end = clock()
        check_times((end - start,), of)
        times.append(end - start)
        elapsed_ns = end - begin
        converged = (
            len(times) >= settings.min_iterations
            and elapsed_ns >= settings.min_s * _NS_PER_S
            and len(times) % settings.window == 0
            and is_steady(times, settings)
        )
        if converged or elapsed_ns >= settings.max_s * _NS_PER_S:
            return Warmed(
                iterations=len(times),
                elapsed_ns=elapsed_ns,
                converged=converged,
                median_ns=median(times[-2 * settings.window :]),
            )


def is_steady(times: Sequence[int], settings: WarmUp) -> bool:
    """Whether |median(last window) / median(the one before) - 1| < tolerance."""
    window = settings.window
    if len(times) < 2 * window:
        return False
    return abs(median(times[-window:]) / median(times[-2 * window : -window]) - 1) < settings.tolerance


def sized_blocks(
    blocks: Sequence[tuple[Arm, int]],
    latency_ns: Mapping[Arm, float],
    *,
    block_ns: int | None,
    least: int,
    most: int,
) -> tuple[tuple[Arm, int], ...]:
    """The blocks, those of 0 iterations made to last about `block_ns` at the latencies that the warm-up found.

    A and B get one size, from the slower: the estimates that are compared then rest on equally many runs.
    """
    compared_ns = max((latency_ns[arm] for arm in latency_ns if arm in _COMPARED), default=0.0)

    def size(arm: Arm) -> int:
        expected_ns = compared_ns if arm in _COMPARED else latency_ns[arm]
        return max(least, min(most, math.ceil((block_ns or 0) / expected_ns)))

    return tuple((arm, iterations or size(arm)) for arm, iterations in blocks)


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection inside, and nothing of before for a later one to walk through."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()

"""What is around a timed session: who else computes, what powers the machine, how the process is scheduled.

Nothing here is fatal: what a system does not tell is None.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pytest_winml.records.base import Record
from pytest_winml.session.timing_messages import Conditions, PowerSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_NS_PER_S = 1_000_000_000
# Processor times advance by 10 to 16 ms: a share of less than this many seconds would be of ticks, not of work.
_SHORTEST_SHARE_S = 0.2
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


class Scheduling(Record, frozen=True, kw_only=True):
    priority: str | None = None
    eco_qos_off: bool | None = None


def schedule_for_timing() -> Scheduling:
    """Ask Windows for full speed and a high priority. Elsewhere both need rights that a test run should not have."""
    if sys.platform == "win32":
        from pytest_winml.session import timing_windows

        return Scheduling(
            priority=known(timing_windows.raise_priority), eco_qos_off=known(timing_windows.opt_out_of_eco_qos)
        )
    else:  # noqa: RET505 - mypy checks one branch per platform
        return Scheduling()


class Moment(Record, frozen=True, kw_only=True):
    at_ns: int
    own_cpu_s: float
    machine_cpu_s: float | None
    involuntary_switches: int | None
    power: PowerSource | None
    cpu_mhz: float | None


def moment() -> Moment:
    return Moment(
        at_ns=time.perf_counter_ns(),
        own_cpu_s=time.process_time(),
        machine_cpu_s=known(_machine_cpu_s),
        involuntary_switches=known(_involuntary_switches),
        power=known(_power_source),
        cpu_mhz=known(_cpu_mhz),
    )


class Watch:
    """The conditions of what runs between `begin` and `end`."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling
        self._quiet = (not gc.isenabled(), threading.active_count())
        self._begin = moment()

    def end(self) -> Conditions:
        begin, end = self._begin, moment()
        clock = time.get_clock_info("perf_counter")
        gc_disabled, python_threads = self._quiet
        return Conditions(
            timed_ns=end.at_ns - begin.at_ns,
            gc_disabled=gc_disabled,
            python_threads=python_threads,
            clock=clock.implementation,
            clock_resolution_ns=clock.resolution * _NS_PER_S,
            priority=self._scheduling.priority,
            eco_qos_off=self._scheduling.eco_qos_off,
            foreign_cpu_share=foreign_cpu_share(begin, end, os.cpu_count() or 1),
            involuntary_switches=_difference(begin.involuntary_switches, end.involuntary_switches),
            power_before=begin.power,
            power_after=end.power,
            cpu_mhz_before=begin.cpu_mhz,
            cpu_mhz_after=end.cpu_mhz,
        )


def foreign_cpu_share(begin: Moment, end: Moment, processors: int) -> float | None:
    elapsed_s = (end.at_ns - begin.at_ns) / _NS_PER_S
    if begin.machine_cpu_s is None or end.machine_cpu_s is None or elapsed_s < _SHORTEST_SHARE_S:
        return None
    foreign_s = (end.machine_cpu_s - begin.machine_cpu_s) - (end.own_cpu_s - begin.own_cpu_s)
    return min(1.0, max(0.0, foreign_s / (elapsed_s * processors)))


class Growth(msgspec.Struct, kw_only=True):
    """What was done inside `growth()`: how long it took and what the process grew by."""

    elapsed_ns: int = 0
    memory_bytes: int | None = None
    threads: int | None = None


@contextmanager
def growth(into: Growth) -> Iterator[None]:
    threads, memory = known(_threads), known(_memory_bytes)
    start = time.perf_counter_ns()
    yield
    into.elapsed_ns = time.perf_counter_ns() - start
    into.memory_bytes = _difference(memory, known(_memory_bytes))
    into.threads = _difference(threads, known(_threads))


def peak_memory_bytes() -> int | None:
    return known(_peak_memory_bytes)


def known(read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except Exception:  # noqa: BLE001 - what cannot be read, for whatever reason, is unknown
        return None


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def _machine_cpu_s() -> float:
    """Guests are left out: their time is in `user` already."""
    import psutil

    times = psutil.cpu_times()
    return sum(float(getattr(times, field, 0.0)) for field in _BUSY)


def _involuntary_switches() -> int | None:
    if sys.platform == "win32":
        return None  # it counts switches of all kinds in one
    else:  # noqa: RET505 - mypy checks one branch per platform
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _power_source() -> PowerSource | None:
    import psutil

    battery = psutil.sensors_battery()
    if battery is None or battery.power_plugged is None:
        return None
    return "mains" if battery.power_plugged else "battery"


def _cpu_mhz() -> float | None:
    import psutil

    frequency = psutil.cpu_freq()
    return float(frequency.current) if frequency and frequency.current else None


def _threads() -> int:
    import psutil

    return int(psutil.Process().num_threads())


def _memory_bytes() -> int:
    """Private bytes where the system counts them: a resident set shrinks when Windows trims it."""
    import psutil

    memory = psutil.Process().memory_info()
    return int(memory.private if sys.platform == "win32" else memory.rss)


def _peak_memory_bytes() -> int:
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_pagefile)
    else:  # noqa: RET505 - mypy checks one branch per platform
        # The usage that getrusage tells begins with that of the process which started this one.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024

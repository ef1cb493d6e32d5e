"""Sampling: really, of this process, and with sources that fail in every way a source can."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.monitors.hardware import HardwareMonitor, device_counters
from pytest_winml.monitors.hardware_counters import NoCounters, ProcessCounters
from tests.monitors.profiles import window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_winml.records.trace import HardwareUse

ME = os.getpid()


class Source:
    """Gives its readings one after the other; an exception among them is raised."""

    names: tuple[str, ...] = ("device_percent",)

    def __init__(self, *readings: Any) -> None:
        self.readings = list(readings)
        self.device: str | None = "a device"
        self.missing: dict[str, str] = {}
        self.closed = False

    def read(self) -> Mapping[str, Any]:
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(reading, Exception):
            raise reading
        return dict(reading)

    def close(self) -> None:
        self.closed = True


def watched(*sources: Source, pid: int | None = ME, for_s: float = 0.0) -> HardwareUse:
    monitor = HardwareMonitor("npu", interval_s=0.005, sources=lambda *_: list(sources))
    monitor.begin(window(None, worker_pid=pid))
    time.sleep(for_s)
    monitor.end()
    return monitor.collect(window(None))


def test_this_process_is_really_sampled() -> None:
    monitor = HardwareMonitor("cpu", interval_s=0.02)
    monitor.begin(window(None, worker_pid=ME))
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        sum(range(1000))
    monitor.end()
    use = monitor.collect(window(None))
    assert len(use.samples) > 3
    assert max(sample.cpu_percent or 0 for sample in use.samples) > 10
    assert all((sample.memory_bytes or 0) > 10 * 2**20 for sample in use.samples)
    assert [sample.at_us for sample in use.samples] == sorted(sample.at_us for sample in use.samples)
    assert use.samples[-1].at_us > 200_000
    assert set(use.missing) == {"device_percent", "device_memory_bytes"}


def test_a_window_shorter_than_the_interval_has_a_sample() -> None:
    monitor = HardwareMonitor("cpu", interval_s=60)
    monitor.begin(window(None, worker_pid=ME))
    monitor.end()
    assert len(monitor.collect(window(None)).samples) == 1


def test_the_thread_ends_with_the_window() -> None:
    before = threading.active_count()
    source = Source({"device_percent": 1.0})
    watched(source)
    assert threading.active_count() == before
    assert source.closed


def test_the_first_reading_primes_and_is_no_sample() -> None:
    use = watched(Source({"device_percent": 99.0}, {"device_percent": 5.0}), for_s=0.05)
    assert {sample.device_percent for sample in use.samples} == {5.0}
    assert use.device == "a device"


def test_a_source_that_fails_is_missing_and_the_others_go_on() -> None:
    failing = Source({"device_percent": 1.0}, OSError("the driver went away"))
    good = Source({"cpu_percent": 7.0})
    use = watched(failing, good, for_s=0.03)
    assert use.missing == {"device_percent": "the driver went away"}
    assert {sample.cpu_percent for sample in use.samples} == {7.0}


def test_a_source_that_cannot_be_closed_costs_nothing() -> None:
    source = Source({"device_percent": 1.0})
    source.close = lambda: (_ for _ in ()).throw(OSError("no"))  # type: ignore[method-assign]
    assert watched(source).samples


def test_sources_that_cannot_be_made_are_a_reason() -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("nothing works here")

    monitor = HardwareMonitor("npu", sources=refuse)
    monitor.begin(window(None, worker_pid=ME))
    monitor.end()
    assert monitor.collect(window(None)).missing == {"all": "nothing works here"}


def test_a_worker_that_is_not_known_is_a_reason() -> None:
    assert watched(pid=None).missing == {"all": "the worker's process is not known"}


def test_a_monitor_that_never_began_says_so_and_can_be_discarded() -> None:
    monitor = HardwareMonitor("npu")
    monitor.discard()
    assert monitor.collect(window(None)).missing == {"all": "the window did not begin"}


def test_a_process_that_is_gone_is_a_reason() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    with pytest.raises(OSError, match="not available"):
        ProcessCounters(child.pid).read()


def test_an_emulated_device_has_no_counters_of_its_own() -> None:
    found = device_counters("npu", ME, window(None, emulated=True), {})
    assert isinstance(found, NoCounters)
    assert "emulated by the CPU" in found.missing["device_percent"]


@pytest.mark.parametrize("device", ["npu", "gpu"])
def test_a_device_that_is_not_here_is_missing_with_a_reason(device: str) -> None:
    monitor = HardwareMonitor(device, interval_s=0.01)
    watched_window = window(None, worker_pid=ME, provider="OpenVINOExecutionProvider")
    monitor.begin(watched_window)
    monitor.end()
    use = monitor.collect(watched_window)
    assert use.samples
    if use.samples[-1].device_percent is None:
        assert use.missing["device_percent"].startswith("not available: ")


def test_importing_loads_no_system_and_no_psutil() -> None:
    code = (
        "import sys, pytest_winml.monitors.hardware as h, pytest_winml.monitors.hardware_windows,"
        "pytest_winml.monitors.hardware_linux; sys.exit('psutil' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Use of processor, memory and device during a window, sampled from outside the worker.

What is not told by this system is missing with its reason; it never costs a trace or a time, and nothing here raises.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from pytest_winml.monitors.hardware_counters import NoCounters, ProcessCounters
from pytest_winml.records.trace import HardwareSample, HardwareUse
from pytest_winml.session.monitoring import MonitorOptions, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_winml.monitors.hardware_counters import Counters, Reading


class HardwareMonitor:
    """`device` is the kind the target runs on; `metadata` what ORT says of it, for its LUID on Windows."""

    ep: str | None = None
    needs_release = False

    def __init__(
        self,
        device: str = "cpu",
        *,
        metadata: Mapping[str, str] | None = None,
        interval_s: float = 0.2,
        clock: Callable[[], float] = time.perf_counter,
        sources: Callable[[int, Window], list[Counters]] | None = None,
    ) -> None:
        self._device = device
        self._metadata = dict(metadata or {})
        self._interval_s = interval_s
        self._clock = clock
        self._sources = sources or self._of_this_system
        self._sampler: Sampler | None = None
        self._use = HardwareUse(missing={"all": "the window did not begin"})

    def prepare(self, folder: Path) -> MonitorOptions:  # noqa: ARG002 - the contract
        return MonitorOptions()

    def begin(self, window: Window) -> None:
        self.end()
        if window.worker_pid is None:
            self._use = HardwareUse(missing={"all": "the worker's process is not known"})
            return
        try:
            counters = self._sources(window.worker_pid, window)
            self._sampler = Sampler(counters, self._interval_s, self._clock)
            self._sampler.start()
        except Exception as error:  # noqa: BLE001 - telemetry never stops what it watches
            self._use = HardwareUse(missing={"all": str(error)})

    def end(self) -> None:
        if self._sampler is not None:
            sampler, self._sampler = self._sampler, None
            self._use = sampler.stop()

    def collect(self, window: Window) -> HardwareUse:  # noqa: ARG002 - the contract
        return self._use

    def discard(self) -> None:
        self.end()

    def _of_this_system(self, pid: int, window: Window) -> list[Counters]:
        return [ProcessCounters(pid), device_counters(self._device, pid, window, self._metadata)]


class Sampler:
    """One thread that reads all sources; a source that fails is left out from then on, with its reason."""

    def __init__(self, counters: list[Counters], interval_s: float, clock: Callable[[], float]) -> None:
        self._counters = counters
        self._live = list(counters)
        self._interval_s = interval_s
        self._clock = clock
        self._began = 0.0
        self._samples: list[HardwareSample] = []
        self._missing: dict[str, str] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="winml-hardware", daemon=True)

    def start(self) -> None:
        self._read_all()
        self._began = self._clock()
        self._thread.start()

    def stop(self) -> HardwareUse:
        self._stopped.set()
        # A counter that hangs keeps its thread, and nobody else.
        self._thread.join(timeout=5.0)
        if self._thread.is_alive():
            self._missing["all"] = "a counter did not answer"
            return self._use()
        self._sample()
        for source in self._counters:
            try:
                source.close()
            except Exception as error:  # noqa: BLE001 - nothing is lost but a handle
                self._missing.setdefault("close", str(error))
        return self._use()

    def _use(self) -> HardwareUse:
        missing = {name: why for source in self._counters for name, why in source.missing.items()}
        return HardwareUse(
            device=next((source.device for source in self._counters if source.device), None),
            samples=tuple(self._samples),
            missing={**missing, **self._missing},
        )

    def _loop(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._sample()

    def _sample(self) -> None:
        readings = self._read_all()
        if readings:
            at_us = (self._clock() - self._began) * 1e6
            self._samples.append(
                HardwareSample(
                    at_us=at_us,
                    cpu_percent=readings.get("cpu_percent"),
                    memory_bytes=_whole(readings.get("memory_bytes")),
                    device_percent=readings.get("device_percent"),
                    device_memory_bytes=_whole(readings.get("device_memory_bytes")),
                )
            )

    def _read_all(self) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        for source in list(self._live):
            try:
                readings.update(source.read())
            except Exception as error:  # noqa: BLE001 - a source that fails is missing, with its reason
                self._live.remove(source)
                reason = str(error) or type(error).__name__
                self._missing.update({name: reason for name in source.names if name not in source.missing})
        return readings


def device_counters(device: str, pid: int, window: Window, metadata: Mapping[str, str]) -> Counters:
    """Of the target's device on this system."""
    if window.emulated:
        return NoCounters(None, "the device is emulated by the CPU, whose use is told beside")
    if device == "cpu":
        return NoCounters(None, "the target is the CPU, whose use is told beside")
    try:
        return _of_the_system(device, pid, window, metadata)
    except Exception as error:  # noqa: BLE001 - a reason, and never a failure
        return NoCounters(None, str(error) or type(error).__name__)


def _of_the_system(device: str, pid: int, window: Window, metadata: Mapping[str, str]) -> Counters:
    if sys.platform == "win32":
        from pytest_winml.monitors.hardware_windows import open_counters

        return open_counters(device, pid, metadata)
    elif sys.platform == "linux":  # noqa: RET505 - mypy checks one branch per platform
        from pytest_winml.monitors.hardware_linux import linux_counters

        return linux_counters(device, pid, window.provider)
    else:
        return NoCounters(None, f"nothing is known that tells of a {device} on {sys.platform}")


def _whole(value: Reading) -> int | None:
    return None if value is None else int(value)

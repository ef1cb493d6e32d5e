"""What Linux tells of devices: counters of the driver below /sys, and of the process's own use below /proc.

Intel's NPU driver counts the microseconds it was busy, for all processes together (`npu_busy_time_us`, Documentation/
ABI of the kernel), and newer ones the memory it holds. GPU drivers account for each process in the `drm-` lines of
/proc/<pid>/fdinfo (drm-usage-stats of the kernel). QNN's and AMD's NPU drivers tell nothing of the kind.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.monitors.hardware_counters import DEVICE_NAMES, NoCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_winml.monitors.hardware_counters import Counters, Reading

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_NO_NPU = {
    "QNNExecutionProvider": "Qualcomm's NPU driver has no counter on Linux",
    "VitisAIExecutionProvider": "AMD's NPU driver has no counter of use; xrt-smi counts commands, as the trace shows",
}


def linux_counters(
    device: str, pid: int, provider: str, *, system: Path = Path("/sys"), processes: Path = Path("/proc")
) -> Counters:
    if device == "gpu":
        return DrmCounters(processes / str(pid) / "fdinfo")
    if provider in _NO_NPU:
        return NoCounters(None, _NO_NPU[provider])
    busy = sorted((system / "class" / "accel").glob("accel*/device/npu_busy_time_us"))
    if not busy:
        return NoCounters(None, "no device below /sys/class/accel has npu_busy_time_us; is the NPU's driver loaded?")
    return IntelNpuCounters(busy[0])


class IntelNpuCounters:
    """Of the whole device: what other processes do on it counts too."""

    names = DEVICE_NAMES

    def __init__(self, busy: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._busy = busy
        self._memory = busy.parent / "npu_memory_utilization"
        self._clock = clock
        self._last: tuple[float, int] | None = None
        self.device: str | None = f"{busy.parent.parent.name}, all processes"
        self.missing: dict[str, str] = {}
        if not self._memory.is_file():
            self.missing["device_memory_bytes"] = "not available: this driver has no npu_memory_utilization"

    def read(self) -> dict[str, Reading]:
        now, busy = self._clock(), int(self._busy.read_text())
        last, self._last = self._last, (now, busy)
        readings: dict[str, Reading] = {}
        if last is not None and now > last[0]:
            readings["device_percent"] = (busy - last[1]) / ((now - last[0]) * 1e6) * 100
        if "device_memory_bytes" not in self.missing:
            readings["device_memory_bytes"] = int(self._memory.read_text())
        return readings

    def close(self) -> None:
        pass


class DrmCounters:
    """Of one process; the busiest engine counts, as engines work side by side."""

    names = DEVICE_NAMES

    def __init__(self, folder: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._folder = folder
        self._clock = clock
        self._last: tuple[float, dict[str, int]] | None = None
        self.device: str | None = None
        self.missing: dict[str, str] = dict.fromkeys(
            DEVICE_NAMES, "not available: the process has no DRM client that accounts for its use"
        )

    def read(self) -> dict[str, Reading]:
        now, engines, memory = self._clock(), dict[str, int](), 0
        for client in self._clients():
            self.device = client.get("drm-driver", self.device)
            for key, value in client.items():
                if re.match(r"drm-engine-(?!capacity)", key):
                    engines[key] = engines.get(key, 0) + _amount(value)
                elif re.match(r"drm-(?:total|memory)-", key):
                    memory += _amount(value)
        last, self._last = self._last, (now, engines)
        readings: dict[str, Reading] = {}
        if memory:
            self.missing.pop("device_memory_bytes", None)
            readings["device_memory_bytes"] = memory
        if engines and last is not None and now > last[0]:
            self.missing.pop("device_percent", None)
            spent = max(value - last[1].get(key, value) for key, value in engines.items())
            readings["device_percent"] = max(0, spent) / ((now - last[0]) * 1e9) * 100
        return readings

    def _clients(self) -> Iterator[dict[str, str]]:
        """Each once: descriptors that were duplicated share a client."""
        seen = set()
        for path in sorted(self._folder.iterdir()):
            try:
                lines = path.read_text(errors="replace").splitlines()
            except OSError:  # closed meanwhile
                continue
            fields = {key: value.strip() for key, colon, value in (line.partition(":") for line in lines) if colon}
            client = (fields.get("drm-pdev"), fields.get("drm-client-id"))
            if "drm-driver" in fields and client not in seen:
                seen.add(client)
                yield fields

    def close(self) -> None:
        pass


def _amount(text: str) -> int:
    """`12 KiB` in bytes, `34 ns` in nanoseconds; 0 for what is neither."""
    number, _, unit = text.partition(" ")
    return int(number) * _UNITS.get(unit.strip(), 1) if number.isascii() and number.isdigit() else 0

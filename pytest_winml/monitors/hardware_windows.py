"""What Windows tells of GPUs and NPUs by process: performance counters of PDH, by their English paths.

`GPU Engine` has an instance `pid_<P>_luid_<high>_<low>_phys_<n>_eng_<n>_engtype_<type>` for every engine of every
adapter that a process uses, `GPU Process Memory` one `pid_<P>_luid_..._phys_<n>`; NPUs are among the adapters. Which
adapter is the target's follows from the LUID in ORT's metadata, else from the engines: an NPU has no 3D engine.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol

from pytest_winml.monitors.hardware_counters import DEVICE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_winml.monitors.hardware_counters import Reading

UTILIZATION = r"\GPU Engine(*)\Utilization Percentage"
LOCAL_MEMORY = r"\GPU Process Memory(*)\Local Usage"
SHARED_MEMORY = r"\GPU Process Memory(*)\Shared Usage"
_INSTANCE = re.compile(
    r"pid_(?P<pid>\d+)_luid_(?P<luid>0x[0-9a-f]+_0x[0-9a-f]+)_phys_\d+(?:_eng_\d+_engtype_(?P<type>.*))?",
    re.IGNORECASE,
)
_MORE_DATA = 0x800007D2
_DOUBLE_UNCAPPED = 0x00000200 | 0x00008000  # PDH_FMT_DOUBLE | PDH_FMT_NOCAP100
_VALID = (0, 1)


class Query(Protocol):
    """PDH, or what stands for it: values by instance of a counter, as of the last `collect`."""

    def add(self, path: str) -> Any: ...

    def collect(self) -> None: ...

    def values(self, counter: Any) -> dict[str, float]: ...

    def close(self) -> None: ...


class _Value(ctypes.Structure):
    _fields_ = (("status", ctypes.c_uint32), ("double", ctypes.c_double))


class _Item(ctypes.Structure):
    _fields_ = (("name", ctypes.c_wchar_p), ("value", _Value))


class PdhQuery:
    """`pdh` is the library. Statuses other than 0 become `OSError`."""

    def __init__(self, pdh: Any) -> None:
        self._pdh = pdh
        self._handle = ctypes.c_void_p()
        self._check("PdhOpenQueryW", pdh.PdhOpenQueryW(None, None, ctypes.byref(self._handle)))

    def add(self, path: str) -> ctypes.c_void_p:
        counter = ctypes.c_void_p()
        status = self._pdh.PdhAddEnglishCounterW(self._handle, ctypes.c_wchar_p(path), None, ctypes.byref(counter))
        self._check(f"the counter {path}", status)
        return counter

    def collect(self) -> None:
        self._check("PdhCollectQueryData", self._pdh.PdhCollectQueryData(self._handle))

    def values(self, counter: ctypes.c_void_p) -> dict[str, float]:
        """Instances whose value is valid; a rate has none after one collection."""
        size, count = ctypes.c_uint32(0), ctypes.c_uint32(0)
        status = self._array(counter, size, count, None)
        # Instances come and go between the two calls.
        for _ in range(3):
            if status != _MORE_DATA:
                break
            buffer = ctypes.create_string_buffer(size.value)
            status = self._array(counter, size, count, buffer)
            if status == 0:
                items = ctypes.cast(buffer, ctypes.POINTER(_Item))
                return _by_instance(items[place] for place in range(count.value))
        self._check("PdhGetFormattedCounterArrayW", status)
        return {}

    def _array(self, counter: ctypes.c_void_p, size: Any, count: Any, buffer: Any) -> int:
        status = self._pdh.PdhGetFormattedCounterArrayW(
            counter, ctypes.c_uint32(_DOUBLE_UNCAPPED), ctypes.byref(size), ctypes.byref(count), buffer
        )
        return int(status) & 0xFFFFFFFF

    def close(self) -> None:
        self._pdh.PdhCloseQuery(self._handle)

    @staticmethod
    def _check(what: str, status: int) -> None:
        if status:
            raise OSError(f"not available: PDH refuses {what} (0x{int(status) & 0xFFFFFFFF:08X})")


def _by_instance(items: Any) -> dict[str, float]:
    """Two engines of one name would hide each other: the larger stays."""
    found: dict[str, float] = {}
    for item in items:
        if item.value.status in _VALID:
            found[item.name] = max(item.value.double, found.get(item.name, 0.0))
    return found


class AdapterCounters:
    """`luid` as instances spell it, or None to tell the adapter by its engines."""

    names = DEVICE_NAMES

    def __init__(self, query: Query, device: str, pid: int, luid: str | None) -> None:
        self._query = query
        self._kind = device
        self._pid = pid
        self._luid = luid
        self.device: str | None = f"luid_{luid}" if luid else None
        self._refused: dict[str, str] = {}
        self._primed = False
        self._engines = self._add("device_percent", UTILIZATION)
        self._memory = [self._add("device_memory_bytes", path) for path in (LOCAL_MEMORY, SHARED_MEMORY)]
        self.missing = dict(self._refused)

    def _add(self, name: str, path: str) -> Any:
        try:
            return self._query.add(path)
        except OSError as error:
            self._refused[name] = str(error)
            return None

    def read(self) -> dict[str, Reading]:
        if self._engines is None and self._memory == [None, None]:
            return {}
        self._query.collect()
        if not self._primed:
            self._primed = True
            return {}
        engines = self._own(self._engines)
        luid = self._luid or self._told_by_engines(engines)
        if luid is None:
            return {}
        self.device = f"luid_{luid}"
        return {**self._utilization(engines, luid), **self._memory_use(luid)}

    def _utilization(self, engines: dict[tuple[str, str], float], luid: str) -> dict[str, Reading]:
        """Engines work side by side, so the busiest counts; a process that has none yet uses nothing."""
        if self._engines is None:
            return {}
        return {"device_percent": max((value for (of, _), value in engines.items() if of == luid), default=0.0)}

    def _memory_use(self, luid: str) -> dict[str, Reading]:
        if self._memory == [None, None]:
            return {}
        used = [self._own(counter) for counter in self._memory]
        return {"device_memory_bytes": int(sum(value for one in used for (of, _), value in one.items() if of == luid))}

    def _own(self, counter: Any) -> dict[tuple[str, str], float]:
        """By adapter and engine, of this process only."""
        if counter is None:
            return {}
        found: dict[tuple[str, str], float] = {}
        for instance, value in self._query.values(counter).items():
            match = _INSTANCE.fullmatch(instance)
            if match and int(match["pid"]) == self._pid:
                found[match["luid"].lower(), instance] = value
        return found

    def _told_by_engines(self, engines: dict[tuple[str, str], float]) -> str | None:
        kinds: dict[str, set[str]] = defaultdict(set)
        for luid, instance in engines:
            match = _INSTANCE.fullmatch(instance)
            kinds[luid].add((match["type"] or "").lower() if match else "")
        fitting = [luid for luid, types in kinds.items() if ("3d" in types) is (self._kind == "gpu")]
        if len(fitting) == 1:
            self.missing = dict(self._refused)
            return fitting[0]
        why = "uses no adapter of the kind" if not fitting else f"uses {len(fitting)} adapters of the kind"
        reason = f"not available: ORT gave no LUID of the {self._kind}, and the process {why}"
        self.missing = {**dict.fromkeys(self.names, reason), **self._refused}
        return None

    def close(self) -> None:
        self._query.close()


def luid_text(metadata: Mapping[str, str]) -> str | None:
    """ORT has the LUID as one decimal number; instances have its halves in hexadecimal."""
    text = next((value for key, value in metadata.items() if key.lower() == "luid"), "").strip()
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 2**64:
        return None
    high, low = divmod(int(text), 2**32)
    return f"0x{high:08x}_0x{low:08x}"


def open_counters(device: str, pid: int, metadata: Mapping[str, str]) -> AdapterCounters:
    return AdapterCounters(PdhQuery(_library()), device, pid, luid_text(metadata))


def _library() -> Any:
    if sys.platform == "win32":
        pdh = ctypes.WinDLL("pdh")
        for name in ("PdhOpenQueryW", "PdhAddEnglishCounterW", "PdhCollectQueryData", "PdhGetFormattedCounterArrayW"):
            getattr(pdh, name).restype = ctypes.c_uint32
        return pdh
    else:  # noqa: RET505 - mypy checks one branch per platform
        raise OSError("not available: PDH is Windows'")

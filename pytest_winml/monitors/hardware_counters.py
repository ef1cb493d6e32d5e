"""What a source of figures is, the one that every system has, and the one that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Reading = float | int | None
DEVICE_NAMES: tuple[str, ...] = ("device_percent", "device_memory_bytes")


class Counters(Protocol):
    """`names` are fields of `HardwareSample`; `read` gives some of them, or raises with a reason.

    The first `read` only primes what is a rate. `missing` says why a field has no figure so far.
    """

    names: tuple[str, ...]
    device: str | None
    missing: dict[str, str]

    def read(self) -> Mapping[str, Reading]: ...

    def close(self) -> None: ...


class NoCounters:
    """Where nothing tells: every field is missing with the same reason."""

    names = DEVICE_NAMES

    def __init__(self, device: str | None, reason: str) -> None:
        self.device = device
        self.missing = dict.fromkeys(self.names, f"not available: {reason.removeprefix('not available: ')}")

    def read(self) -> dict[str, Reading]:
        return {}

    def close(self) -> None:
        pass


class ProcessCounters:
    """By psutil. `cpu_percent` is of one logical processor: 200 is two of them at work."""

    names: tuple[str, ...] = ("cpu_percent", "memory_bytes")

    def __init__(self, pid: int) -> None:
        self.device: str | None = None
        self.missing: dict[str, str] = {}
        self._pid = pid
        self._process: Any = None

    def read(self) -> dict[str, Reading]:
        import psutil

        try:
            if self._process is None:
                self._process = psutil.Process(self._pid)
            with self._process.oneshot():
                return {
                    "cpu_percent": float(self._process.cpu_percent()),
                    "memory_bytes": int(self._process.memory_info().rss),
                }
        except psutil.Error as error:
            raise OSError(f"not available: {error}") from error

    def close(self) -> None:
        self._process = None

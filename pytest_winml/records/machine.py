"""What a run stood on: the host, its packages, and what each target can do there."""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_winml.records.base import Record

Mode = Literal["native", "emulated", "absent", "broken"]


class DeviceInfo(Record, frozen=True, kw_only=True):
    """A device as one EP offers it: the plain data of an OrtEpDevice."""

    provider: str
    ep_vendor: str
    device_type: Literal["cpu", "gpu", "npu", "unknown"]
    vendor: str
    library_path: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class EpLibrary(Record, frozen=True, kw_only=True):
    """A library that provides an EP, and who brought it."""

    ep: str
    path: str
    origin: Literal["user", "wheel", "windowsml"]
    version: str | None = None


class Availability(Record, frozen=True, kw_only=True):
    """Whether a target runs here, and how. Absent: not on this machine. Broken: there, and does not work."""

    target: str
    resolved: str | None
    mode: Mode
    reason: str = ""
    remedy: str = ""
    ep_version: str | None = None
    soc: str | None = None

    @property
    def usable(self) -> bool:
        return self.mode in ("native", "emulated")


class PowerState(Record, frozen=True, kw_only=True):
    """None where the machine does not say. `mode` is all that it tells of how it trades speed for power."""

    source: Literal["mains", "battery"] | None = None
    battery_percent: float | None = None
    governor: str | None = None
    mode: str | None = None


class Environment(Record, frozen=True, kw_only=True):
    os: str
    os_version: str
    machine: str
    cpu: str
    logical_cpus: int
    memory_bytes: int
    python: str
    runtime: str | None
    packages: dict[str, str]
    power: PowerState


class Runtime(Record, frozen=True, kw_only=True):
    """The ONNX Runtime a worker process really loaded."""

    version: str
    package: str
    providers: tuple[str, ...]
    libraries: tuple[EpLibrary, ...]
    notes: tuple[str, ...] = ()

"""Who this machine is, for a target: what decides how fast it is, what is worth knowing, and what merely varies."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_winml.providers.drivers import NO_DRIVER, driver_version
from pytest_winml.providers.environment import cpu_name
from pytest_winml.providers.power import or_none, read_power
from pytest_winml.records.identity import MachineIdentity
from pytest_winml.records.machine import PowerState
from pytest_winml.records.target import Target
from pytest_winml.version import version

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.records.machine import Availability, Runtime
    from pytest_winml.records.target import Device

_WINDOWS_VERSION = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
_DIGEST_LETTERS = 8


def os_build() -> str:
    """With the update on Windows, since EPs and drivers come with those: `Windows 10.0.26100.4351`."""
    if sys.platform == "win32":
        from pytest_winml.providers.windows_system import registry_value

        update = or_none(lambda: registry_value(_WINDOWS_VERSION, "UBR"))
        return ".".join([f"Windows {platform.version()}", *([update] if update else [])])
    else:  # noqa: RET505 - mypy checks one branch per platform
        return f"{platform.system()} {platform.release()}"


def host_digest() -> str | None:
    """Machines are told apart, and their names stay where they are."""
    name = platform.node()
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_LETTERS] if name else None


def _clock_mhz() -> float | None:
    import psutil

    clock = psutil.cpu_freq()
    return float(clock.current) if clock and clock.current else None


def _memory_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().total)


def _free_memory_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


@dataclass(frozen=True, kw_only=True)
class Readers:
    """Where each answer comes from. What raises, or is not told, is unknown."""

    cpu: Callable[[], str | None] = cpu_name
    architecture: Callable[[], str | None] = platform.machine
    logical_cpus: Callable[[], int | None] = os.cpu_count
    os_build: Callable[[], str | None] = os_build
    power: Callable[[], PowerState] = read_power
    driver: Callable[[str, Device], str | None] = driver_version
    host: Callable[[], str | None] = host_digest
    memory_bytes: Callable[[], int | None] = _memory_bytes
    clock_mhz: Callable[[], float | None] = _clock_mhz
    free_memory_bytes: Callable[[], int | None] = _free_memory_bytes


_READERS = Readers()


def read_identity(
    availability: Availability, runtime: Runtime | None = None, *, readers: Readers = _READERS
) -> MachineIdentity:
    """Raises nothing. `runtime` is what a worker loaded for the target that `availability` is about."""
    target = or_none(lambda: Target(availability.resolved or availability.target))
    ep = target.ep if target else None
    power = or_none(readers.power) or PowerState()
    return MachineIdentity(
        cpu=or_none(readers.cpu) or None,
        soc=availability.soc,
        architecture=or_none(readers.architecture) or None,
        logical_cpus=or_none(readers.logical_cpus),
        device=target.device if target else None,
        mode="native" if availability.mode == "native" else "emulated" if availability.mode == "emulated" else None,
        driver_version=_driver(availability, target, readers),
        ep=ep,
        ep_version=_ep_version(availability, ep, runtime),
        runtime_package=runtime.package if runtime else None,
        runtime_version=runtime.version if runtime else None,
        os_build=or_none(readers.os_build) or None,
        power_mode=power.mode,
        power_source=power.source,
        python=platform.python_version(),
        plugin_version=version(),
        host=or_none(readers.host),
        memory_bytes=or_none(readers.memory_bytes),
        battery_percent=power.battery_percent,
        cpu_clock_mhz=or_none(readers.clock_mhz),
        free_memory_bytes=or_none(readers.free_memory_bytes),
    )


def _driver(availability: Availability, target: Target | None, readers: Readers) -> str | None:
    if availability.mode == "emulated":
        return NO_DRIVER
    if target is None or target.ep is None:
        return None
    ep, device = target.ep, target.device
    return or_none(lambda: readers.driver(ep, device))


def _ep_version(availability: Availability, ep: str | None, runtime: Runtime | None) -> str | None:
    """An EP that no library brought is part of the runtime, and has its version."""
    if availability.ep_version or runtime is None or ep is None:
        return availability.ep_version
    brought = any(library.ep == ep for library in runtime.libraries)
    return None if brought else runtime.version

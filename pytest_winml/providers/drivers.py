"""The version of what drives a device, as far as the system tells without asking the device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.providers.power import or_none, text_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.providers.windows_system import Driver
    from pytest_winml.records.target import Device

NO_DRIVER = "none"  # a CPU needs none
_SYSTEM = Path("/sys")
_LINUX_CLASSES: dict[Device, str] = {"npu": "class/accel", "gpu": "class/drm"}
# Device setup classes of Windows: ComputeAccelerator ("Neural processors") and Display.
_WINDOWS_CLASSES: dict[Device, str] = {
    "npu": "f01a9d53-3ff6-48d2-9f97-c8a7004be10c",
    "gpu": "4d36e968-e325-11ce-bfc1-08002be10318",
}
# Whose devices an EP drives; DirectML drives everybody's.
_VENDORS: dict[str, tuple[str, ...]] = {
    "qnn": ("qualcomm", "snapdragon"),
    "openvino": ("intel",),
    "vitisai": ("amd", "advanced micro", "xilinx"),
}


def driver_version(ep: str, device: Device, system: Path = _SYSTEM) -> str | None:
    if device == "cpu":
        return NO_DRIVER
    if sys.platform == "win32":
        from pytest_winml.providers.windows_system import drivers

        return driver_text(or_none(lambda: drivers(_WINDOWS_CLASSES[device])) or [], ep)
    else:  # noqa: RET505 - mypy checks one branch per platform
        return or_none(lambda: linux_driver(system / _LINUX_CLASSES[device]))


def driver_text(found: Iterable[Driver], ep: str) -> str | None:
    """`Snapdragon X Elite Hexagon NPU 30.0.143.0`. Among several, those of the EP's vendor; none of its vendor, all."""
    drivers = sorted(set(found))
    own = [one for one in drivers if _is_of(one, _VENDORS.get(ep, ()))]
    return "; ".join(f"{one.description} {one.version}" for one in own or drivers) or None


def _is_of(driver: Driver, vendors: tuple[str, ...]) -> bool:
    words = f"{driver.vendor} {driver.description}".lower()
    return any(vendor in words for vendor in vendors)


def linux_driver(folder: Path) -> str | None:
    """`intel_vpu (of the kernel)`: a driver without a version of its own came with the kernel, whose build is known."""
    found = set()
    for device in folder.iterdir():
        driver = device / "device/driver"
        if driver.exists():
            found.add(f"{driver.resolve().name} {text_in(driver / 'module/version') or '(of the kernel)'}")
    return "; ".join(sorted(found)) or None

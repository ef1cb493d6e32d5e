"""What powers the machine, and how it trades speed for power. Unknown is None, never a guess."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pytest_winml.records.machine import PowerState

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Source = Literal["mains", "battery"]

_SYSTEM = Path("/sys")
_GOVERNOR = "devices/system/cpu/cpu0/cpufreq/scaling_governor"
# What Linux offers beside the governor, where the hardware has it.
_LINUX_MODES = {
    "governor": _GOVERNOR,
    "preference": "devices/system/cpu/cpu0/cpufreq/energy_performance_preference",
    "profile": "firmware/acpi/platform_profile",
}
_SCHEMES = {
    "381b4222-f694-41f0-9685-ff5bb260df2e": "balanced",
    "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c": "high performance",
    "a1841308-3541-4fab-bc81-f71556f20b4a": "power saver",
    "e9a42b02-d5df-448d-aa00-03f14749eb61": "ultimate performance",
}
_OVERLAYS = {
    "00000000-0000-0000-0000-000000000000": "balanced",
    "961cc777-2547-4f9d-8174-7d86181b8a7a": "best power efficiency",
    "3af9b8d9-7c97-431d-ad78-34a8bfea439f": "better performance",
    "ded574b5-45a0-4f42-8737-46345c09c238": "best performance",
}


def read_power(system: Path = _SYSTEM) -> PowerState:
    """`system` is where Linux tells."""
    battery = or_none(_battery)
    plugged = battery.power_plugged if battery else None
    return PowerState(
        source=_source(plugged if plugged is not None else or_none(lambda: _on_mains(system))),
        battery_percent=float(battery.percent) if battery else None,
        governor=text_in(system / _GOVERNOR),
        mode=or_none(lambda: _mode(system)),
    )


def or_none(read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except Exception:  # noqa: BLE001 - what cannot be read, for whatever reason, is unknown
        return None


def text_in(path: Path) -> str | None:
    return or_none(lambda: path.read_text(encoding="utf-8", errors="replace").strip() or None)


def linux_mode(system: Path) -> str | None:
    told = {word: text_in(system / path) for word, path in _LINUX_MODES.items()}
    return ", ".join(f"{word} {value}" for word, value in told.items() if value) or None


def windows_mode(*, scheme: str | None, overlay: str | None, saver: bool) -> str | None:
    """Plan and mode by their English names, since Windows has them in the user's language; a plan made by hand by its
    GUID. The mode stands beside any plan, and counts only in some: both are told.
    """
    told = [
        f"plan {_SCHEMES.get(scheme, scheme)}" if scheme else "",
        f"mode {_OVERLAYS.get(overlay, overlay)}" if overlay else "",
        "energy saver" if saver else "",
    ]
    return ", ".join(filter(None, told)) or None


def _battery() -> Any:
    """None where there is no battery, or where psutil knows of none on this system."""
    import psutil

    return psutil.sensors_battery()


def _source(plugged: bool | None) -> Source | None:
    return None if plugged is None else "mains" if plugged else "battery"


def _on_mains(system: Path) -> bool | None:
    """For a machine without a battery; one that tells of no supply at all is not assumed to hang on the wall."""
    if sys.platform == "win32":
        from pytest_winml.providers.windows_system import power_status

        return power_status().on_mains
    else:  # noqa: RET505 - mypy checks one branch per platform
        supplies = (system / "class/power_supply").iterdir()
        online = [text_in(supply / "online") for supply in supplies if text_in(supply / "type") in ("Mains", "USB")]
        return "1" in online if online else None


def _mode(system: Path) -> str | None:
    if sys.platform == "win32":
        from pytest_winml.providers import windows_system as windows

        status = or_none(windows.power_status)
        return windows_mode(
            scheme=or_none(windows.active_scheme),
            overlay=or_none(windows.active_overlay),
            saver=status is not None and status.saver,
        )
    else:  # noqa: RET505 - mypy checks one branch per platform
        return linux_mode(system)

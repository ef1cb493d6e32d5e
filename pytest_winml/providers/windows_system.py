"""What Windows itself tells of power, drivers and its own build. `OSError` where it does not."""

from __future__ import annotations

import sys
from typing import NamedTuple


class PowerStatus(NamedTuple):
    """`on_mains` is None where Windows does not know; `saver` is the battery or energy saver."""

    on_mains: bool | None
    saver: bool


class Driver(NamedTuple):
    """A driver of a device class, as the registry describes it."""

    description: str
    vendor: str
    version: str


if sys.platform == "win32":
    import contextlib
    import ctypes
    import uuid
    import winreg
    from ctypes import wintypes

    _CLASSES = r"SYSTEM\CurrentControlSet\Control\Class"

    class _SystemPowerStatus(ctypes.Structure):
        _fields_ = (
            ("ACLineStatus", ctypes.c_ubyte),
            ("BatteryFlag", ctypes.c_ubyte),
            ("BatteryLifePercent", ctypes.c_ubyte),
            ("SystemStatusFlag", ctypes.c_ubyte),
            ("BatteryLifeTime", wintypes.DWORD),
            ("BatteryFullLifeTime", wintypes.DWORD),
        )

    def registry_value(path: str, name: str) -> str:
        """Below the machine's root."""
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
            return str(winreg.QueryValueEx(key, name)[0]).strip()

    def power_status() -> PowerStatus:
        status = _SystemPowerStatus()
        if not ctypes.WinDLL("kernel32").GetSystemPowerStatus(ctypes.byref(status)):
            raise OSError("GetSystemPowerStatus refused")
        return PowerStatus({0: False, 1: True}.get(status.ACLineStatus), status.SystemStatusFlag == 1)

    def active_scheme() -> str:
        """The power plan's GUID: its name is in the user's language."""
        scheme = ctypes.POINTER(ctypes.c_char * 16)()
        if ctypes.WinDLL("powrprof").PowerGetActiveScheme(None, ctypes.byref(scheme)) or not scheme:
            raise OSError("PowerGetActiveScheme refused")
        found = str(uuid.UUID(bytes_le=scheme.contents.raw))
        free = ctypes.WinDLL("kernel32").LocalFree
        free.argtypes = (ctypes.c_void_p,)
        free(scheme)
        return found

    def active_overlay() -> str:
        """The GUID of what the settings call the power mode."""
        overlay = (ctypes.c_char * 16)()
        try:
            refused = ctypes.WinDLL("powrprof").PowerGetEffectiveOverlayScheme(ctypes.byref(overlay))
        except AttributeError as error:  # before Windows 10 1709
            raise OSError("no PowerGetEffectiveOverlayScheme here") from error
        if refused:
            raise OSError("PowerGetEffectiveOverlayScheme refused")
        return str(uuid.UUID(bytes_le=overlay.raw))

    def drivers(device_class: str) -> list[Driver]:
        """Of a device setup class, by its GUID. What was uninstalled may still be among them."""
        found = []
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, rf"{_CLASSES}\{{{device_class}}}") as key:
            names = [winreg.EnumKey(key, place) for place in range(winreg.QueryInfoKey(key)[0])]
        for name in names:
            path = rf"{_CLASSES}\{{{device_class}}}\{name}"
            with contextlib.suppress(OSError):  # "Properties" is for the system's eyes only
                values = [registry_value(path, value) for value in ("DriverDesc", "ProviderName", "DriverVersion")]
                found.append(Driver(*values))
        return found

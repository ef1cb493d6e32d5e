"""The Windows half of `timing_conditions`."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _HIGH_PRIORITY_CLASS = 0x80
    _PROCESS_POWER_THROTTLING = 4
    _VERSION = 1
    _EXECUTION_SPEED = 0x1

    class _PowerThrottling(ctypes.Structure):
        _fields_ = (("Version", wintypes.ULONG), ("ControlMask", wintypes.ULONG), ("StateMask", wintypes.ULONG))

    def raise_priority() -> str | None:
        kernel = _kernel()
        kernel.SetPriorityClass.argtypes = (wintypes.HANDLE, wintypes.DWORD)
        return "high" if kernel.SetPriorityClass(kernel.GetCurrentProcess(), _HIGH_PRIORITY_CLASS) else None

    def opt_out_of_eco_qos() -> bool:
        """A process without a window may otherwise be put on efficient cores at low clocks."""
        kernel = _kernel()
        kernel.SetProcessInformation.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
        # Controlled by us, and not on: high QoS.
        wish = _PowerThrottling(_VERSION, _EXECUTION_SPEED, 0)
        return bool(
            kernel.SetProcessInformation(
                kernel.GetCurrentProcess(), _PROCESS_POWER_THROTTLING, ctypes.byref(wish), ctypes.sizeof(wish)
            )
        )

    def _kernel() -> ctypes.WinDLL:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        return kernel

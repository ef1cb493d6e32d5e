"""The Windows half of `confine`."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import ctypes
    import msvcrt
    import os
    from ctypes import wintypes

    _KILL_ON_JOB_CLOSE = 0x2000
    _EXTENDED_LIMIT_INFORMATION = 9
    _STANDARD_HANDLES = {0: -10, 1: -11, 2: -12}

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    def binary_mode(*fds: int) -> None:
        for fd in fds:
            msvcrt.setmode(fd, os.O_BINARY)

    def publish_standard_handles() -> None:
        """Tell libraries with a C runtime of their own: they ask the system, not our descriptors."""
        set_handle = ctypes.WinDLL("kernel32").SetStdHandle
        set_handle.argtypes = (wintypes.DWORD, wintypes.HANDLE)
        for fd, name in _STANDARD_HANDLES.items():
            set_handle(name & 0xFFFFFFFF, msvcrt.get_osfhandle(fd))

    def suppress_dialogs() -> None:
        """A box that waits for a click would turn every crash into a hang."""
        msvcrt.SetErrorMode(
            msvcrt.SEM_FAILCRITICALERRORS | msvcrt.SEM_NOGPFAULTERRORBOX | msvcrt.SEM_NOOPENFILEERRORBOX
        )

    def bind_descendants() -> bool:
        """Put this process in a job that ends all its members when this process ends, however it ends.

        The handle is never closed: the system closes it with the process, and that is the point.
        """
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        kernel.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
        kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        job = kernel.CreateJobObjectW(None, None)
        return bool(
            job
            and kernel.SetInformationJobObject(
                job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            )
            and kernel.AssignProcessToJobObject(job, kernel.GetCurrentProcess())
        )

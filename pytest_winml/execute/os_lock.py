"""One lock on one open file, shared or exclusive, that the system frees when its holder dies.

Two handles exclude each other also inside one process, so threads need nothing else.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _FAIL_IMMEDIATELY = 1
    _EXCLUSIVE = 2
    _BUSY = (33, 997)  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING

    class _Overlapped(ctypes.Structure):
        _fields_ = (
            ("Internal", ctypes.c_size_t),
            ("InternalHigh", ctypes.c_size_t),
            ("Offset", wintypes.DWORD),
            ("OffsetHigh", wintypes.DWORD),
            ("hEvent", wintypes.HANDLE),
        )

    _KERNEL = ctypes.WinDLL("kernel32", use_last_error=True)
    _KERNEL.LockFileEx.argtypes = (wintypes.HANDLE, *[wintypes.DWORD] * 4, ctypes.POINTER(_Overlapped))
    _KERNEL.UnlockFileEx.argtypes = (wintypes.HANDLE, *[wintypes.DWORD] * 3, ctypes.POINTER(_Overlapped))

    def _open(path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOINHERIT)
        except PermissionError:  # another user's: reading is enough for a lock
            return os.open(path, os.O_RDONLY | os.O_NOINHERIT)

    def _try_lock(descriptor: int, *, exclusive: bool) -> bool:
        flags = _FAIL_IMMEDIATELY | (_EXCLUSIVE if exclusive else 0)
        handle = msvcrt.get_osfhandle(descriptor)
        if _KERNEL.LockFileEx(handle, flags, 0, 1, 0, ctypes.byref(_Overlapped())):
            return True
        code = ctypes.get_last_error()
        if code in _BUSY:
            return False
        raise ctypes.WinError(code)

    def _unlock(descriptor: int) -> None:
        _KERNEL.UnlockFileEx(msvcrt.get_osfhandle(descriptor), 0, 1, 0, ctypes.byref(_Overlapped()))

else:
    import fcntl

    # Never through a link that somebody else left in a folder that all may write to.
    _FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

    def _open(path: Path) -> int:
        """Created only where there is none: Linux refuses O_CREAT for another user's file in a shared folder."""
        for _ in range(3):
            with contextlib.suppress(FileNotFoundError):
                try:
                    return os.open(path, os.O_RDWR | _FLAGS)
                except PermissionError:  # another user's: reading is enough for a lock
                    return os.open(path, os.O_RDONLY | _FLAGS)
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644)
                os.fchmod(descriptor, 0o644)  # whatever the umask: other users have to read it
                return descriptor
        raise FileNotFoundError(f"{path} comes and goes")

    def _try_lock(descriptor: int, *, exclusive: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        """By name, since a forked child has the same open file and closing ours would not free it."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class OsLock:
    """A handle on a lock file. `attempt` never waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _open(path)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            raise OSError(f"{path} is not a regular file")

    def attempt(self, *, exclusive: bool) -> bool:
        """A lock on a file that was removed meanwhile is none: whoever comes next would lock another file."""
        if not _try_lock(self._descriptor, exclusive=exclusive):
            return False
        if self._is_current():
            return True
        removed, self._descriptor = self._descriptor, _open(self._path)
        os.close(removed)
        return False

    def release(self) -> None:
        _unlock(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_current(self) -> bool:
        """Windows removes no file that is open."""
        try:
            return os.name == "nt" or os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            return False

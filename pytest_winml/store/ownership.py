"""Which process something in the store belongs to, and whether that process still lives.

The owner stands in the name of a file or folder: it is there from the moment the thing is, however soon its owner dies.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from dataclasses import dataclass
from typing import Literal

Life = Literal["alive", "gone", "unknown"]
# The system's clock, which start times are told by, may be set right while a process lives.
_CLOCK_SLACK_MS = 2000


@dataclass(frozen=True)
class Owner:
    """A process id alone would do until the system gives it to somebody else; the start time tells them apart."""

    place: str
    pid: int
    started_ms: int

    def __str__(self) -> str:
        return f"{self.place}-{self.pid}-{self.started_ms}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        match text.split("-"):
            case [place, pid, started] if pid.isdecimal() and started.isdecimal():
                return cls(place, int(pid), int(started))
        return None

    def life(self) -> Life:
        """`unknown` for a process of another machine or container, whose ids mean nothing here."""
        if self.place != _place():
            return "unknown"
        import psutil

        try:
            started_ms = _started_ms(self.pid)
        except psutil.AccessDenied:  # so there is somebody
            return "alive"
        if started_ms is None or abs(started_ms - self.started_ms) > _CLOCK_SLACK_MS:
            return "gone"
        return "alive"


def this_process() -> Owner:
    pid = os.getpid()
    return Owner(_place(), pid, _started_ms(pid) or 0)


def _started_ms(pid: int) -> int | None:
    """None when it has ended; who is dead and not yet buried by its parent has."""
    import psutil

    try:
        process = psutil.Process(pid)
        started_ms = round(process.create_time() * 1000)
        return None if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else started_ms
    except psutil.NoSuchProcess:
        return None


@functools.cache
def _place() -> str:
    """Where process ids are comparable: one machine, one kind of system on it (WSL shares its host's name), one
    namespace of ids (so may containers).
    """
    import socket

    namespace = 0
    with contextlib.suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - the link's target has no path
    return hashlib.sha256(f"{socket.gethostname()}|{sys.platform}|{namespace}".encode()).hexdigest()[:8]

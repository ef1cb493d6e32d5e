"""Ending a process with all it started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

    import psutil

_TICK_S = 0.01


def kill_tree(process: subprocess.Popen[bytes], patience_s: float) -> tuple[int, ...]:
    """Kill `process` and its descendants; the ids of those that do not die, for a driver can hold a process for ever.

    Descendants are listed before their parent dies, since they are nobody's children after it. A process that is dead
    already has left its group behind on POSIX, and its job (see `confine_windows`) has ended with it on Windows.
    """
    import psutil

    descendants: list[psutil.Process] = []
    if process.poll() is None:
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for descendant in descendants:
        with contextlib.suppress(psutil.Error):
            descendant.kill()
    deadline = time.monotonic() + patience_s
    while _running(process, descendants) and time.monotonic() < deadline:
        time.sleep(_TICK_S)
    return _running(process, descendants)


def _running(process: subprocess.Popen[bytes], descendants: list[psutil.Process]) -> tuple[int, ...]:
    """The ids of those that run. A zombie does not: who inherits an orphan may be slow to bury it."""
    import psutil

    running = [process.pid] if process.poll() is None else []
    for descendant in descendants:
        with contextlib.suppress(psutil.Error):
            if descendant.is_running() and descendant.status() != psutil.STATUS_ZOMBIE:
                running.append(descendant.pid)
    return tuple(running)

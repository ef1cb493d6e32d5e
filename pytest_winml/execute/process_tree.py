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
    from collections.abc import Callable

    import psutil

_TICK_S = 0.01


def has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, without burying it: as long as it lies there, the number of its group is nobody else's."""
    if process.returncode is not None:
        return True
    if sys.platform != "win32" and hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):  # somebody else has waited for it
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def wait_exit(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    return _wait(lambda: has_exited(process), limit_s)


def kill_tree(process: subprocess.Popen[bytes], limit_s: float) -> tuple[int, ...]:
    """Kill `process` and its descendants; the ids of those that do not die, for a driver can hold a process for ever.

    Descendants are listed before their parent dies, since they are nobody's children after it. A process that has
    exited has left its group behind on POSIX; on Windows its job (see `confine_windows`) has ended with it.
    """
    import psutil

    descendants: list[psutil.Process] = []
    if process.returncode is None:
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(process.pid).children(recursive=True)
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    for descendant in descendants:
        with contextlib.suppress(psutil.Error):
            descendant.kill()
    _wait(lambda: not _running(process, descendants), limit_s)
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


def _wait(condition: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not (fulfilled := condition()) and time.monotonic() < deadline:
        time.sleep(_TICK_S)
    return fulfilled

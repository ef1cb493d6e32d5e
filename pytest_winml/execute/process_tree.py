"""Ending a process with all it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys


def kill_tree(process: subprocess.Popen[bytes], patience_s: float) -> tuple[int, ...]:
    """Kill `process` and its descendants; the ids of those that do not die, for a driver can hold a process for ever.

    Descendants are listed before their parent dies, since they are nobody's children after it. A process that is dead
    already has left its group behind on POSIX, and its job (see `confine_windows`) has ended with it on Windows.
    """
    import psutil  # noqa: PLC0415 - the parent's side stays light to import

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
    _, alive = psutil.wait_procs(descendants, timeout=patience_s)
    survivors = [survivor.pid for survivor in alive]
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        survivors.append(process.pid)
    return tuple(survivors)

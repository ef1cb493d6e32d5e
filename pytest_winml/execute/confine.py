"""What a child does to itself before any native code runs, so that native code cannot reach its parent.

The pipes move to private descriptors, standard input becomes the null device, standard output and error become the
log: then a flood, a stray `printf` or a library that reads its input neither blocks nor corrupts the channel.
"""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if sys.platform == "win32":
    from pytest_winml.execute import confine_windows

if TYPE_CHECKING:
    from pathlib import Path

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class ChannelEnds(NamedTuple):
    requests_fd: int
    answers_fd: int


def confine(log_path: Path) -> ChannelEnds:
    """Take the channel away from the standard streams and make this process harmless; call it first and once."""
    # os.dup makes descriptors that a grandchild does not inherit; otherwise it could hold the channel open.
    ends = ChannelEnds(requests_fd=os.dup(_STDIN), answers_fd=os.dup(_STDOUT))
    _point_streams_at(log_path)
    if sys.platform == "win32":
        confine_windows.binary_mode(*ends)
        confine_windows.publish_standard_handles()
        confine_windows.suppress_dialogs()
        confine_windows.bind_descendants()
    _make_printable(sys.stdout)
    _make_printable(sys.stderr)
    faulthandler.enable(_STDERR)
    return ends


def vanish() -> NoReturn:
    """End at once, whatever native code is doing, with the processes it started."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


def _point_streams_at(log_path: Path) -> None:
    binary: int = getattr(os, "O_BINARY", 0)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary, 0o600)
    os.dup2(null, _STDIN)
    os.dup2(log, _STDOUT)
    os.dup2(log, _STDERR)
    os.close(null)
    os.close(log)


def _make_printable(stream: object) -> None:
    """Let any text be printed: a log must not fail on the character that a console's code page lacks."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")

"""What native code prints while a block runs, for a log that has to be read and not only kept."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from pytest_winml.execute.log import decode_mixed, strip_ansi

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDERR = 2


class Captured:
    """`text` is complete when the block has ended, however it ended."""

    def __init__(self) -> None:
        self.text = ""


@contextlib.contextmanager
def captured_stderr() -> Iterator[Captured]:
    """Turns the process's standard error into a file for a while: native code does not know Python's `sys.stderr`."""
    captured = Captured()
    with tempfile.TemporaryFile() as file:
        _flush()
        kept = os.dup(_STDERR)
        try:
            os.dup2(file.fileno(), _STDERR)
            yield captured
        finally:
            _flush()
            os.dup2(kept, _STDERR)
            os.close(kept)
            file.seek(0)
            captured.text = strip_ansi(decode_mixed(file.read())).replace("\r\n", "\n")


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError):  # closed, or not a stream at all
        if sys.stderr is not None:
            sys.stderr.flush()

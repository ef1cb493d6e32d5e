"""The log of a worker: what native code printed, by offset, as readable text."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pytest_winml.execute.mixed_text import decode_mixed
from pytest_winml.execute.redaction import redact

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["current_offset", "decode_mixed", "read_slice", "redact", "strip_ansi", "tail", "tail_of"]

_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 40
_ANSI = re.compile(
    r"""\x1b(?: \[[0-?]*[ -/]*[@-~]             # colours and cursor movements
              | \][^\x07\x1b]*(?:\x07|\x1b\\)   # window titles and links
              | [ -/]*[0-Z\\^-~] )              # the short sequences""",
    re.VERBOSE,
)


def current_offset(path: Path) -> int:
    """Where the log ends now; 0 for a log that is not there yet."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_slice(path: Path, start: int, end: int | None = None) -> str:
    """What was printed between two offsets, for a service that reads its own log. Not redacted: it stays inside."""
    return _readable(_read(path, start, current_offset(path) if end is None else end))


def tail(path: Path, *, start: int = 0, limit_bytes: int = _TAIL_BYTES, limit_lines: int = _TAIL_LINES) -> str:
    """The last lines that were printed since `start`, fit to be shown: readable and redacted."""
    end = current_offset(path)
    first = max(start, end - limit_bytes)
    return tail_of(_read(path, first, end), cut=first > start, limit_lines=limit_lines)


def tail_of(data: bytes, *, cut: bool, limit_lines: int = _TAIL_LINES) -> str:
    """The last lines of `data`; `cut` says that it begins anywhere, so that the first line is not a whole one."""
    lines = _readable(data).splitlines()
    if cut and len(lines) > 1:
        lines = lines[1:]
    return redact("\n".join(lines[-limit_lines:]))


def strip_ansi(text: str) -> str:
    return _ANSI.sub("", text)


def _readable(data: bytes) -> str:
    return strip_ansi(decode_mixed(data)).replace("\r\n", "\n")


def _read(path: Path, start: int, end: int) -> bytes:
    try:
        with path.open("rb") as log:
            log.seek(start, os.SEEK_SET)
            return log.read(max(0, end - start))
    except FileNotFoundError:
        return b""

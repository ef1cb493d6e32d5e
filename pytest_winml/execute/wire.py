"""What travels between a worker and its parent: msgpack values in frames with a mark, a length and a request id.

The parent writes `Request` and `Close`, the child `Answer`, each in one frame. The child writes `PREAMBLE` first:
whatever an interpreter's start-up printed before it is not ours. The start itself is answered as request 0.
"""

from __future__ import annotations

import os
import struct

import msgspec

PREAMBLE = b"\x00\xffpytest-winml worker, protocol 1\xff\x00"
MAX_FRAME_BYTES = 2 * 1024**3
START_ID = 0

_MARK = b"WML\x01"
_HEADER = struct.Struct(">4sI")
_CHUNK_BYTES = 1024**2


class FrameError(Exception):
    """What came is not the protocol."""


class Request(msgspec.Struct, frozen=True, tag="request"):
    id: int
    method: str
    argument: msgspec.Raw


class Close(msgspec.Struct, frozen=True, tag="close"):
    """The wish that the child ends by itself, with all it has to write."""


class Failure(msgspec.Struct, frozen=True):
    """An error that crosses: the name of its class in `errors.py` and what that class carries."""

    kind: str
    message: str
    remedy: str | None = None
    log_tail: str | None = None


class Answer(msgspec.Struct, frozen=True):
    id: int
    result: msgspec.Raw
    failure: Failure | None = None


class Started(msgspec.Struct, frozen=True):
    """The result of request 0. The process we started may be a launcher whose child is the interpreter."""

    pid: int


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


def encode(message: Request | Close | Answer) -> bytes:
    """The payload of one frame. A message that no frame can hold is refused here, before anything is written."""
    payload = msgspec.msgpack.encode(message)
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameError(f"a message of {len(payload)} bytes is over the maximum of {MAX_FRAME_BYTES}")
    return payload


def write_frame(fd: int, payload: bytes) -> None:
    write_all(fd, _HEADER.pack(_MARK, len(payload)))
    write_all(fd, payload)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest[:_CHUNK_BYTES]) :]


class FrameReader:
    """Frames from a pipe. `early` is what came before the preamble, kept because it may say why none came."""

    def __init__(self, fd: int) -> None:
        self.early = b""
        self._fd = fd
        self._pending = bytearray()

    def skip_to_preamble(self, limit_bytes: int) -> bool:
        """Pass over what an interpreter's start-up printed; False when the other side went before the preamble."""
        while (found := self._pending.find(PREAMBLE)) < 0:
            self.early = bytes(self._pending)
            if len(self._pending) > limit_bytes:
                raise FrameError(f"{len(self._pending)} bytes came before the preamble")
            if not self._fill():
                return False
        self.early = bytes(self._pending[:found])
        del self._pending[: found + len(PREAMBLE)]
        return True

    def next_frame(self) -> bytes | None:
        """The next frame, or None when the other side is gone, even in the middle of a frame."""
        header = self._take(_HEADER.size)
        if header is None:
            return None
        mark, length = _HEADER.unpack(header)
        if mark != _MARK:
            raise FrameError(f"a frame begins with {header!r}")
        if length > MAX_FRAME_BYTES:
            raise FrameError(f"a frame claims {length} bytes, over the maximum of {MAX_FRAME_BYTES}")
        return self._take(length)

    def _take(self, length: int) -> bytes | None:
        # Grown with what arrives, never allocated on the word of a header.
        while len(self._pending) < length:
            if not self._fill():
                return None
        taken = bytes(memoryview(self._pending)[:length])
        del self._pending[:length]
        return taken

    def _fill(self) -> bool:
        chunk = os.read(self._fd, _CHUNK_BYTES)
        self._pending += chunk
        return bool(chunk)

"""The parent's end of the pipes: two threads, so that neither a full nor an empty pipe stops the parent's clock."""

from __future__ import annotations

import contextlib
import threading
from queue import SimpleQueue
from typing import IO

from pytest_winml.execute import wire

_MAX_EARLY_BYTES = 1024**2


class EndOfAnswers:
    """The child's end of the pipe is closed: it died, or native code closed what is not its own."""


class Channel:
    """`inbox` receives frames, and at last the reason why no more will come."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self.inbox: SimpleQueue[bytes | wire.FrameError | EndOfAnswers] = SimpleQueue()
        self._requests = requests
        self._answers = answers
        self._frames = wire.FrameReader(answers.fileno())
        self._sender: threading.Thread | None = None
        self._receiver = threading.Thread(target=self._receive, name="winml-answers", daemon=True)
        self._receiver.start()

    @property
    def early(self) -> bytes:
        """What was printed before the child took the channel over."""
        return self._frames.early

    def send(self, payload: bytes) -> None:
        """Write a frame without waiting: a child that is stopped reads nothing, and a pipe holds only a little."""
        self._sender = threading.Thread(target=self._write, args=(payload,), name="winml-request", daemon=True)
        self._sender.start()

    def close(self, patience_s: float) -> None:
        """Let go of pipes whose other end is gone. What a surviving process still holds is left to its thread."""
        if self._sender is not None:
            self._sender.join(patience_s)
        if self._sender is None or not self._sender.is_alive():
            self._requests.close()
        self._receiver.join(patience_s)

    def _write(self, payload: bytes) -> None:
        # A child that is gone is noticed where its answer is awaited.
        with contextlib.suppress(OSError, ValueError):
            wire.write_frame(self._requests.fileno(), payload)

    def _receive(self) -> None:
        # The pipe is closed by the thread that reads it: on Windows anyone else would wait for that read to end.
        with self._answers:
            self.inbox.put(self._receive_frames())

    def _receive_frames(self) -> wire.FrameError | EndOfAnswers:
        try:
            if self._frames.skip_to_preamble(_MAX_EARLY_BYTES):
                while (frame := self._frames.next_frame()) is not None:
                    self.inbox.put(frame)
        except wire.FrameError as error:
            return error
        except OSError:
            pass
        return EndOfAnswers()

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.execute import wire
from pytest_winml.execute.channel import Channel, EndOfAnswers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_winml.execute.wire import FrameError


class Pipe:
    """The answers of a child, written by the test."""

    def __init__(self) -> None:
        requests_read, requests_write = os.pipe()
        answers_read, self._answers = os.pipe()
        self._requests = os.fdopen(requests_read, "rb", 0)
        self.channel = Channel(os.fdopen(requests_write, "wb", 0), os.fdopen(answers_read, "rb", 0))

    def say(self, data: bytes) -> None:
        try:
            wire.write_all(self._answers, data)
        except OSError:  # a parent that has heard enough closes the pipe
            return

    def heard(self) -> bytes | FrameError | EndOfAnswers:
        return self.channel.inbox.get(timeout=5)

    def hang_up(self) -> None:
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1

    def close(self) -> None:
        self.hang_up()
        self._requests.close()
        self.channel.close(1.0)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    opened = Pipe()
    yield opened
    opened.close()


def frame(payload: bytes, *, mark: bytes = b"WML\x01", length: int | None = None) -> bytes:
    return struct.pack(">4sI", mark, len(payload) if length is None else length) + payload


def test_what_is_printed_before_the_preamble_is_skipped_and_kept_as_evidence(pipe: Pipe) -> None:
    noise = b"hello from sitecustomize\n" + wire.PREAMBLE[:10]
    pipe.say(noise + wire.PREAMBLE + frame(b"one") + frame(b""))
    assert pipe.heard() == b"one"
    assert pipe.heard() == b""
    assert pipe.channel.early == noise


def test_noise_without_end_before_the_preamble_breaks_the_protocol(pipe: Pipe) -> None:
    pipe.say(b"x" * 1_200_000)
    heard = pipe.heard()
    assert isinstance(heard, wire.FrameError)
    assert "before the preamble" in str(heard)


def test_a_child_that_goes_before_the_preamble_leaves_its_last_words(pipe: Pipe) -> None:
    pipe.say(b"cannot start")
    pipe.hang_up()
    assert isinstance(pipe.heard(), EndOfAnswers)
    assert pipe.channel.early == b"cannot start"


def test_a_frame_with_another_mark_breaks_the_protocol(pipe: Pipe) -> None:
    pipe.say(wire.PREAMBLE + frame(b"one", mark=b"2026"))
    assert isinstance(pipe.heard(), wire.FrameError)


def test_a_frame_over_the_maximum_is_refused_by_its_header_alone(pipe: Pipe) -> None:
    pipe.say(wire.PREAMBLE + frame(b"", length=wire.MAX_FRAME_BYTES + 1))
    heard = pipe.heard()
    assert isinstance(heard, wire.FrameError)
    assert str(wire.MAX_FRAME_BYTES + 1) in str(heard)


def test_a_child_that_goes_in_the_middle_of_a_frame_has_not_answered(pipe: Pipe) -> None:
    pipe.say(wire.PREAMBLE + frame(b"half", length=100))
    pipe.hang_up()
    assert isinstance(pipe.heard(), EndOfAnswers)


@given(payloads=st.lists(st.binary(max_size=300), max_size=20), cuts=st.lists(st.integers(1, 400), max_size=8))
def test_frames_arrive_whole_however_the_pipe_cuts_them(payloads: list[bytes], cuts: list[int]) -> None:
    data = wire.PREAMBLE + b"".join(map(frame, payloads))
    pipe = Pipe()
    try:
        for cut in cuts:
            pipe.say(data[:cut])
            data = data[cut:]
        pipe.say(data)
        assert [pipe.heard() for _ in payloads] == payloads
    finally:
        pipe.close()

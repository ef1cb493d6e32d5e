"""Sessions as they are timed, so that a killed run goes on at the next one.

A recording is a file of JSON lines: what is measured and the seed of its plan, then a line for each session. It lives
until its run has ended properly. Going on is asked for, never assumed: a measurement of another day is another one.

Schema versions: 1 first.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import InfrastructureError
from pytest_winml.records.base import Record
from pytest_winml.session.timing_messages import TimedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RECORDING_SCHEMA = 1


class Heading(Record, frozen=True, kw_only=True):
    """`subject` names all that must be the same for a session to be a part of the measurement."""

    schema_version: int = RECORDING_SCHEMA
    subject: str
    seed: int


class _Line(Record, frozen=True, kw_only=True):
    name: str
    session: TimedSession


class Recording:
    """`session(name, run)` answers with the session of that name from the file, or runs it and keeps it."""

    def __init__(self, path: Path, subject: str, *, seed: int, resume: bool) -> None:
        self.path = path
        heading, sessions = _read(path) if resume else (None, {})
        if heading is None or heading.subject != subject:
            heading, sessions = Heading(subject=subject, seed=seed), {}
        self.seed = heading.seed
        self.resumed = len(sessions)
        self._sessions = sessions
        with _trouble(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [heading, *(_Line(name=name, session=session) for name, session in sessions.items())]
            path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def session(self, name: str, run: Callable[[], TimedSession]) -> TimedSession:
        if name not in self._sessions:
            session = self._sessions[name] = run()
            self._append(_Line(name=name, session=session))
        return self._sessions[name]

    def _append(self, line: _Line) -> None:
        with _trouble(self.path), self.path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path) -> tuple[Heading | None, dict[str, TimedSession]]:
    """As far as it can be read: the last line of a killed run may be cut."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return None, {}
    sessions: dict[str, TimedSession] = {}
    heading = None
    with contextlib.suppress(msgspec.DecodeError, IndexError):
        heading = msgspec.json.decode(lines[0], type=Heading)
        if heading.schema_version != RECORDING_SCHEMA:
            return None, {}
        for text in lines[1:]:
            line = msgspec.json.decode(text, type=_Line)
            sessions[line.name] = line.session
    return heading, sessions


@contextlib.contextmanager
def _trouble(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfrastructureError(
            f"the sessions of a measurement cannot be kept in {path} ({error})",
            remedy="check the space on its disk, or choose another --winml-report-dir.",
        ) from error

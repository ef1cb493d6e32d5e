"""Sessions as they are timed, so that a killed run goes on at the next one.

A recording is a file of JSON lines: what is measured and the seed of its plan, then a line for each session. It lives
until its run has ended properly. Going on is asked for, never assumed: a measurement of another day is another one.

Schema versions: 1 first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import InfrastructureError
from pytest_winml.records.base import Record
from pytest_winml.session.timing_messages import TimedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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


def _any_seed() -> int:
    return secrets.randbits(32)


class Recordings:
    """The recordings of one process, in a folder of its own; `resume` goes on with those of dead processes."""

    def __init__(self, root: Path, *, resume: bool, new_seed: Callable[[], int] = _any_seed) -> None:
        self._root = root
        self._new_seed = new_seed
        self._folder = root / f"{os.getpid()}-{secrets.token_hex(4)}"
        self._resume = resume

    @property
    def interrupted(self) -> bool:
        """Whether a run that ended before its time has left sessions here."""
        return any(self._left_over())

    def recording(self, subject: str) -> Recording:
        name = f"{hashlib.sha256(subject.encode('utf-8', 'backslashreplace')).hexdigest()[:24]}.jsonl"
        earlier = [folder / name for folder in self._left_over()] if self._resume else []
        return Recording(self._folder / name, subject, seed=self._new_seed(), earlier=earlier)

    def discard(self) -> None:
        """When the run has ended properly: what it took over is in its own report now."""
        for folder in [self._folder, *(self._left_over() if self._resume else ())]:
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._root.rmdir()

    def _left_over(self) -> Iterator[Path]:
        import psutil

        for folder in sorted(self._root.glob("*-*")) if self._root.is_dir() else ():
            owner = folder.name.partition("-")[0]
            if owner.isdecimal() and not psutil.pid_exists(int(owner)):
                yield folder


class Recording:
    """`session(name, run)` answers with the session of that name from the file, or runs it and keeps it.

    Of `earlier` files the one with most sessions of the same subject is gone on with.
    """

    def __init__(self, path: Path, subject: str, *, seed: int, earlier: Iterable[Path] = ()) -> None:
        self.path = path
        found = [one for one in map(_read, earlier) if one[0] is not None and one[0].subject == subject]
        heading, sessions = max(found, key=lambda one: len(one[1]), default=(None, {}))
        if heading is None:
            heading = Heading(subject=subject, seed=seed)
        self.seed = heading.seed
        self.resumed = len(sessions)
        self._sessions = sessions
        with _trouble(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [heading, *(_Line(name=name, session=session) for name, session in sessions.items())]
            path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def has(self, name: str) -> bool:
        return name in self._sessions

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

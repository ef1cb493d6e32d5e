"""Timing alone on the machine: builds share a lock, whoever times has it to itself.

Three kinds of lock files, each held shared or exclusive:

    who         gate                        builds      device-npu
    building    exclusive, for an instant   shared
    timing      shared, from the start      exclusive   exclusive

A builder has to pass the gate, and cannot while anybody who wants to time stands in it: so timing waits for the stages
that run and for no other, however many are queued. Several may stand in the gate and then take turns at `builds`.
Between two of its sessions whoever times leaves the gate, and looks whether builders hold the `queue`: if so it gives
them the time to notice.

Timings take turns also when their devices differ. The NPU, GPU and CPU of a machine share its memory, its power budget
and the host thread that feeds them, so two timings at once would each measure the other. The device's own lock is what
a program that builds nothing can take to keep us off its device, and to be kept off while we time.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import InfrastructureError
from pytest_winml.execute.os_lock import OsLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GATE = "gate"
_BUILDS = "builds"
_QUEUE = "queue"
_DEVICE = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_FIRST_PAUSE_S = 0.005
# Whoever waits while another times wakes up ten times a second and does next to nothing.
_LONGEST_PAUSE_S = 0.1
_COURTESY_S = 3 * _LONGEST_PAUSE_S
# Where every user of a Linux machine may put a file that no other user can take away.
_SHARED_FOLDERS = (Path("/run/lock"), Path("/dev/shm"))  # noqa: S108 - opened without following links, never written to

_FOR_ALL = stat.S_ISVTX | stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


def default_folder() -> Path:
    """One place for all users of the machine where there is one, so that they do not time at once.

    On Linux that is a folder of the system with the sticky bit: files there are opened without following links and
    never written to, so the worst another user can do is to hold the lock. On Windows it is ProgramData, where each
    user may add files. Elsewhere it is the user's own, and two users can disturb each other. Containers have their own.
    TMPDIR plays no part, for it differs from job to job. PYTEST_WINML_LOCKS names another folder: one that containers
    share, when they share a device.
    """
    import platformdirs

    if chosen := os.environ.get("PYTEST_WINML_LOCKS"):
        return Path(chosen)
    if os.name == "nt":
        return platformdirs.site_data_path("pytest-winml", appauthor=False) / "locks"
    shared = next((folder for folder in _SHARED_FOLDERS if _is_for_all(folder)), None)
    return shared or platformdirs.user_state_path("pytest-winml", appauthor=False) / "locks"


class DeviceLocks:
    """Between all processes and threads that use one folder. `on_wait` is called once, when somebody is in the way."""

    def __init__(self, folder: Path | None = None, *, timeout_s: float | None = None) -> None:
        self._folder = folder or default_folder()
        self._timeout_s = timeout_s
        self._held = _Held()

    @contextlib.contextmanager
    def timing(self, device: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Alone: held only while timing, for everybody's builds wait meanwhile. Not from inside `building`."""
        if not _DEVICE.fullmatch(device):
            raise ValueError(f"{device!r} is no device: npu, gpu and cpu are")
        if self._held.kind:
            raise RuntimeError(f"timing inside {self._held.kind} would wait for itself")
        turn = _Turn(on_wait, self._timeout_s, f"the {device} to time on")
        with contextlib.ExitStack() as stack:
            for name, exclusive in ((_GATE, False), (_BUILDS, True), (f"device-{device}", True)):
                stack.enter_context(self._lock(name, turn, exclusive=exclusive))
            with self._held.as_("timing"):
                yield
        if self._builders_wait():
            time.sleep(_COURTESY_S)

    @contextlib.contextmanager
    def building(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """With other builds, and never beside a timing: one stage, or anything else of ours that would disturb one.

        Inside another `building` of the same thread it is there already. Not from inside `timing`.
        """
        if self._held.kind == "timing":
            raise RuntimeError("building inside timing would wait for itself")
        if self._held.kind == "building":
            yield
            return
        turn = _Turn(on_wait, self._timeout_s, "a timing to end, so that a build can start")
        with contextlib.ExitStack() as stack:
            with self._lock(_QUEUE, turn, exclusive=False), self._lock(_GATE, turn, exclusive=True):
                stack.enter_context(self._lock(_BUILDS, turn, exclusive=False))
            with self._held.as_("building"):
                yield

    def _builders_wait(self) -> bool:
        """They look ten times a second: who times one session after the other has to leave them that much."""
        try:
            with OsLock(self._path(_QUEUE)) as queue:
                if not queue.attempt(exclusive=True):
                    return True
                queue.release()
        except OSError:
            pass
        return False

    def _path(self, name: str) -> Path:
        return self._folder / f"pytest-winml-{name}.lock"

    @contextlib.contextmanager
    def _lock(self, name: str, turn: _Turn, *, exclusive: bool) -> Iterator[None]:
        path = self._path(name)
        with contextlib.ExitStack() as stack:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context(OsLock(path))
                while not lock.attempt(exclusive=exclusive):
                    turn.wait()
            except OSError as error:
                raise InfrastructureError(
                    f"{path} cannot be locked ({error.strerror or error})", remedy="let this user write there."
                ) from error
            stack.callback(lock.release)
            yield


class _Turn:
    """The waiting of one who may have several locks to wait for."""

    def __init__(self, on_wait: Callable[[], None], timeout_s: float | None, what: str) -> None:
        self._on_wait = on_wait
        self._timeout_s = timeout_s
        self._what = what
        self._started: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def wait(self) -> None:
        now = time.monotonic()
        if self._started is None:
            self._started = now
            self._on_wait()
        if self._timeout_s is not None and now - self._started >= self._timeout_s:
            raise InfrastructureError(
                f"waited {self._timeout_s:g} s for {self._what}",
                remedy="see which other run on this machine is timing or building.",
            )
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


class _Held(threading.local):
    """What this thread holds already."""

    kind: str | None = None

    @contextlib.contextmanager
    def as_(self, kind: str) -> Iterator[None]:
        self.kind = kind
        try:
            yield
        finally:
            self.kind = None


def _is_for_all(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_mode & _FOR_ALL == _FOR_ALL and found.st_uid == 0

"""One lock per key between processes. The system frees it when its holder dies, so that no lock is ever stale."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

from pytest_winml.store.files import WINDOWS, storage_trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from filelock import BaseFileLock

Hold = Literal["held", "busy", "refused"]
_POLL_S = 0.1


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """`on_wait` is called once, when somebody else has it."""
    from filelock import Timeout

    lock = _lock(path)
    with storage_trouble(path, "locked"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            on_wait()
            lock.acquire(poll_interval=_POLL_S)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def locked_if_free(path: Path) -> Iterator[Hold]:
    """`held` by this, `busy` when somebody else has it, `refused` where nothing can be written."""
    lock = _lock(path)
    hold = _attempt(lock, path)
    try:
        yield hold
    finally:
        if hold == "held":
            lock.release()


def _attempt(lock: BaseFileLock, path: Path) -> Hold:
    from filelock import Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        return "busy"
    except OSError:
        return "refused"
    return "held"


def remove_lock(path: Path) -> None:
    """If nobody has it. Who waits for it notices that the file is another one; Windows removes no file that is open."""
    with locked_if_free(path) as hold:
        if hold == "held" and not WINDOWS:
            path.unlink(missing_ok=True)
    if hold == "held" and WINDOWS:
        with contextlib.suppress(OSError):
            path.unlink()


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock

    # The other kind of lock, a file that exists, would outlive a killed holder.
    return FileLock(path, fallback_to_soft=False)

"""Writing files so that a reader sees the old content or the new, never a part; and removing them on every system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WINDOWS = os.name == "nt"
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# What Windows takes without the setting for long paths is 259; a tool may put a few letters after our name.
_LONG_ON_WINDOWS = 240
# Virus scanners and indexers open what is new for a moment, and Windows moves nothing that somebody has open.
_PATIENCE_S: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8) if WINDOWS else ()


def write_atomically(path: Path, content: bytes) -> None:
    """Through a temporary file in the same folder, flushed to the disk before it takes the name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InfrastructureError(
            f"{path} cannot be written ({error})", remedy="check space and permissions."
        ) from error


def sha256_of(paths: Iterable[Path]) -> str:
    """One digest over the content of files, in the order given."""
    import hashlib

    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def is_disk_full(error: OSError) -> bool:
    return error.errno in _FULL


@contextlib.contextmanager
def storage_trouble(path: Path, done: str) -> Iterator[None]:
    """What the system refuses inside becomes an error that names the path, what was `done` to it, and a way out."""
    try:
        yield
    except OSError as error:
        raise InfrastructureError(
            f"{path} cannot be {done} ({error.strerror or error})", remedy=_remedy(error, path)
        ) from error


def _remedy(error: OSError, path: Path) -> str:
    if is_disk_full(error):
        return "make room on its disk (`pytest-winml cache gc --max-size 10GB`), or choose another --winml-store."
    if error.errno == errno.ENAMETOOLONG or (WINDOWS and len(str(path)) > _LONG_ON_WINDOWS):
        return "choose a --winml-store with a shorter path."
    if error.errno in _FORBIDDEN:
        return "let this user write there and close what has it open, or choose another --winml-store."
    return "check that disk, or choose another --winml-store."


def flush_file(path: Path) -> None:
    """Onto the disk. Windows flushes only what is open for writing."""
    if WINDOWS:
        path.chmod(stat.S_IREAD | stat.S_IWRITE)
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: Path) -> None:
    """The names in it, onto the disk. Windows cannot open a folder, and writes its names down by itself."""
    if not WINDOWS:
        flush_file(path)


def make_read_only(path: Path) -> None:
    """Not on Windows, where a read-only file cannot be deleted either."""
    if not WINDOWS:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)


def rename(source: Path, target: Path, *, patience_s: Sequence[float] = _PATIENCE_S) -> None:
    """Waits a little, and longer each time, for whoever has something below `source` open."""
    for pause_s in patience_s:
        try:
            source.rename(target)
        except PermissionError:
            if target.exists():
                raise
            time.sleep(pause_s)
        else:
            return
    source.rename(target)


def remove_tree(folder: Path) -> bool:
    """Whether it is gone. What is read-only can stand in the way, and tools copy files with their modes."""
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return True
        _make_writable(folder)
    return False


def _make_writable(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(parent).chmod(stat.S_IRWXU)
            for name in files if WINDOWS else ():
                Path(parent, name).chmod(stat.S_IWRITE)


def tree_bytes(folder: Path) -> int:
    """What its files amount to; what disappears meanwhile counts as nothing."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total

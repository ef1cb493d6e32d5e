"""Where baselines are kept: a folder of this machine, or whatever an fsspec URL names."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.request import url2pathname

from pytest_winml.errors import InfrastructureError, UsageProblem
from pytest_winml.execute.redaction import redact
from pytest_winml.store.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

# A baseline of the longest protocol has a few hundred kilobytes; what is larger is something else.
MOST_BYTES = 64 * 1024**2
_REMEDY = "check the address, the network and your rights there."


class Place(Protocol):
    """Folders of files, one level deep. Nothing in it is changed once it is there."""

    def names(self, folder: str) -> list[str]:
        """Sorted; none where there is no such folder."""

    def read(self, folder: str, name: str) -> bytes:
        """At most `MOST_BYTES` and one more; `OSError` for a file that cannot be read, or is none."""

    def create(self, folder: str, name: str, content: bytes) -> None:
        """`FileExistsError` when the name is taken."""

    def __str__(self) -> str: ...


def place_at(location: str | Path) -> Place:
    scheme, separator, rest = str(location).partition("://")
    if isinstance(location, Path) or not separator:
        return LocalFolder(Path(location))
    return LocalFolder(Path(url2pathname(rest))) if scheme == "file" else RemoteFolder(location)


class LocalFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / folder).iterdir() if not path.is_dir())
        except FileNotFoundError:
            if not self._root.is_file():  # below a file Windows finds no folder, and other systems say why
                return []
            raise InfrastructureError(f"baselines cannot be kept in {self._root}, which is a file") from None
        except OSError as error:
            raise InfrastructureError(
                f"baselines in {self._root / folder} cannot be listed ({error.strerror or error})",
                remedy="let this user read there.",
            ) from error

    def read(self, folder: str, name: str) -> bytes:
        path = self._root / folder / name
        if not path.is_file():  # a pipe or a device would never end
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)

    def create(self, folder: str, name: str, content: bytes) -> None:
        path = self._root / folder / name
        if os.path.lexists(path):
            raise FileExistsError(path)
        write_atomically(path, content)


class _OneFile(OSError):
    """Trouble with this file and not with the way to it."""


class RemoteFolder:
    def __init__(self, url: str) -> None:
        self._shown = redact(url)
        self._files, self._root = self._open(url)

    def __str__(self) -> str:
        return self._shown

    def names(self, folder: str) -> list[str]:
        path = f"{self._root}/{folder}"
        with self._trouble("be listed"):
            self._files.invalidate_cache(path)  # others save meanwhile
            try:
                entries = self._files.ls(path, detail=True)
            except FileNotFoundError:
                return []
            found = [entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] != "directory"]
        return sorted(name for name in found if name)

    def read(self, folder: str, name: str) -> bytes:
        with self._trouble(f"be read at {folder}/{name}"):
            try:
                return bytes(self._files.cat_file(f"{self._root}/{folder}/{name}", start=0, end=MOST_BYTES + 1))
            except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
                raise _OneFile(error.strerror or type(error).__name__) from error

    def create(self, folder: str, name: str, content: bytes) -> None:
        path = f"{self._root}/{folder}/{name}"
        with self._trouble("be saved"):
            self._files.makedirs(f"{self._root}/{folder}", exist_ok=True)
            try:
                self._files.pipe_file(path, content, mode="create")
            except (TypeError, NotImplementedError):  # a file system that knows no exclusive creation
                if self._files.exists(path):
                    raise FileExistsError(path) from None
                self._files.pipe_file(path, content)

    def _open(self, url: str) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise UsageProblem(
                f"baselines at {self._shown} need fsspec", remedy="pip install fsspec, or keep them in a folder."
            ) from None
        with self._trouble("be reached"):
            try:
                files, root = url_to_fs(url)
            except ImportError as error:  # fsspec names the package that knows the scheme
                raise UsageProblem(f"baselines at {self._shown} need a package", remedy=f"{error}.") from error
            except ValueError as error:
                raise UsageProblem(f"baselines cannot be kept at {self._shown} ({redact(str(error))})") from error
        return files, str(root).rstrip("/")

    @contextlib.contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        try:
            yield
        except (FileExistsError, UsageProblem, _OneFile):
            raise
        except Exception as error:  # each kind of store has errors of its own
            problem = redact(f"{type(error).__name__}: {error}")
            raise InfrastructureError(
                f"baselines at {self._shown} cannot {what} ({problem})", remedy=_REMEDY
            ) from error

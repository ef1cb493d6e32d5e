"""Which entries live processes rely on, so that nobody takes them away; and what dead processes left behind."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pytest_winml.store.files import remove_tree, tree_bytes
from pytest_winml.store.locks import locked_if_free
from pytest_winml.store.ownership import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_winml.store.layout import Layout, Temporary

# A process of another machine or container cannot be asked whether it lives; nothing of ours is silent for so long.
_FOREIGN_PATIENCE_S = 3 * 86_400


class Uses:
    """The keys this process has asked for, one line each in a file of its own. A store that cannot be written to has no
    such file, and nobody can remove anything from it either.
    """

    def __init__(self, layout: Layout, owner: Owner) -> None:
        self._path = layout.uses_folder / str(owner)
        self._keys: set[str] = set()

    def add(self, key: str) -> None:
        if key in self._keys:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            with self._path.open("ab", buffering=0) as file:
                file.write(f"{key}\n".encode("ascii"))
            self._keys.add(key)


def keys_in_use(layout: Layout) -> frozenset[str]:
    found: set[str] = set()
    for path, owner in _owned(layout.uses_folder):
        if not _is_stale(path, owner):
            with contextlib.suppress(OSError):
                found.update(path.read_text(encoding="ascii", errors="replace").split())
    return frozenset(found)


def sweep(layout: Layout, *, dry_run: bool = False) -> tuple[int, int]:
    """Removes what dead processes left; how many folders, and how many bytes they had."""
    for path, owner in _owned(layout.uses_folder):
        if not dry_run and _is_stale(path, owner):
            with contextlib.suppress(OSError):
                path.unlink()
    folders = size_bytes = 0
    for temporary in layout.temporaries():
        if _is_stale(temporary.folder, temporary.owner):
            folder_bytes = tree_bytes(temporary.folder)
            if _remove_unlocked(layout, temporary, dry_run=dry_run):
                folders += 1
                size_bytes += folder_bytes
    return folders, size_bytes


def _remove_unlocked(layout: Layout, temporary: Temporary, *, dry_run: bool) -> bool:
    """A second look at whether its process lives: then it has the key's lock."""
    with contextlib.ExitStack() as stack:
        holds = [stack.enter_context(locked_if_free(path)) for path in layout.locks(temporary.short_key)]
        return "busy" not in holds and (dry_run or remove_tree(temporary.folder))


def _owned(folder: Path) -> Iterator[tuple[Path, Owner]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(folder.iterdir()):
            if owner := Owner.parse(path.name):
                yield path, owner


def _is_stale(path: Path, owner: Owner) -> bool:
    match owner.life():
        case "alive":
            return False
        case "gone":
            return True
    try:
        return time.time() - path.stat().st_mtime > _FOREIGN_PATIENCE_S
    except OSError:
        return False

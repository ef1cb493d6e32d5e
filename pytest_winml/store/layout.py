"""Where things are in a store.

    entries/<2 hex>/<key>/       the files of a stage's result, and entry.json
    tmp/<key>.<owner>.<random>/  results on their way in and out; at rest there are none
    locks/<key>.lock             held while the key is built or removed
    uses/<owner>                 the keys that one process has asked for, a line each

Names are short, lower case and free of what Windows forbids: under the folder that Windows gives to caches, the longest
path is about 170 letters of the 259 it takes.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_winml.store.ownership import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENTRY_FILE = "entry.json"
SHORT = 16  # letters of a key that name a temporary folder
_KEY = re.compile(r"[0-9a-f]{64}")
# Backup programs leave out a folder with this file: https://bford.info/cachedir/
_TAG = "CACHEDIR.TAG"
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# Results of build stages, made by pytest-winml.\n"


def default_root() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("pytest-winml", appauthor=False) / "store"


@dataclass(frozen=True)
class Temporary:
    """A folder on its way in or out."""

    folder: Path
    short_key: str
    owner: Owner

    @classmethod
    def parse(cls, folder: Path) -> Temporary | None:
        match folder.name.split("."):
            case [short_key, owner_text, _] if (owner := Owner.parse(owner_text)) is not None:
                return cls(folder, short_key, owner)
        return None


@dataclass(frozen=True)
class Layout:
    root: Path

    @property
    def temporaries_folder(self) -> Path:
        return self.root / "tmp"

    @property
    def uses_folder(self) -> Path:
        return self.root / "uses"

    @property
    def locks_folder(self) -> Path:
        return self.root / "locks"

    def entry(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key: 64 hexadecimal digits in lower case are")
        return self.root / "entries" / key[:2] / key

    def lock(self, key: str) -> Path:
        return self.locks_folder / f"{key}.lock"

    def locks(self, short_key: str = "") -> Iterator[Path]:
        for path in _children(self.locks_folder):
            if path.name.startswith(short_key) and path.suffix == ".lock" and _KEY.fullmatch(path.stem):
                yield path

    def entry_folders(self) -> Iterator[Path]:
        for shelf in _children(self.root / "entries"):
            for folder in _children(shelf):
                if _KEY.fullmatch(folder.name) and folder.name.startswith(shelf.name):
                    yield folder

    def new_temporary(self, key: str, owner: Owner) -> Path:
        """A path nobody has; the folder is not made."""
        return self.temporaries_folder / f"{key[:SHORT]}.{owner}.{secrets.token_hex(4)}"

    def temporaries(self, key: str = "") -> Iterator[Temporary]:
        for folder in _children(self.temporaries_folder):
            found = Temporary.parse(folder)
            if found is not None and found.short_key.startswith(key[:SHORT]):
                yield found

    def mark_as_cache(self) -> None:
        tag = self.root / _TAG
        if not tag.exists():
            tag.write_text(_TAG_TEXT, encoding="ascii")


def _children(folder: Path) -> list[Path]:
    """Sorted; none where there is no folder."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []

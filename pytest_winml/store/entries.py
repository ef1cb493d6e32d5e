"""One entry: the files of a stage's result and the record that says what they are and how they came to be.

`entry.json` carries a seal, the digest of all else in it, so that an edit of the record is noticed as well as one of a
file. The seal is against accidents and well-meant edits, not against somebody who can compute a digest.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import BuildError
from pytest_winml.records.store import ENTRY_SCHEMA_VERSION, Damage, DamageKind, EntryRecord, StoredFile
from pytest_winml.store.digests import canonical_digest, content_digest
from pytest_winml.store.files import flush_file, flush_folder, make_read_only, sha256_of
from pytest_winml.store.layout import ENTRY_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEAL = "seal"
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{name}{digit}" for name in ("com", "lpt") for digit in range(1, 10))]
)
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')
_LONGEST_NAME = 60  # what is left of 259 letters under a root of 100


@dataclass(frozen=True)
class Entry:
    """A result in the store. Its files are for reading only: other runs rely on them."""

    folder: Path
    record: EntryRecord
    last_used_at: float

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def key(self) -> str:
        return self.record.key

    @property
    def answer(self) -> dict[str, Any]:
        return self.record.answer

    @property
    def content_digest(self) -> str:
        return self.record.content_digest

    @property
    def files(self) -> tuple[StoredFile, ...]:
        return self.record.files

    @property
    def elapsed_s(self) -> float:
        """How long the stage took when it was built."""
        return self.record.elapsed_s

    @property
    def size_bytes(self) -> int:
        return self.record.size_bytes


@dataclass(frozen=True)
class Flaw:
    """Why an entry cannot be used. Only what is `damaged` may be removed."""

    problem: str
    kind: DamageKind = "damaged"

    def damage(self, folder: Path, *, removed: bool = False) -> Damage:
        return Damage(key=folder.name, folder=str(folder), kind=self.kind, problem=self.problem, removed=removed)


def read_entry(folder: Path) -> Entry | Flaw | None:
    """What the record says, without a look at the files; None where there is no entry."""
    try:
        last_used_at = folder.stat().st_mtime
        content = (folder / ENTRY_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return Flaw(f"it has no {ENTRY_FILE}") if folder.is_dir() else None
    except OSError as error:
        return Flaw(f"{ENTRY_FILE} cannot be read ({error.strerror or error})", "unreadable")
    record = _parse(content)
    if isinstance(record, Flaw):
        return record
    if record.key != folder.name:
        return Flaw(f"{ENTRY_FILE} belongs to the entry {record.key}")
    return Entry(folder, record, last_used_at)


def _parse(content: bytes) -> EntryRecord | Flaw:
    broken = Flaw(f"{ENTRY_FILE} is not what was written")
    try:
        fields = json.loads(content)
        if not isinstance(fields, dict):
            return broken
        version = fields.get("schema_version")
        if isinstance(version, int) and version > ENTRY_SCHEMA_VERSION:
            problem = f"it has schema {version}, and this version of pytest-winml reads up to {ENTRY_SCHEMA_VERSION}"
            return Flaw(problem, "newer")
        if fields.pop(_SEAL, None) != canonical_digest(fields):
            return broken
        record = msgspec.convert(fields, EntryRecord)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, not a record: each is a ValueError
        return broken
    return broken if any(name_problem(file.name) for file in record.files) else record


def check_sizes(entry: Entry) -> Flaw | None:
    for file in entry.record.files:
        try:
            status = entry.path(file.name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return Flaw(f"{file.name} is missing")
        except OSError as error:
            return Flaw(f"{file.name} cannot be read ({error.strerror or error})", "unreadable")
        if not stat.S_ISREG(status.st_mode):
            return Flaw(f"{file.name} is not a file")
        if status.st_size != file.size_bytes:
            return Flaw(f"{file.name} has {status.st_size} bytes where {file.size_bytes} were written")
    return None


def check_content(entry: Entry) -> Flaw | None:
    """Reads every byte; sizes first, since that is cheaper."""
    if flaw := check_sizes(entry):
        return flaw
    for file in entry.record.files:
        try:
            digest = sha256_of([entry.path(file.name)])
        except FileNotFoundError:
            return Flaw(f"{file.name} is missing")
        except OSError as error:
            return Flaw(f"{file.name} cannot be read ({error.strerror or error})", "unreadable")
        if digest != file.sha256:
            return Flaw(f"{file.name} was edited: its content is not what was written")
    if content_digest(entry.record.files) != entry.content_digest:
        return Flaw(f"{ENTRY_FILE} is not what was written")
    return None


def fingerprint(entry: Entry) -> tuple[tuple[int, int], ...] | None:
    """Changes when a file is written to, as far as its size and time tell; None when a file is not there."""
    try:
        states = [entry.path(file.name).stat() for file in entry.files]
    except OSError:
        return None
    return tuple((state.st_size, state.st_mtime_ns) for state in states)


def settle(folder: Path, stage: str) -> tuple[StoredFile, ...]:
    """Every file a stage left, on the disk and read-only."""
    files = []
    taken: dict[str, str] = {}
    for path, name in _files_below(folder, stage):
        other = taken.setdefault(name.lower(), name)
        problem = name_problem(name) if other == name else f"Windows takes it for {other!r}"
        if problem:
            raise BuildError(f"stage {stage!r} wrote {name!r}, which cannot be stored: {problem}")
        flush_file(path)
        files.append(StoredFile(name=name, sha256=sha256_of([path]), size_bytes=path.stat().st_size))
        make_read_only(path)
    for parent in {path.parent for path, _ in _files_below(folder, stage)} - {folder}:
        flush_folder(parent)
    return tuple(files)


def _files_below(folder: Path, stage: str) -> Iterator[tuple[Path, str]]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names) + [one for one in folders if Path(parent, one).is_symlink()]:
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if not stat.S_ISREG(path.lstat().st_mode):
                raise BuildError(f"stage {stage!r} wrote {relative!r}, which is not a file of its own but a link")
            yield path, relative


def name_problem(name: str) -> str | None:
    """Why a name cannot be that of a stored file on every system we run on; None when it can."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or str(path) != name:
        return "it is not a plain path below the folder"
    if name.lower() == ENTRY_FILE:
        return "that name is the store's own"
    if len(name) > _LONGEST_NAME:
        return f"the name is longer than {_LONGEST_NAME} letters, and paths on Windows are short"
    for part in path.parts:
        if part.split(".")[0].rstrip().lower() in _RESERVED:
            return "Windows reserves that name for a device"
        if _FORBIDDEN.search(part) or part.endswith((".", " ")):
            return "Windows has no such names"
    return None


def write_record(folder: Path, record: EntryRecord) -> None:
    """The last file of an entry, for people to read: it makes the folder an entry."""
    fields = msgspec.to_builtins(record)
    fields[_SEAL] = canonical_digest(fields)
    path = folder / ENTRY_FILE
    path.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    flush_file(path)
    make_read_only(path)
    flush_folder(folder)

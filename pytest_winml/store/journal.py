"""The run's journal: one JSON line per event, appended as it happens, so that a killed run loses at most one test."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import InfrastructureError, WinmlError
from pytest_winml.records.report import (
    SCHEMA_VERSION,
    ItemFinished,
    JournalEntry,
    RunFinished,
    RunReport,
    RunStarted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_UPDATE = "update pytest-winml."


class _Versioned(msgspec.Struct, frozen=True):
    """Of any entry, the one field that is read whatever else a later schema holds."""

    schema_version: int = 0


class Journal:
    """Appends to a file of its own: two runs at once write two journals."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise InfrastructureError(
                f"the journal {path} cannot be written ({error})", remedy="choose another --winml-report-dir."
            ) from error

    def append(self, entry: JournalEntry) -> None:
        try:
            self._file.write(msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            raise InfrastructureError(
                f"the journal {self.path} cannot be written ({error})", remedy="check the space on its disk."
            ) from error

    def close(self) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()


def read_journal(path: Path) -> tuple[JournalEntry, ...]:
    """Every whole line; a last line that was cut short by a kill is left out, a broken one before it is an error."""
    decoder = msgspec.json.Decoder(JournalEntry)
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InfrastructureError(f"the journal {path} cannot be read ({error})") from error
    complete, rest = lines[:-1], lines[-1]
    entries: list[JournalEntry] = []
    for number, line in enumerate(complete, start=1):
        try:
            entries.append(decoder.decode(line))
        except _NOT_AN_ENTRY as error:
            _refuse_newer(_version_in(line))
            raise InfrastructureError(f"{path}, line {number}: not a journal entry ({error})") from error
    if rest:
        with contextlib.suppress(*_NOT_AN_ENTRY):
            entries.append(decoder.decode(rest))
    return tuple(entries)


# Not JSON or not this schema; not UTF-8; a value that its record refuses.
_NOT_AN_ENTRY = (msgspec.DecodeError, UnicodeDecodeError, WinmlError)


def _version_in(line: bytes) -> int:
    try:
        return msgspec.json.decode(line, type=_Versioned).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def _refuse_newer(schema_version: int) -> None:
    if schema_version > SCHEMA_VERSION:
        raise InfrastructureError(
            f"the journal has schema {schema_version}; this version reads up to {SCHEMA_VERSION}", remedy=_UPDATE
        )


def compose(entries: Iterable[JournalEntry]) -> RunReport:
    """The report a journal amounts to. The last word on a test counts."""
    started: RunStarted | None = None
    finished: RunFinished | None = None
    items: dict[str, ItemFinished] = {}
    for entry in entries:
        match entry:
            case RunStarted():
                started = entry
            case ItemFinished():
                items[entry.nodeid] = entry
            case RunFinished():
                finished = entry
    if started is None:
        raise InfrastructureError("a journal without its first entry says nothing about a run")
    _refuse_newer(started.schema_version)
    return RunReport(started=started, items=tuple(items.values()), finished=finished)

"""Reading `report.json` back, of this version and of older ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import UsageProblem, WinmlError
from pytest_winml.records.report import SCHEMA_VERSION, RunReport

if TYPE_CHECKING:
    from pathlib import Path


class _Versioned(msgspec.Struct, frozen=True):
    """The one field that is read whatever else a later schema holds."""

    schema_version: int = 0


def read_report(path: Path) -> RunReport:
    """Raises `UsageProblem`, naming the file, for what is not a report that this version understands."""
    try:
        content = path.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageProblem(f"{path} cannot be read ({why})", remedy="name the report.json of a run.") from error
    try:
        version = msgspec.json.decode(content, type=_Versioned).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_report(path, error) from error
    if version > SCHEMA_VERSION:
        raise UsageProblem(
            f"{path} has schema {version}; this version reads up to {SCHEMA_VERSION}", remedy="update pytest-winml."
        )
    try:
        return msgspec.json.decode(content, type=RunReport)
    except (msgspec.DecodeError, UnicodeDecodeError, WinmlError) as error:
        raise _no_report(path, error) from error


def _no_report(path: Path, error: Exception) -> UsageProblem:
    return UsageProblem(
        f"{path} is damaged, or not a run's report ({error})", remedy="name the report.json that a run has written."
    )

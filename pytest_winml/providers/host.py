"""The machine underneath, as far as it decides what an EP can do."""

from __future__ import annotations

import platform
import sys
from typing import Literal

from pytest_winml.records.base import Record

_ARM64 = ("arm64", "aarch64")
_X64 = ("x86_64", "amd64", "x64")


class Host(Record, frozen=True, kw_only=True):
    system: Literal["windows", "linux", "darwin"]
    architecture: str

    @property
    def is_x64(self) -> bool:
        return self.architecture == "x64"


def this_host() -> Host:
    systems: dict[str, Literal["windows", "linux", "darwin"]] = {"win32": "windows", "darwin": "darwin"}
    machine = platform.machine().lower()
    architecture = "arm64" if machine in _ARM64 else "x64" if machine in _X64 else machine
    return Host(system=systems.get(sys.platform, "linux"), architecture=architecture)

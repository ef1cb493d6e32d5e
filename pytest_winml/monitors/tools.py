"""Vendors' tools on the command line: where they are, and a run that ends."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LIMIT_S = 20.0


class Run(Protocol):
    def __call__(self, command: Sequence[str]) -> str: ...


def run_tool(command: Sequence[str]) -> str:
    """Its output; an `OSError` for a tool that does not start, does not end or does not succeed."""
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=_LIMIT_S, stdin=subprocess.DEVNULL, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"it did not end within {_LIMIT_S:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(f"it ended with {done.returncode}: {said[-1] if said else 'no word'}")
    return done.stdout


def find_xrt_smi(environment: Mapping[str, str]) -> Path | None:
    """On the path, where Windows has AMD's tools, or where XRT's own setup script says that it is."""
    if found := shutil.which("xrt-smi", path=environment.get("PATH")):
        return Path(found)
    places = []
    if root := environment.get("SystemRoot"):
        places.append(Path(root) / "System32" / "AMD" / "xrt-smi.exe")
    if xrt := environment.get("XILINX_XRT"):
        places.append(Path(xrt) / "bin" / "xrt-smi")
    return next((place for place in places if place.is_file()), None)

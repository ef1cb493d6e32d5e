"""Registering EP libraries with the ORT of this process, once each, and listing the devices they offer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_winml.errors import TargetBroken
from pytest_winml.records.machine import DeviceInfo, EpLibrary
from pytest_winml.records.target import EP_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

# What loaders say, and what it means to a person. The first that is found in the message counts.
_LOAD_FAILURES: tuple[tuple[str, str, str], ...] = (
    (r"error 193\b|invalid ELF header|wrong ELF class|file too short", "is not a library for this architecture",
     "install the package for this Python's architecture again"),
    (r"error code: 127\b|undefined symbol|find symbol", "does not have the entry points of an EP plugin",
     "use versions of onnxruntime and of the EP that belong together"),
    (r"error 1114\b", "failed in its own initialisation", "check the device's driver"),
    (r"error 126\b|cannot open shared object", "needs a library that is not there",
     "install the package again, with the driver or runtime it asks for"),
)  # fmt: skip


# What the user gives a path of is not installed by anybody, so installing again changes nothing.
_FOR_A_PATH = {
    "install the package again": "give the path of a library that is there",
    "install the package for this Python's architecture again": "give one for this Python's architecture",
    "install the package again, with the driver or runtime it asks for": "put what it needs beside it, or install it",
}


class Registry:
    """The EPs of this process. A failure is remembered with its reason and tried again on the next call."""

    def __init__(self, ort: Any) -> None:
        self._ort = ort
        self._registered: dict[str, EpLibrary] = {}
        self.failures: dict[str, str] = {}

    def register(self, library: EpLibrary) -> None:
        provider = EP_BY_NAME[library.ep].provider
        if library.ep in self._registered:
            return
        if not Path(library.path).is_file():
            raise self._failed(library, f"EP library {library.path} does not exist", "install the package again")
        try:
            self._ort.register_execution_provider_library(provider, library.path)
        except Exception as error:
            meaning, remedy = explain_load_failure(str(error))
            raise self._failed(library, f"EP library {library.path} {meaning} ({error})", remedy) from error
        self._registered[library.ep] = library
        self.failures.pop(library.ep, None)

    def _failed(self, library: EpLibrary, reason: str, remedy: str) -> TargetBroken:
        self.failures[library.ep] = reason
        what = "is installed but does not register"
        if library.origin == "user":
            what, remedy = "does not register from the path given for it", _FOR_A_PATH.get(remedy, remedy)
        return TargetBroken(f"{library.ep} {what}: {reason}", remedy=f"{remedy}.")

    def devices(self) -> tuple[tuple[DeviceInfo, Any], ...]:
        """Every device the registered EPs offer: our plain copy, and ORT's own object to open a session with."""
        return tuple((describe_device(device), device) for device in self._ort.get_ep_devices())

    def providers(self) -> tuple[str, ...]:
        return tuple(self._ort.get_available_providers())


def describe_device(device: Any) -> DeviceInfo:
    metadata = {str(key): str(value) for key, value in dict(device.device.metadata).items()}
    return DeviceInfo(
        provider=device.ep_name,
        ep_vendor=device.ep_vendor,
        device_type=_device_type(str(device.device.type)),
        vendor=device.device.vendor,
        library_path=dict(device.ep_metadata).get("library_path"),
        metadata=metadata,
    )


def _device_type(text: str) -> Literal["cpu", "gpu", "npu", "unknown"]:
    name = text.rpartition(".")[2].lower()
    kinds: Sequence[Literal["cpu", "gpu", "npu"]] = ("cpu", "gpu", "npu")
    return next((kind for kind in kinds if kind == name), "unknown")


def explain_load_failure(message: str) -> tuple[str, str]:
    """What went wrong in a person's words, and what to do."""
    for pattern, meaning, remedy in _LOAD_FAILURES:
        if re.search(pattern, message, re.IGNORECASE):
            return meaning, remedy
    return "cannot be loaded", "see the loader's message, and run `pytest-winml doctor`"

"""Where EP libraries come from: a path the user gives, a plugin wheel, the Windows ML catalog. The first one wins."""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.providers.host import Host, this_host
from pytest_winml.providers.windowsml import catalog_libraries
from pytest_winml.records.base import Record
from pytest_winml.records.machine import EpLibrary
from pytest_winml.records.target import EP_BY_NAME, EXECUTION_PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_winml.providers.windowsml import CatalogScan


class PluginWheel(Record, frozen=True, kw_only=True):
    """A distribution whose module answers `get_library_path()`."""

    ep: str
    distribution: str
    module: str


PLUGIN_WHEELS = (
    PluginWheel(ep="qnn", distribution="onnxruntime-qnn", module="onnxruntime_qnn"),
    PluginWheel(ep="openvino", distribution="onnxruntime-ep-openvino", module="onnxruntime_ep_openvino"),
)
_EP_OF_PROVIDER = {ep.provider: ep.name for ep in EXECUTION_PROVIDERS}


class LibrarySearch(Record, frozen=True, kw_only=True):
    """What was found, best first for each EP, and a note for each source that could not answer."""

    libraries: tuple[EpLibrary, ...]
    notes: tuple[str, ...]

    def best(self, ep: str) -> EpLibrary | None:
        return next((library for library in self.libraries if library.ep == ep), None)


def find_libraries(
    user_paths: Mapping[str, str],
    *,
    allow_download: bool = False,
    timeout_s: float = 300.0,
    catalog: Callable[..., CatalogScan] = catalog_libraries,
    host: Host | None = None,
) -> LibrarySearch:
    """Looks in every source; nothing is loaded or registered here."""
    found: list[EpLibrary] = [
        EpLibrary(ep=ep, path=str(Path(path).absolute()), origin="user") for ep, path in user_paths.items()
    ]
    notes: list[str] = []
    host = host or this_host()
    for wheel in PLUGIN_WHEELS:
        try:
            version = importlib.metadata.version(wheel.distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        try:
            path = importlib.import_module(wheel.module).get_library_path()
        except Exception as error:  # noqa: BLE001 - the wheel's own code; whatever it raises is the note
            notes.append(f"{wheel.distribution} {version} does not tell its library: {error}")
            continue
        found.append(EpLibrary(ep=wheel.ep, path=str(Path(path).absolute()), origin="wheel", version=version))
    if host.system != "windows":
        return LibrarySearch(libraries=tuple(found), notes=tuple(notes))
    scan = catalog(allow_download=allow_download, timeout_s=timeout_s)
    if scan.problem:
        notes.append(scan.problem)
    for entry in scan.entries:
        if entry.ep_name is not None and entry.ep_name not in _EP_OF_PROVIDER:
            continue
        if entry.ep_name is not None and entry.ready and entry.library_path:
            found.append(
                EpLibrary(
                    ep=_EP_OF_PROVIDER[entry.ep_name],
                    path=entry.library_path,
                    origin="windowsml",
                    version=entry.version,
                )
            )
        elif entry.problem:
            # The problem names the EP; a version is there only once the EP is installed.
            notes.append(f"Windows ML catalog: {entry.problem}")
    return LibrarySearch(libraries=tuple(found), notes=tuple(notes))


def wheel_for(ep: str) -> PluginWheel | None:
    return next((wheel for wheel in PLUGIN_WHEELS if wheel.ep == ep), None)


def provider_name(ep: str) -> str:
    return EP_BY_NAME[ep].provider

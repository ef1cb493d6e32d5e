"""The EPs of this process: libraries found once, registered when a target asks for them, and bound to a device."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import TargetAbsent, TargetBroken
from pytest_winml.providers.binding import Surroundings, bind
from pytest_winml.providers.distributions import runtime_install
from pytest_winml.providers.host import this_host
from pytest_winml.providers.libraries import LibrarySearch, find_libraries
from pytest_winml.providers.registry import Registry
from pytest_winml.records.target import EP_BY_NAME

if TYPE_CHECKING:
    from pytest_winml.providers.binding import Binding
    from pytest_winml.records.target import Target
    from pytest_winml.session.messages import ProviderSettings


class ProcessProviders:
    def __init__(self, ort: Any, settings: ProviderSettings) -> None:
        self._registry = Registry(ort)
        self._settings = settings

    @cached_property
    def search(self) -> LibrarySearch:
        settings = self._settings
        return find_libraries(
            settings.ep_libraries, allow_download=not settings.offline, timeout_s=settings.catalog_timeout_s
        )

    def bind(self, target: Target) -> tuple[Binding, Any | None]:
        """The binding, and ORT's own device object; None for a classic build that knows its EP by name only."""
        library = self.search.best(str(target.ep))
        if library is not None and EP_BY_NAME[library.ep].provider not in self._registry.providers():
            self._registry.register(library)
        offered = self._registry.devices()
        surroundings = Surroundings(
            host=this_host(),
            providers=self._registry.providers(),
            devices=tuple(info for info, _ in offered),
            library=library,
            runtime=next((one.name for one in runtime_install().distributions), "onnxruntime"),
        )
        binding = bind(target, surroundings, self._settings.emulate)
        return binding, None if binding.device_index is None else offered[binding.device_index][1]


def import_ort() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise TargetAbsent(
            f"ONNX Runtime cannot be imported ({error})", remedy="run `pytest-winml doctor` to see which extra to take."
        ) from error
    if not hasattr(onnxruntime.SessionOptions, "add_provider_for_devices"):
        raise TargetBroken(
            f"onnxruntime {onnxruntime.__version__} cannot open sessions by device",
            remedy="install onnxruntime 1.24 or newer.",
        )
    return onnxruntime

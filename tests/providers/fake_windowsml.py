"""A Windows ML catalog for tests: the signatures of `windowsml`, and its harsh rules made loud.

The classes with the binding's names have the binding's signatures (test_windowsml.py compares them with the record of
the real wheel). Breaking a rule whose price on Windows is a crash or a hang raises AssertionError here: using a handle
after its catalog closed, closing a catalog under a running operation, using an operation after its close.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR_S = 3600.0


class EpReadyState(IntEnum):
    Ready = 0
    NotReady = 1
    NotPresent = 2


class HresultError(OSError):
    """What ctypes makes of a failed HRESULT: the code arrives as a signed number."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(22, text)
        self.winerror = code - (1 << 32) if code >= 1 << 31 else code


@dataclass(kw_only=True)
class Spec:
    """One provider as the test wants it; `broken` maps a property to what reading it raises."""

    name: str = "QNNExecutionProvider"
    version: str = "2.7.0"
    family: str = "MicrosoftCorporationII.WinML.Qualcomm.QNN.EP_8wekyb3d8bbwe"
    path: str = "C:\\Program Files\\WindowsApps\\qnn\\onnxruntime_providers_qnn.dll"
    state: EpReadyState = EpReadyState.Ready
    progress: tuple[float, ...] = ()
    # What ensure_ready_async comes to: "hangs" ends when cancelled, "wins" ends well when cancelled, "deaf" ignores it.
    ending: Literal["succeeds", "fails", "lies", "hangs", "wins", "deaf"] = "succeeds"
    start_error: OSError | None = None
    broken: dict[str, Exception] = field(default_factory=dict)


@dataclass
class World:
    """What the machine holds, and the journal of what was done to it."""

    specs: list[Spec]
    open_error: Exception | None = None
    list_error: Exception | None = None
    journal: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)  # lets deaf operations end
    closed: threading.Event = field(default_factory=threading.Event)  # the catalog

    def module(self) -> Any:
        bound = type("EpCatalog", (EpCatalog,), {"world": self})
        return SimpleNamespace(EpCatalog=bound, EpReadyState=EpReadyState)


class EpCatalog:
    world: ClassVar[World]

    def __init__(self) -> None:
        if self.world.open_error is not None:
            raise self.world.open_error
        self._running: set[AsyncOperation] = set()

    def find_all_providers(self) -> list[ExecutionProvider]:
        if self.world.list_error is not None:
            raise self.world.list_error
        return [ExecutionProvider(self, spec) for spec in self.world.specs]

    def close(self) -> None:
        assert not self._running, "the catalog was closed under an operation that had not been closed"
        self.world.journal.append("catalog closed")
        self.world.closed.set()


class ExecutionProvider:
    def __init__(self, catalog: EpCatalog, spec: Spec) -> None:
        self._catalog = catalog
        self._spec = spec

    def _read(self, name: str, value: str) -> str:
        assert not self._catalog.world.closed.is_set(), f"{name} was read after the catalog closed"
        if name in self._spec.broken:
            raise self._spec.broken[name]
        return value

    @property
    def name(self) -> str:
        return self._read("name", self._spec.name)

    @property
    def version(self) -> str:
        return self._read("version", "" if self._spec.state is EpReadyState.NotPresent else self._spec.version)

    @property
    def package_family_name(self) -> str:
        return self._read("package_family_name", self._spec.family)

    @property
    def library_path(self) -> str:
        return self._read("library_path", self._spec.path if self._spec.state is EpReadyState.Ready else "")

    @property
    def ready_state(self) -> EpReadyState:
        self._read("ready_state", "")
        return self._spec.state

    def ensure_ready_async(
        self,
        on_complete: Callable[[], None] | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> AsyncOperation:
        self._read("ensure_ready_async", "")
        self._catalog.world.journal.append(f"{self._spec.name} started from {self._spec.state.name}")
        if self._spec.start_error is not None:
            raise self._spec.start_error
        return AsyncOperation(self._catalog, self._spec, on_complete, on_progress)


class AsyncOperation:
    def __init__(
        self,
        catalog: EpCatalog,
        spec: Spec,
        on_complete: Callable[[], None] | None,
        on_progress: Callable[[float], None] | None,
    ) -> None:
        self._catalog = catalog
        self._spec = spec
        self._on_complete = on_complete
        self._on_progress = on_progress
        self._cancelled = threading.Event()
        self._ended = threading.Event()
        self._closed = False
        self._error: OSError | None = None
        catalog._running.add(self)
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        for percent in self._spec.progress:
            if self._on_progress is not None:
                self._on_progress(percent)
        if self._spec.ending in {"hangs", "wins"}:
            self._cancelled.wait(HOUR_S)
        elif self._spec.ending == "deaf":
            self._catalog.world.release.wait(HOUR_S)
        if self._spec.ending in {"fails", "hangs"}:
            self._error = HresultError("The operation was cancelled or failed.", 0x80004005)
        elif self._spec.ending != "lies":
            self._spec.state = EpReadyState.Ready
        self._ended.set()
        if self._on_complete is not None:
            self._on_complete()

    def wait(self) -> None:
        assert not self._closed, "the operation was used after its close"
        self._ended.wait(HOUR_S)
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        assert not self._closed, "the operation was used after its close"
        self._catalog.world.journal.append(f"{self._spec.name} cancelled")
        self._cancelled.set()

    def close(self) -> None:
        # The real one waits here, without a limit.
        self._ended.wait(HOUR_S)
        self._closed = True
        self._catalog._running.discard(self)
        self._catalog.world.journal.append(f"{self._spec.name} closed")

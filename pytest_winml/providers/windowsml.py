"""The Windows ML catalog as a source of EP libraries.

Call it in the process that will register the library: an EP that is `NotReady` is installed, and making it ready adds
its package to *this* process's dependency graph. No download is needed for that; only `NotPresent` needs one.

Four habits of the binding (`windowsml` 2.5, read off its wheel) shape this module:

- Importing it loads a DLL, so already the import may raise OSError.
- Handles of providers belong to the catalog: everything is copied before the catalog closes.
- Callbacks come on a thread of Windows and their exceptions are lost. They only fill a queue here; the caller's
  `on_progress` runs on the caller's thread.
- `AsyncOperation.close()`, and so its finalizer, first waits for the native work without a limit. An operation that
  does not obey `cancel()` is closed by a daemon thread, and the catalog after it, never before.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

# How long a cancelled operation may take to end before it is left to the background.
CANCEL_GRACE_S = 10.0

# What a ctypes binding raises when the native side says no: a failed HRESULT or an access violation (OSError), a value
# its enum does not know or text that is not UTF-8 (ValueError), a name a later version dropped (AttributeError).
_NATIVE_ERRORS = (OSError, ValueError, AttributeError)


class Operation(Protocol):
    def wait(self) -> None: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...


class CatalogProvider(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def package_family_name(self) -> str: ...
    @property
    def library_path(self) -> str: ...
    @property
    def ready_state(self) -> Any: ...
    def ensure_ready_async(
        self,
        on_complete: Callable[[], None] | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> Operation: ...


class Catalog(Protocol):
    def find_all_providers(self) -> Sequence[CatalogProvider]: ...
    def close(self) -> None: ...


class Binding(Protocol):
    """The part of the module `windowsml` that is used."""

    @property
    def EpCatalog(self) -> Callable[[], Catalog]: ...  # noqa: N802  # the binding's own name


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One provider of the catalog; `library_path` is there exactly when it is `ready`, `problem` exactly when not."""

    ep_name: str | None  # None: the catalog could not even say its name
    version: str | None
    library_path: str | None
    package_family_name: str | None
    ready: bool
    problem: str | None = None


class CatalogScan(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalog holds, or the one `problem` that kept it shut, with what to do about it."""

    entries: tuple[CatalogEntry, ...] = ()
    problem: str | None = None


def catalog_libraries(
    *,
    allow_download: bool,
    timeout_s: float,
    on_progress: Callable[[str, float], None] | None = None,
    module: Binding | None = None,
) -> CatalogScan:
    """Every provider of the catalog, made ready where that is allowed; `timeout_s` is for each provider.

    `on_progress` gets the EP's name and a fraction from 0 to 1. What it raises stops the scan and is raised here.
    """
    try:
        binding = _import_binding() if module is None else module
        catalog = _ask(
            "the Windows ML catalog cannot be opened",
            lambda: binding.EpCatalog(),  # noqa: PLW0108  # the name itself may be missing
        )
    except _RefusedError as refusal:
        return CatalogScan(problem=f"{refusal}. {_RUNTIME_REMEDY}" if refusal.native else str(refusal))
    scan = _Scan(allow_download=allow_download, timeout_s=timeout_s, on_progress=on_progress)
    try:
        providers = _ask("the Windows ML catalog does not list its providers", catalog.find_all_providers)
        return CatalogScan(entries=tuple(scan.read(providers)))
    except _RefusedError as refusal:
        return CatalogScan(problem=f"{refusal}. {_RUNTIME_REMEDY}")
    finally:
        scan.close(catalog)


_RUNTIME_REMEDY = (
    "Bring Windows 11 up to date (24H2 or newer) and install the newest Windows App SDK runtime "
    "(winget search Microsoft.WindowsAppRuntime)"
)


class _RefusedError(Exception):
    """The native side, or this machine, said no; the message says to what."""

    def __init__(self, message: str, *, native: bool = True) -> None:
        super().__init__(message)
        self.native = native


def _ask(refusal: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except _NATIVE_ERRORS as error:
        raise _RefusedError(f"{refusal}: {_told(error)}") from error


def _told(error: Exception) -> str:
    """The error's text; an HRESULT as people look it up, not as the signed number Python shows."""
    code = getattr(error, "winerror", None)
    if isinstance(error, OSError) and isinstance(code, int):
        return f"{(error.strerror or 'no text').rstrip('. ')} (0x{code & 0xFFFFFFFF:08X})"
    return str(error).rstrip(". ") or type(error).__name__


def _import_binding(platform: str = sys.platform) -> Binding:
    if platform != "win32":
        raise _RefusedError(
            "the Windows ML catalog exists on Windows only; here EPs come from packages, "
            'such as onnxruntime-qnn: pip install "pytest-winml[qnn]"',
            native=False,
        )
    try:
        import windowsml  # its DLL exists on Windows only
    except ImportError as error:
        raise _RefusedError(
            f"the package windowsml cannot be imported ({_told(error)}); "
            'pip install "pytest-winml[windowsml]" in an environment without another ONNX Runtime',
            native=False,
        ) from error
    except OSError as error:
        raise _RefusedError(f"the DLL of the package windowsml cannot be loaded: {_told(error)}") from error
    binding: Binding = windowsml
    return binding


class _Scan:
    """One pass over an open catalog, and the operations it could not end."""

    def __init__(
        self, *, allow_download: bool, timeout_s: float, on_progress: Callable[[str, float], None] | None
    ) -> None:
        self._allow_download = allow_download
        self._timeout_s = timeout_s
        self._on_progress = on_progress
        self._disobedient: list[Operation] = []

    def read(self, providers: Sequence[CatalogProvider]) -> Iterable[CatalogEntry]:
        for number, provider in enumerate(providers, 1):
            yield self._entry(provider, f"provider {number} of {len(providers)} in the catalog")

    def _entry(self, provider: CatalogProvider, position: str) -> CatalogEntry:
        name = version = family = path = problem = None
        try:
            name = _ask("its name cannot be read", lambda: provider.name)
            family = _ask("its package cannot be read", lambda: provider.package_family_name)
            version = _version(provider)
            self._make_ready(name, provider)
            # Before an EP is ready there is no path, and before it is installed no version either.
            version = _version(provider)
            path = _ask("its library path cannot be read", lambda: provider.library_path)
            if not path:
                problem = "it says it is ready and names no library; repair its package in Settings > Apps"
        except _RefusedError as refusal:
            problem = str(refusal)
        # The binding says "" for what it does not know.
        return CatalogEntry(
            ep_name=name or None,
            version=version or None,
            library_path=path or None,
            package_family_name=family or None,
            ready=problem is None,
            problem=problem and f"{name or position}: {problem}",
        )

    def _make_ready(self, name: str, provider: CatalogProvider) -> None:
        state = _state(provider)
        if state == "Ready":
            return
        if state not in {"NotReady", "NotPresent"}:
            raise _RefusedError(f"its state is {state}, which this version of pytest-winml does not know")
        if state == "NotPresent" and not self._allow_download:
            raise _RefusedError(
                "not installed on this machine and its download was not allowed; "
                "allow it, or let Windows Update install it"
            )
        verb = "downloaded" if state == "NotPresent" else "made ready"
        in_time = self._run(name, verb, provider)
        # Asked even after a time-out: work that ends while it is being cancelled has still ended well.
        if (state := _state(provider)) != "Ready":
            raise _RefusedError(f"reported success, and its state is {state}" if in_time else self._late(verb))

    def _late(self, verb: str) -> str:
        return f"could not be {verb} within {self._timeout_s:g} s and was cancelled; allow more time"

    def _run(self, name: str, verb: str, provider: CatalogProvider) -> bool:
        """Whether the provider's operation ended well in time; it is over and closed in either case, or this raises."""
        events: SimpleQueue[float | None] = SimpleQueue()  # progress, and None for the end
        operation = _ask(
            f"could not be {verb}",
            lambda: provider.ensure_ready_async(on_complete=lambda: events.put(None), on_progress=events.put),
        )
        try:
            ended = self._follow(name, events)
        except BaseException:  # the caller's on_progress, or Ctrl-C
            self._stop(operation, events)
            raise
        if not ended:
            if not self._stop(operation, events):
                raise _RefusedError(f"{self._late(verb)} (it did not obey and goes on in the background)")
            return False
        try:
            _ask(f"could not be {verb}", operation.wait)
        finally:
            operation.close()
        return True

    def _follow(self, name: str, events: SimpleQueue[float | None]) -> bool:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                percent = events.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return False
            if percent is None:
                return True
            if self._on_progress is not None:
                # The wheel's docstring says 0.0-1.0, the documentation of the native function says "out of 100".
                self._on_progress(name, min(max(percent / 100, 0.0), 1.0))

    def _stop(self, operation: Operation, events: SimpleQueue[float | None]) -> bool:
        with suppress(*_NATIVE_ERRORS):
            operation.cancel()
        deadline = time.monotonic() + CANCEL_GRACE_S
        try:
            while events.get(timeout=max(0.0, deadline - time.monotonic())) is not None:
                pass
        except Empty:
            self._disobedient.append(operation)
            return False
        operation.close()
        return True

    def close(self, catalog: Catalog) -> None:
        if not self._disobedient:
            catalog.close()
            return
        # A daemon: the process may end while it waits. Its frame keeps operations and catalog from their finalizers.
        threading.Thread(
            target=_close_all, args=(self._disobedient, catalog), name="windowsml-close", daemon=True
        ).start()


def _version(provider: CatalogProvider) -> str:
    return _ask("its version cannot be read", lambda: provider.version)


def _state(provider: CatalogProvider) -> str:
    return str(_ask("its state cannot be read", lambda: provider.ready_state.name))


def _close_all(operations: list[Operation], catalog: Catalog) -> None:
    for operation in operations:
        operation.close()
    catalog.close()

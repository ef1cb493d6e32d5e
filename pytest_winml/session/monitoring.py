"""The contract of a monitor: options before the session is opened, a window that it observes, a result after it.

The session alone creates and owns ORT sessions. A monitor says what it needs, and sees what was written meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pytest_winml.errors import MonitorError
from pytest_winml.records.base import Record
from pytest_winml.records.placement import Placement

if TYPE_CHECKING:
    from pathlib import Path


class MonitorOptions(Record, frozen=True, kw_only=True):
    """What a monitor adds to a session: its own profiling keys, and nothing that decides what runs or where.

    `profile_prefix` turns ORT's profile on. `watched` are files whose length is noted before and after every run.
    `working_directory`: a worker of its own that runs there, for what an EP writes nowhere else.
    """

    provider_options: dict[str, str] = msgspec.field(default_factory=dict)
    session_entries: dict[str, str] = msgspec.field(default_factory=dict)
    profile_prefix: str | None = None
    watched: tuple[str, ...] = ()
    working_directory: str | None = None


NO_MONITOR = MonitorOptions()

# All that a monitor may say to an EP. What decides where or how a graph runs is not among them.
_PROFILING_KEYS: dict[str, frozenset[str]] = {
    "QNNExecutionProvider": frozenset({"profiling_level", "profiling_file_path"}),
    "OpenVINOExecutionProvider": frozenset(),
    "VitisAIExecutionProvider": frozenset(),
}
_PROFILING_ENTRIES: frozenset[str] = frozenset()


def check_monitor_options(monitor: Monitor, options: MonitorOptions, provider: str) -> None:
    """Raises `MonitorError` for a monitor of another EP, or one that says more to the EP than to profile."""
    if monitor.ep not in (None, provider):
        raise MonitorError(
            f"{type(monitor).__name__} is for {monitor.ep}, and the session is on {provider}",
            remedy="take the fixture winml_monitor, which is the one for the case's EP.",
        )
    strange = set(options.provider_options) - _PROFILING_KEYS.get(provider, frozenset())
    strange |= set(options.session_entries) - _PROFILING_ENTRIES
    if strange:
        raise MonitorError(
            f"{type(monitor).__name__} wants to set {min(strange)}, which is no profiling option of {provider}"
        )


class Span(Record, frozen=True, kw_only=True):
    """What one run added to a watched file, in bytes from its beginning; `end` 0 for a file that is not there."""

    start: int
    end: int


class ObservedRun(Record, frozen=True, kw_only=True):
    """One inference of the window. `elapsed_us` is of the traced run, and no latency.

    `started_us` is when it was asked for, since the window began.
    """

    number: int
    warm_up: bool
    elapsed_us: float
    started_us: float | None = None
    spans: dict[str, Span] = msgspec.field(default_factory=dict)


class Window(Record, frozen=True, kw_only=True):
    """All that a monitor gets to know. `created` are the lengths of watched files when the session was open.

    `profile_path` is ORT's own profile, complete. `worker_pid` is the process the session is in.
    """

    target: str
    provider: str
    emulated: bool
    model_path: str
    placement: Placement
    options: dict[str, str]
    runs: tuple[ObservedRun, ...] = ()
    created: dict[str, Span] = msgspec.field(default_factory=dict)
    profile_path: str | None = None
    worker_pid: int | None = None
    log: str = ""


class Monitor(Protocol):
    """`ep` is the one EP it is for, or None for any. `needs_release`: its files are whole when the session is gone.

    Called in this order: `prepare` before the session is opened, `begin` when it is open, `end` when the window is
    over, and `collect` when the session is released or restored. After `prepare` a monitor may be asked to `discard`
    instead.
    """

    ep: str | None
    needs_release: bool

    def prepare(self, folder: Path) -> MonitorOptions: ...

    def begin(self, window: Window) -> None: ...

    def end(self) -> None: ...

    def collect(self, window: Window) -> Any: ...

    def discard(self) -> None: ...


class NullMonitor:
    """Sees nothing, so that nobody has to ask whether there is one."""

    ep: str | None = None
    needs_release = False

    def prepare(self, folder: Path) -> MonitorOptions:  # noqa: ARG002 - the contract
        return MonitorOptions()

    def begin(self, window: Window) -> None:
        pass

    def end(self) -> None:
        pass

    def collect(self, window: Window) -> None:
        pass

    def discard(self) -> None:
        pass

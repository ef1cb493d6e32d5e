"""The objects a test holds."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_winml.session.feeding import checked_feeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case
    from pytest_winml.records.measurement import Memory
    from pytest_winml.records.placement import Placement
    from pytest_winml.records.trace import OpTrace
    from pytest_winml.runner.case import CaseRunner
    from pytest_winml.runner.tracing import CaseTracer
    from pytest_winml.session.machine import OpenSession
    from pytest_winml.session.monitoring import Monitor, MonitorOptions, Window

    Run = Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]


class Session:
    """An open session on the case's target, in a worker process."""

    def __init__(self, runner: CaseRunner, session: OpenSession, run: Run | None = None) -> None:
        self._runner = runner
        self._session = session
        self._run = run or session.run

    @property
    def placement(self) -> Placement:
        return self._session.placement

    @property
    def options(self) -> dict[str, str]:
        """The provider options the EP was opened with."""
        return self._session.options

    def run(self, feeds: Mapping[str, NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        """Arrays in and out, by name. Without feeds: seeded random ones that obey the artifact's shapes and ranges."""
        if feeds is None:
            return self._run(self._runner.feeds())
        return self._run(checked_feeds(feeds, self._runner.artifact().io.inputs))


class WinmlMonitor:
    """The monitor for a case's EP, `winml_monitor`: give it to `winml.session(monitor=)`, then look at its `result`."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self.ep = monitor.ep
        self.needs_release = monitor.needs_release
        self.result: Any = None

    def prepare(self, folder: Path) -> MonitorOptions:
        self.result = None
        return self._monitor.prepare(folder)

    def begin(self, window: Window) -> None:
        self._monitor.begin(window)

    def end(self) -> None:
        self._monitor.end()

    def collect(self, window: Window) -> Any:
        self.result = self._monitor.collect(window)
        return self.result

    def discard(self) -> None:
        self._monitor.discard()


class Winml:
    """One case: `artifact()`, `placement()`, `session()`, `trace()`, `memory()`."""

    def __init__(self, runner: CaseRunner, tracer: Callable[[], CaseTracer], memory: Callable[[], Memory]) -> None:
        self._runner = runner
        self._tracer = tracer
        self._memory = memory

    @property
    def case(self) -> Case:
        return self._runner.case

    @property
    def emulated(self) -> bool:
        """Whether the target is an emulator here: placement and arithmetic are real, time is not."""
        return self._runner.check_target().mode == "emulated"

    def artifact(self) -> Artifact:
        return self._runner.artifact()

    def placement(self) -> Placement:
        """Which node runs where. A graph the target refuses whole has no `target_nodes`."""
        return self._runner.placement()

    @contextmanager
    def session(self, monitor: Monitor | None = None) -> Iterator[Session]:
        """An open session, or the error that says why there is none; never one that runs on the CPU instead."""
        if monitor is None:
            with self._runner.open() as session:
                yield Session(self._runner, session)
            return
        with self._tracer().observe(monitor) as observed:
            yield Session(self._runner, observed.session.require_target(), observed.run)

    def trace(self, level: str = "basic", runs: int = 1, warmup: int | None = None) -> OpTrace:
        """Where the time goes and where each node ran, in a session of its own that nothing is timed in."""
        return self._tracer().trace(level, runs, warmup)

    def memory(self) -> Memory:
        """The artifact's size, and what opening and running it takes of a process of its own."""
        return self._memory()

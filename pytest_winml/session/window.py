"""One window of a monitor: a session opened with its options, the runs it observes, and the result afterwards.

The order at the end is the same however the body ended: the monitor stops, ORT's profile is written out, the session is
released if the monitor needs that, the result is collected, what is still open is released. The body's error comes
first, then the monitor's, then that of releasing; a later one never hides an earlier one, and is noted on it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import MonitorError
from pytest_winml.session.machine import outputs_of
from pytest_winml.session.monitoring import ObservedRun, Window, check_monitor_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_winml.session.machine import OpenSession
    from pytest_winml.session.monitoring import Monitor, MonitorOptions


class ObservedSession:
    """A session under observation. `result` is the monitor's, once the window is over."""

    def __init__(self, session: OpenSession, provider: str, model_path: Path) -> None:
        self._session = session
        self._provider = provider
        self._model_path = model_path
        self._runs: list[ObservedRun] = []
        self._began_s = time.perf_counter()
        self.profile_path: str | None = None
        self.result: Any = None

    @property
    def session(self) -> OpenSession:
        return self._session

    def run(self, feeds: Mapping[str, NDArray[Any]], *, warm_up: bool = False) -> dict[str, NDArray[Any]]:
        started_us = (time.perf_counter() - self._began_s) * 1e6
        answer = self._session.observed_run(feeds)
        self._runs.append(
            ObservedRun(
                number=len(self._runs) + 1,
                warm_up=warm_up,
                elapsed_us=answer.elapsed_us,
                started_us=started_us,
                spans=answer.spans,
            )
        )
        return outputs_of(answer)

    def window(self) -> Window:
        """What has happened so far."""
        opened = self._session.opened
        return Window(
            target=opened.placement.target,
            provider=self._provider,
            emulated=opened.placement.emulated,
            model_path=str(self._model_path),
            placement=opened.placement,
            options=dict(opened.options),
            runs=tuple(self._runs),
            created=opened.watched,
            profile_path=self.profile_path,
            worker_pid=self._session.worker_pid,
            log=opened.log,
        )


class Windows:
    """Opens windows, one at a time: an EP profiles into one file, and two would see each other's runs."""

    def __init__(self) -> None:
        self._open = False

    @contextmanager
    def observe(
        self,
        monitor: Monitor,
        open_session: Callable[[MonitorOptions], OpenSession],
        *,
        provider: str,
        model_path: Path,
        folder: Path,
    ) -> Iterator[ObservedSession]:
        """`open_session` opens on the case's target with the options given; `folder` is the window's own."""
        if self._open:
            raise MonitorError(
                "a window is open already, and one monitor would see what the other does",
                remedy="end the first `with` before the second, or combine the monitors.",
            )
        self._open = True
        try:
            observed, options = _enter(monitor, open_session, provider, model_path, folder)
            with _closing(monitor, options, observed):
                yield observed
        finally:
            self._open = False


def _enter(
    monitor: Monitor,
    open_session: Callable[[MonitorOptions], OpenSession],
    provider: str,
    model_path: Path,
    folder: Path,
) -> tuple[ObservedSession, MonitorOptions]:
    """Leaves nothing behind when it fails."""
    options = monitor.prepare(folder)
    try:
        check_monitor_options(monitor, options, provider)
        session = open_session(options)
    except BaseException:
        monitor.discard()
        raise
    try:
        observed = ObservedSession(session, provider, model_path)
        monitor.begin(observed.window())
    except BaseException:
        session.close()
        monitor.discard()
        raise
    return observed, options


@contextmanager
def _closing(monitor: Monitor, options: MonitorOptions, observed: ObservedSession) -> Iterator[None]:
    errors: list[BaseException] = []

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised below, in its place
            errors.append(error)

    def end_profiling() -> None:
        observed.profile_path = observed.session.end_profiling()

    def collect() -> None:
        observed.result = monitor.collect(observed.window())

    try:
        yield
    except BaseException as error:  # noqa: BLE001 - raised below, first of all
        errors.append(error)
    attempt(monitor.end)
    if options.profile_prefix is not None:
        attempt(end_profiling)
    if monitor.needs_release:
        attempt(observed.session.close)
    attempt(collect)
    attempt(observed.session.close)
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(f"then, while the window of {type(monitor).__name__} was closed: {other!r}")
        raise first

"""The objects a test holds."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_winml.session.feeding import checked_feeds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case
    from pytest_winml.records.placement import Placement
    from pytest_winml.runner.case import CaseRunner
    from pytest_winml.session.machine import OpenSession


class Session:
    """An open session on the case's target, in a worker process."""

    def __init__(self, runner: CaseRunner, session: OpenSession) -> None:
        self._runner = runner
        self._session = session

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
            return self._session.run(self._runner.feeds())
        return self._session.run(checked_feeds(feeds, self._runner.artifact().io.inputs))


class Winml:
    """One case: `artifact()`, `placement()`, `session()`."""

    def __init__(self, runner: CaseRunner) -> None:
        self._runner = runner

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
    def session(self) -> Iterator[Session]:
        """An open session, or the error that says why there is none; never one that runs on the CPU instead."""
        with self._runner.open() as session:
            yield Session(self._runner, session)

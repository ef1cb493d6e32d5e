"""The parent's side: this machine's targets and sessions, each reached through a worker process of its own kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_winml.errors import NotOnTarget, SessionError, WinmlError, WorkerError
from pytest_winml.execute.worker import Worker
from pytest_winml.providers.binding import resolution_order
from pytest_winml.providers.distributions import runtime_install
from pytest_winml.records.machine import Availability, Runtime
from pytest_winml.session.messages import (
    OpenedSession,
    OpenRequest,
    RunAnswer,
    RunRequest,
    SessionRequest,
    TargetRequest,
)
from pytest_winml.session.monitoring import NO_MONITOR, MonitorOptions
from pytest_winml.session.tensors import from_message, to_message

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from types import TracebackType

    from numpy.typing import NDArray

    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.records.placement import Placement
    from pytest_winml.records.target import Target
    from pytest_winml.session.messages import ProviderSettings

SERVICE = "pytest_winml.session.service:SessionService"


class Machine:
    """Targets are checked once; a broken one is checked again on the next call, since it may have been repaired."""

    def __init__(self, pool: WorkerPool, settings: ProviderSettings, *, timeout_s: float) -> None:
        self._pool = pool
        self._settings = settings
        self._timeout_s = timeout_s
        self._known: dict[Hashable, Availability] = {}

    @property
    def settings(self) -> ProviderSettings:
        return self._settings

    def runtime(self) -> Runtime:
        return self._worker("runtime").call("runtime", self._settings, Runtime, timeout_s=self._startup_limit_s)

    @property
    def _startup_limit_s(self) -> float:
        """The first call of a worker may wait for the Windows ML catalog as well."""
        return self._timeout_s + self._settings.catalog_timeout_s

    def availability(self, target: Target) -> Availability:
        """How the target runs here. A bare device becomes the first EP in order of preference that is usable."""
        key = worker_key(target, self._settings)
        if key in self._known:
            return self._known[key]
        answers = [self._check(target.resolved_to(spec)) for spec in resolution_order(target)]
        best = next((answer for answer in answers if answer.usable), None) or _unusable(target, answers)
        answer = Availability(
            target=target.spec,
            resolved=best.resolved,
            mode=best.mode,
            reason=best.reason,
            remedy=best.remedy,
            ep_version=best.ep_version,
            soc=best.soc,
        )
        if answer.mode != "broken":
            self._known[key] = answer
        return answer

    def _check(self, target: Target) -> Availability:
        install = runtime_install()
        if install.problem:
            mode = "broken" if install.distributions else "absent"
            return _not_usable(target, mode, install.problem, install.remedy or "")
        request = TargetRequest(target=target, settings=self._settings)
        try:
            return self._worker_for(target).call("check", request, Availability, timeout_s=self._startup_limit_s)
        except WorkerError as error:
            return _not_usable(target, "broken", str(error), "run `pytest-winml doctor`.")
        except WinmlError as error:
            return _not_usable(target, "broken", error.message, error.remedy or "run `pytest-winml doctor`.")

    def open(self, target: Target, model_path: Path, monitor: MonitorOptions = NO_MONITOR) -> OpenSession:
        """A session on a resolved target. It may hold no node of the graph: `placement.on_target` tells.

        A monitor that names a working directory gets a worker of its own, which ends with the session.
        """
        own = None
        if monitor.working_directory is not None:
            own = Worker(SERVICE, directory=Path(monitor.working_directory))
        worker = own or self._worker_for(target)
        request = OpenRequest(target=target, settings=self._settings, model_path=str(model_path), monitor=monitor)
        try:
            opened = worker.call("open", request, OpenedSession, timeout_s=self._startup_limit_s)
        except BaseException:
            if own is not None:
                own.close()
            raise
        return OpenSession(worker, opened, timeout_s=self._timeout_s, watched=monitor.watched, own_worker=own)

    def _worker_for(self, target: Target) -> Worker:
        return self._worker(worker_key(target, self._settings))

    def _worker(self, key: Hashable) -> Worker:
        return self._pool.get(key, SERVICE)


class OpenSession:
    """An open session in a worker. `run` takes and gives arrays by name."""

    def __init__(
        self,
        worker: Worker,
        opened: OpenedSession,
        *,
        timeout_s: float,
        watched: tuple[str, ...] = (),
        own_worker: Worker | None = None,
    ) -> None:
        self._watched = watched
        self._own_worker = own_worker
        self._worker = worker
        self._opened = opened
        self._timeout_s = timeout_s
        self._closed = False

    @property
    def placement(self) -> Placement:
        return self._opened.placement

    @property
    def options(self) -> dict[str, str]:
        """The provider options the EP was opened with."""
        return dict(self._opened.options)

    @property
    def log(self) -> str:
        """What native code printed while the session opened."""
        return self._opened.log

    @property
    def opened(self) -> OpenedSession:
        return self._opened

    @property
    def worker_pid(self) -> int:
        return self._worker.pid

    def end_profiling(self) -> str:
        """The path of ORT's own profile, complete."""
        request = SessionRequest(session_id=self._opened.session_id)
        return self._worker.call("end_profiling", request, str, timeout_s=self._timeout_s)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return outputs_of(self.observed_run(feeds))

    def observed_run(self, feeds: Mapping[str, NDArray[Any]]) -> RunAnswer:
        if self._closed:
            raise SessionError("the session is closed")
        tensors = {name: to_message(name, array) for name, array in feeds.items()}
        request = RunRequest(session_id=self._opened.session_id, feeds=tensors, watched=self._watched)
        return self._worker.call("run", request, RunAnswer, timeout_s=self._timeout_s)

    def require_target(self) -> Self:
        """Raises `NotOnTarget` when the EP took nothing: whatever such a session computes, it is the CPU's."""
        if not self.placement.on_target:
            self.close()
            raise not_on_target(self.placement)
        return self

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._worker.alive:
                request = SessionRequest(session_id=self._opened.session_id)
                self._worker.call("release", request, type(None), timeout_s=self._timeout_s)
        finally:
            if self._own_worker is not None:
                self._own_worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except WinmlError:
            if error is None:
                raise


def outputs_of(answer: RunAnswer) -> dict[str, NDArray[Any]]:
    return {name: from_message(tensor) for name, tensor in answer.outputs.items()}


def not_on_target(placement: Placement) -> NotOnTarget:
    first = placement.fallback_nodes[0] if placement.fallback_nodes else None
    why = f" The first is {first.op_type} {first.name!r}: {first.reason or 'the EP gives no reason'}" if first else ""
    return NotOnTarget(
        f"{placement.target} took none of the {placement.total_nodes} nodes.{why}",
        remedy="look at winml.placement().fallback_nodes; a float model may need quantizing for this target.",
    )


def worker_key(target: Target, settings: ProviderSettings) -> Hashable:
    """One process serves one EP library, SoC and set of options: two SoCs in one process break each other."""
    return (
        target.spec,
        settings.ep_libraries.get(str(target.ep)),
        target.soc,
        tuple(sorted({**target.options, **target.unchecked_options}.items())),
    )


def _unusable(target: Target, answers: list[Availability]) -> Availability:
    """Why nothing of what the target may mean can be used: broken if anything is, else absent."""
    broken = [answer for answer in answers if answer.mode == "broken"]
    chosen = broken or answers
    if len(chosen) == 1:
        return chosen[0]
    reasons = "; ".join(f"{answer.target}: {answer.reason}" for answer in chosen)
    remedies = list(dict.fromkeys(answer.remedy for answer in chosen if answer.remedy))
    return _not_usable(target, chosen[0].mode, f"no usable EP for {target.spec} ({reasons})", " Or: ".join(remedies))


def _not_usable(target: Target, mode: str, reason: str, remedy: str) -> Availability:
    return Availability(
        target=target.spec,
        resolved=None,
        mode="broken" if mode == "broken" else "absent",
        reason=reason,
        remedy=remedy,
    )

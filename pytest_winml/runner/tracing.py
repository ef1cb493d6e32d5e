"""Tracing one case: a window of its own, never the timed one, with the same artifact, options and inputs."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import TraceFailed, UsageProblem, unknown_name
from pytest_winml.monitors.choice import monitor_for
from pytest_winml.records.target import EP_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from numpy.typing import NDArray

    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.target import Target
    from pytest_winml.records.trace import OpTrace, TraceLevel
    from pytest_winml.records.trace_difference import TraceDifference
    from pytest_winml.runner.case import CaseRunner
    from pytest_winml.session.monitoring import Monitor
    from pytest_winml.session.window import ObservedSession, Windows

LEVELS: tuple[TraceLevel, ...] = ("basic", "detail")
_READABLE = ("ok", "basic_fallback")
_WARM_UP = 2
_EXPLAINED_RUNS = 3
_WARM_UP_EMULATED = 1


class CaseTracer:
    """`traces` are all that were taken, for the report. `keep` is a folder that outlives the window's files.

    `beside_others` is held meanwhile: nothing is traced while anybody times.
    """

    def __init__(
        self,
        runner: CaseRunner,
        windows: Windows,
        *,
        keep: Path | None = None,
        beside_others: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._beside_others = beside_others
        self._runner = runner
        self._windows = windows
        self._keep = keep
        self.traces: list[OpTrace] = []

    def trace(self, level: str = "basic", runs: int = 1, warm_up: int | None = None) -> OpTrace:
        """Raises `TraceFailed` unless the trace can be read; what there is stands in the report all the same."""
        if level not in LEVELS:
            raise unknown_name("trace level", level, LEVELS)
        if runs < 1 or (warm_up is not None and warm_up < 0):
            raise UsageProblem(f"a trace of {runs} runs after {warm_up} warm-up runs shows nothing")
        chosen: TraceLevel = "detail" if level == "detail" else "basic"
        trace = self.trace_artifact(self._runner.artifact(), level=chosen, runs=runs, warm_up=warm_up)
        self.traces.append(trace)
        return require_readable(trace)

    def trace_artifact(
        self, artifact: Artifact, *, level: TraceLevel = "basic", runs: int = 1, warm_up: int | None = None
    ) -> OpTrace:
        """Of any file on the case's target."""
        target = self._runner.resolved_target()
        emulated = self._runner.check_target().mode == "emulated"
        before = (_WARM_UP_EMULATED if emulated else _WARM_UP) if warm_up is None else warm_up
        feeds = self._runner.feeds_for(artifact)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        monitor = monitor_for(target, level, source_model=self._runner.source_of(artifact))
        with self.observe(monitor, artifact, target) as observed:
            for _ in range(before):
                observed.run(feeds, warm_up=True)
            for _ in range(runs):
                observed.run(feeds)
        trace: OpTrace = observed.result
        metadata = msgspec.structs.replace(
            trace.metadata,
            case=self._runner.case.id,
            model=self._runner.case.model.name,
            artifact_key=artifact.key,
            started_at=started,
            inputs=_digest(feeds),
        )
        started_us = {run.number: run.started_us for run in observed.window().runs}
        inferences = tuple(
            msgspec.structs.replace(one, start_us=started_us.get(one.number)) for one in trace.inferences
        )
        return msgspec.structs.replace(trace, metadata=metadata, inferences=inferences)

    def explain(self, before: Artifact) -> TraceDifference:
        """What became of another file's operators in this case's, each traced on this case's target."""
        old, new = (
            require_readable(self.trace_artifact(artifact, runs=_EXPLAINED_RUNS))
            for artifact in (before, self._runner.artifact())
        )
        return old.diff(new)

    @contextmanager
    def observe(
        self, monitor: Monitor, artifact: Artifact | None = None, target: Target | None = None
    ) -> Iterator[ObservedSession]:
        """A window of any monitor on the case's artifact."""
        file = artifact or self._runner.artifact()
        on = target or self._runner.resolved_target()
        with (
            self._beside_others(),
            _folder(self._keep) as folder,
            self._windows.observe(
                monitor,
                lambda options: self._runner.open_with(on, file, options),
                provider=EP_BY_NAME[str(on.ep)].provider,
                model_path=file.path,
                folder=folder,
            ) as observed,
        ):
            yield observed


def require_readable(trace: OpTrace) -> OpTrace:
    if trace.status in _READABLE:
        return trace
    case = trace.metadata.case or trace.metadata.target
    why = (
        trace.error
        or trace.reason
        or {
            "no_data": "the EP wrote nothing",
            "cpu_fallback": f"nothing ran on {trace.metadata.target}",
        }.get(trace.status, "it did not come to a result")
    )
    raise TraceFailed(
        f"{case} has no trace ({trace.status}): {why}",
        remedy="look at winml.placement(), and at the worker's log with --winml-report-dir.",
    )


def _digest(feeds: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(feeds):
        digest.update(name.encode())
        digest.update(feeds[name].tobytes())
    return digest.hexdigest()[:16]


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The window's own: gone with it, or kept by choice under a name that nobody else has."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="trace-", dir=keep))
        return
    with tempfile.TemporaryDirectory(prefix="winml-trace-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)

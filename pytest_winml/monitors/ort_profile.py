"""The monitor for every EP: per-node time, provider and shapes from ORT's own profile.

A graph that an EP compiled is one event, its partition; nodes of the CPU have one each. What an EP adds to the profile
itself (the OpenVINO plugin's operators) is kept apart from both: it is the EP's time, not ORT's.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.monitors.ort_profile_figures import Figures
from pytest_winml.monitors.ort_profile_names import ModelNames
from pytest_winml.monitors.ort_profile_reading import CPU, MAX_EVENTS, ProfileUnreadable, read_profile
from pytest_winml.records.trace import OpTrace, TracedInference, TraceMetadata
from pytest_winml.session.monitoring import MonitorOptions, Window

if TYPE_CHECKING:
    from pytest_winml.monitors.ort_profile_reading import Profile

BACKEND = "onnxruntime profile"


class OrtProfileMonitor:
    """`collect` gives an `OpTrace`; `calls` of an operator are all of the counted inferences, times those of one."""

    needs_release = False

    def __init__(self, *, ep: str | None = None, backend: str = BACKEND) -> None:
        self.ep = ep
        self._backend = backend
        self._prefix: str | None = None

    def prepare(self, folder: Path) -> MonitorOptions:
        self._prefix = str(folder / f"ort-{uuid.uuid4().hex}")
        return MonitorOptions(profile_prefix=self._prefix)

    def begin(self, window: Window) -> None:
        pass

    def end(self) -> None:
        pass

    def discard(self) -> None:
        self._prefix = None

    def collect(self, window: Window) -> OpTrace:
        path = self._own(window.profile_path)
        if path is None:
            return self._nothing(window, "no_data", f"ORT wrote no profile of this window ({window.profile_path})")
        try:
            profile = read_profile(path)
        except ProfileUnreadable as error:
            return self._nothing(window, "parse_failed", f"{path.name}, {error}", path)
        if profile is None or not profile.runs:
            return self._nothing(window, "no_data", f"{path.name} holds no inference", path)
        if problem := _runs_problem(profile, window):
            return self._nothing(window, "parse_failed", f"{path.name}: {problem}", path)
        return self._trace(window, profile, path)

    def _own(self, written: str | None) -> Path | None:
        """The profile of this window and of no other, by the prefix that only this monitor knows."""
        if written is None or self._prefix is None:
            return None
        path, prefix = Path(written), Path(self._prefix)
        return path if path.parent == prefix.parent and path.name.startswith(prefix.name) else None

    def _nothing(self, window: Window, status: str, error: str, path: Path | None = None) -> OpTrace:
        return OpTrace(
            metadata=self._metadata(window, 0),
            status="parse_failed" if status == "parse_failed" else "no_data",
            error=error,
            fallback_nodes=window.placement.fallback_nodes,
            inferences=tuple(
                TracedInference(number=run.number, warm_up=run.warm_up, time_us=None) for run in window.runs
            ),
            artifacts={"profile": str(path)} if path else {},
        )

    def _metadata(self, window: Window, runs: int) -> TraceMetadata:
        return TraceMetadata(
            target=window.target,
            ep=window.provider,
            emulated=window.emulated,
            backend=self._backend,
            runs=runs,
            warm_up=_warm_up(window),
            options=dict(window.options),
        )

    def _trace(self, window: Window, profile: Profile, path: Path) -> OpTrace:
        names, unread = _names(window.model_path)
        figures = Figures(profile, _warm_up(window), window.provider)
        operators, unplaced = figures.operators(names, window.placement)
        on_target = window.provider == CPU or figures.ran_on(window.provider)
        notes = [*unread, *figures.notes(), *_cap_notes(profile, window)]
        if unplaced:
            notes.append(f"{unplaced} nodes were fused into operators whose names do not tell which")
        return OpTrace(
            metadata=self._metadata(window, figures.counted),
            status="ok" if on_target else "cpu_fallback",
            error=None if on_target else f"every node ran on another EP than {window.provider}",
            summary=figures.summary(),
            operators=operators,
            fallback_nodes=window.placement.fallback_nodes,
            partitions=figures.partitions(window.placement),
            inferences=figures.inferences(),
            statistics=figures.statistics(operators),
            artifacts={"profile": str(path)},
            notes=tuple(notes),
        )


def _warm_up(window: Window) -> int:
    return sum(run.warm_up for run in window.runs)


def _names(model_path: str) -> tuple[ModelNames, list[str]]:
    """A model that cannot be read names nothing, and costs no trace."""
    from pytest_winml.errors import WinmlError
    from pytest_winml.graph.reading import load_structure

    try:
        return ModelNames(load_structure(Path(model_path))), []
    except WinmlError as error:
        return ModelNames(), [f"names are ORT's own: {error.message}"]


def _runs_problem(profile: Profile, window: Window) -> str | None:
    """Each run of the window is one `model_run`, or the attribution of warm-up would be a guess."""
    found, made = len(profile.runs), len(window.runs)
    if found > made or (found < made and not profile.capped):
        return f"it holds {found} inferences, and the window made {made}"
    if found <= _warm_up(window):
        return f"it holds {found} inferences, all of them warm-up"
    return None


def _cap_notes(profile: Profile, window: Window) -> list[str]:
    if not profile.capped:
        return []
    kept, made = len(profile.runs), len(window.runs)
    limit = f"ORT records no more than {MAX_EVENTS:,} events (onnxruntime issue 16334)"
    return [f"{limit}: {kept} of {made} inferences are whole in the profile, and no other counts; trace fewer runs"]

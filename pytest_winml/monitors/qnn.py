"""QNN's operators, from the profile that its EP writes while it runs.

The EP appends to one file whenever it has executed a partition, so the bytes that a run added are that run's, however
many partitions and warm-up runs there are. The file's name is new for every window: no other's is ever read.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import MonitorError, WinmlError, unknown_name
from pytest_winml.monitors.qnn_csv import MalformedProfile, Section, read_profile
from pytest_winml.monitors.qnn_detail import Unavailable, add_details
from pytest_winml.monitors.qnn_figures import QnnFigures
from pytest_winml.monitors.qnn_names import name_operators
from pytest_winml.monitors.qnn_op_map import find_op_map
from pytest_winml.monitors.source_nodes import SourceNodes
from pytest_winml.records.trace import OpTrace, TracedInference, TraceMetadata
from pytest_winml.session.monitoring import MonitorOptions

if TYPE_CHECKING:
    from pytest_winml.monitors.qnn_csv import Profile
    from pytest_winml.monitors.qnn_detail import Viewer
    from pytest_winml.monitors.qnn_op_map import OpMap
    from pytest_winml.records.trace import TraceLevel, TraceStatus
    from pytest_winml.session.monitoring import Window

PROVIDER = "QNNExecutionProvider"
BACKEND = "qnn"
_QNN_LEVEL: dict[TraceLevel, str] = {"basic": "detailed", "detail": "optrace"}


class QnnMonitor:
    """`source_model` is what a compiled model was made from: without it, its operators have QNN's names only.

    `viewer` is QNN's profile viewer; the one of QNN_SDK_ROOT if none is given. Only level "detail" needs it.
    """

    ep: str | None = PROVIDER
    needs_release = False  # the EP closes its file after every run

    def __init__(
        self, level: TraceLevel = "basic", *, source_model: Path | None = None, viewer: Viewer | None = None
    ) -> None:
        if level not in _QNN_LEVEL:
            raise unknown_name("trace level", level, _QNN_LEVEL)
        self._level: TraceLevel = level
        self._source_model = source_model
        self._viewer = viewer
        self._csv: Path | None = None
        self._op_map: OpMap | None = None

    def prepare(self, folder: Path) -> MonitorOptions:
        self._csv = folder.absolute() / f"qnn-{uuid.uuid4().hex}.csv"
        self._op_map = None
        return MonitorOptions(
            provider_options={"profiling_level": _QNN_LEVEL[self._level], "profiling_file_path": str(self._csv)},
            watched=(str(self._csv),),
            # QNN writes schematics, which only this level has, into the directory it runs in and nowhere else.
            working_directory=str(folder.absolute()) if self._level == "detail" else None,
        )

    def begin(self, window: Window) -> None:
        """The session's folder, where QNN's map is, may go with the session."""
        self._op_map = find_op_map(window)

    def end(self) -> None:
        pass

    def discard(self) -> None:
        self._csv = self._op_map = None

    def collect(self, window: Window) -> OpTrace:
        if self._csv is None:
            raise MonitorError("a QNN monitor is asked for a window that it was not prepared for")
        if not window.placement.on_target:
            return self._nothing(window, "cpu_fallback", f"nothing ran on {window.target}")
        if not window.runs:
            return self._nothing(window, "not_run", "the window has no run")
        op_map = self._op_map or find_op_map(window)
        try:
            profile = self._read(self._csv, window, op_map)
        except (OSError, MonitorError) as error:
            where = error.message if isinstance(error, MalformedProfile) else f"line 1: {error}"
            return self._nothing(window, "parse_failed", f"{self._csv.name}, {where}")
        if profile is None or not any(partition.operators for partition in profile.partitions):
            what = "QNN wrote no profile" if profile is None else f"{self._csv.name} has no operators"
            return self._nothing(window, "no_data", f"{what} of {len(window.runs)} runs")
        return self._with_details(self._trace(window, profile, op_map), window)

    def _read(self, csv: Path, window: Window, op_map: OpMap) -> Profile | None:
        sections = _sections(str(csv), window)
        if not csv.is_file() or not any(section.run is not None for section in sections):
            return None
        profile = read_profile(csv, sections, op_map.operator_names)
        _check_whole(profile, window)
        return profile

    def _trace(self, window: Window, profile: Profile, op_map: OpMap) -> OpTrace:
        figures = QnnFigures(profile, window.runs, window.provider, emulated=window.emulated)
        model, notes = self._model(window, op_map)
        rows = [partition.operators for partition in profile.partitions]
        operators, statistics = figures.operators(name_operators(rows, op_map, model, window.placement))
        expected = window.placement.partitions
        if len(rows) != expected:
            notes.append(f"the graph has {expected} partitions on QNN, and {len(rows)} different ones ran")
        return OpTrace(
            metadata=self._metadata(window, len(figures.counted)),
            status="ok",
            summary=figures.summary(),
            operators=operators,
            fallback_nodes=window.placement.fallback_nodes,
            partitions=figures.partitions(op_map),
            inferences=figures.inferences(),
            statistics=statistics,
            artifacts=self._artifacts(op_map),
            notes=(*notes, *figures.notes()),
        )

    def _model(self, window: Window, op_map: OpMap) -> tuple[SourceNodes, list[str]]:
        """A model that cannot be read names nothing, and costs no trace."""
        from pytest_winml.graph.reading import load_structure

        notes = [] if op_map.trouble is None else [f"operators are matched by name only: {op_map.trouble}"]
        path = self._source_model if window.placement.ep_context else Path(window.model_path)
        if path is None:
            return SourceNodes(), [*notes, "the model that was compiled is not known: operators have QNN's names"]
        try:
            return SourceNodes.of(load_structure(path)), notes
        except WinmlError as error:
            return SourceNodes(), [*notes, f"operators have QNN's names: {error.message}"]

    def _with_details(self, trace: OpTrace, window: Window) -> OpTrace:
        if self._level == "basic" or trace.status != "ok" or self._csv is None:
            return trace
        try:
            return add_details(trace, self._csv, Path(window.model_path).parent, self._viewer)
        except Unavailable as why:
            return msgspec.structs.replace(trace, status="basic_fallback", reason=str(why))

    def _nothing(self, window: Window, status: TraceStatus, error: str) -> OpTrace:
        return OpTrace(
            metadata=self._metadata(window, 0),
            status=status,
            error=error,
            fallback_nodes=window.placement.fallback_nodes,
            inferences=tuple(TracedInference(number=run.number, warm_up=run.warm_up) for run in window.runs),
            artifacts=self._artifacts(self._op_map),
        )

    def _artifacts(self, op_map: OpMap | None) -> dict[str, str]:
        found = {"csv": str(self._csv)} if self._csv is not None and self._csv.is_file() else {}
        return {**found, "op_trace": op_map.path} if op_map is not None and op_map.path else found

    def _metadata(self, window: Window, runs: int) -> TraceMetadata:
        return TraceMetadata(
            target=window.target,
            ep=window.provider,
            emulated=window.emulated,
            level=self._level,
            backend=BACKEND,
            runs=runs,
            warm_up=sum(run.warm_up for run in window.runs),
            options=dict(window.options),
        )


def _check_whole(profile: Profile, window: Window) -> None:
    """Some runs may be cut short, but not all of them."""
    cut = {cut.run: cut.line for cut in profile.cuts}
    counted = [run.number for run in window.runs if not run.warm_up]
    if counted and all(run in cut for run in counted):
        raise MalformedProfile(cut[counted[-1]], "the last block has no end")


def _sections(csv: str, window: Window) -> list[Section]:
    """Spans that are not empty; a file that became shorter was replaced, and is not the one that was watched."""
    created = window.created.get(csv)
    sections = [Section(start=created.start, end=created.end)] if created and created.end > created.start else []
    for run in window.runs:
        span = run.spans.get(csv)
        if span is None or span.start == span.end:
            continue
        if span.end < span.start:
            raise MonitorError(f"the profile became shorter in run {run.number}: somebody replaced it")
        sections.append(Section(start=span.start, end=span.end, run=run.number))
    return sections

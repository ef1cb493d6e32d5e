"""The worker's side: one instance per process, which alone holds ORT and its sessions."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import RunFailed, SessionError, TargetAbsent, TargetBroken, WinmlError
from pytest_winml.execute.log import current_offset, read_slice
from pytest_winml.records.machine import Availability, Runtime
from pytest_winml.session.messages import (
    OpenedSession,
    OpenRequest,
    ProviderSettings,
    RunAnswer,
    RunRequest,
    SessionRequest,
    TargetRequest,
)
from pytest_winml.session.monitoring import Span
from pytest_winml.session.opening import open_session
from pytest_winml.session.process import ProcessProviders, import_ort
from pytest_winml.session.tensors import from_message, to_message

if TYPE_CHECKING:
    from pytest_winml.providers.binding import Binding
    from pytest_winml.records.target import Target


class SessionService:
    def __init__(self, directory: Path, log_path: Path) -> None:
        self._directory = directory
        self._log_path = log_path
        self._sessions: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._process: ProcessProviders | None = None

    def runtime(self, settings: ProviderSettings) -> Runtime:
        """What this process loads, without registering anything."""
        ort = import_ort()
        search = self._providers(settings).search
        return Runtime(
            version=ort.__version__,
            package=getattr(ort, "package_name", "onnxruntime"),
            providers=tuple(ort.get_available_providers()),
            libraries=search.libraries,
            notes=search.notes,
        )

    def check(self, request: TargetRequest) -> Availability:
        """Whether the target binds here. What goes wrong is an answer, with its reason, not an error."""
        try:
            binding, device = self._providers(request.settings).bind(request.target)
            if device is None:
                self._open_probe(binding)
        except TargetAbsent as absent:
            return _unavailable(request.target, "absent", absent)
        except TargetBroken as broken:
            return _unavailable(request.target, "broken", broken)
        return Availability(
            target=request.target.spec,
            resolved=request.target.spec,
            mode="emulated" if binding.emulated else "native",
            ep_version=binding.ep_version,
            soc=binding.soc,
        )

    def open(self, request: OpenRequest) -> OpenedSession:
        binding, device = self._providers(request.settings).bind(request.target)
        number = next(self._numbers)
        start = current_offset(self._log_path)
        opened = open_session(
            import_ort(),
            binding,
            device,
            model_path=Path(request.model_path),
            trace_folder=self._trace_folder(number),
            read_log=lambda: read_slice(self._log_path, start),
            monitor=request.monitor,
        )
        self._sessions[number] = opened.session
        return OpenedSession(
            session_id=number,
            placement=opened.placement,
            options=opened.options,
            log=read_slice(self._log_path, start),
            watched={file: Span(start=0, end=_length(file)) for file in request.monitor.watched},
        )

    def run(self, request: RunRequest) -> RunAnswer:
        session = self._session(request.session_id)
        feeds = {name: from_message(tensor) for name, tensor in request.feeds.items()}
        start = current_offset(self._log_path)
        before = {file: _length(file) for file in request.watched}
        began_ns = time.perf_counter_ns()
        try:
            values = session.run(None, feeds)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise RunFailed(f"the inference failed: {text}", log_tail=read_slice(self._log_path, start)) from error
        elapsed_us = (time.perf_counter_ns() - began_ns) / 1000
        names = [output.name for output in session.get_outputs()]
        return RunAnswer(
            outputs={name: to_message(name, value) for name, value in zip(names, values, strict=True)},
            elapsed_us=elapsed_us,
            spans={file: Span(start=length, end=_length(file)) for file, length in before.items()},
        )

    def end_profiling(self, request: SessionRequest) -> str:
        """ORT's profile of the session, written out: where it is."""
        path: str = self._session(request.session_id).end_profiling()
        return str(Path(path).absolute())

    def release(self, request: SessionRequest) -> None:
        self._sessions.pop(request.session_id, None)

    def _session(self, number: int) -> Any:
        if number not in self._sessions:
            raise SessionError(f"session {number} is closed")
        return self._sessions[number]

    def _providers(self, settings: ProviderSettings) -> ProcessProviders:
        if self._process is None:
            self._process = ProcessProviders(import_ort(), settings)
        return self._process

    def _open_probe(self, binding: Binding) -> None:
        """A classic build tells whether its device is there only when a session opens: open one of a single node."""
        number = next(self._numbers)
        start = current_offset(self._log_path)
        path = self._trace_folder(number) / "probe.onnx"
        _write_probe_model(path)
        open_session(
            import_ort(),
            binding,
            None,
            model_path=path,
            trace_folder=path.parent,
            read_log=lambda: read_slice(self._log_path, start),
        )

    def _trace_folder(self, number: int) -> Path:
        folder = self._directory / f"session-{number}"
        folder.mkdir()
        return folder


def _length(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


def _unavailable(target: Target, mode: str, error: WinmlError) -> Availability:
    return Availability(
        target=target.spec,
        resolved=None,
        mode="absent" if mode == "absent" else "broken",
        reason=error.message,
        remedy=error.remedy or "",
    )


def _write_probe_model(path: Path) -> None:
    import onnx
    from onnx import helper

    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "probe", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

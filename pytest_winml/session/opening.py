"""Opening one ORT session so that it cannot lie about where it runs.

Always: fallback off in the Python layer, assignment recording on, a directory of its own for traces, opened by device.
Never: a selection policy, or `disable_cpu_ep_fallback`, which would change where inputs and outputs are quantized.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import ModelError, SessionError, TargetAbsent, TargetBroken
from pytest_winml.graph.reading import boundary_names, load_structure
from pytest_winml.records.base import Record
from pytest_winml.records.placement import Placement
from pytest_winml.session.monitoring import NO_MONITOR, MonitorOptions
from pytest_winml.session.placement import place, read_assignment
from pytest_winml.session.qnn_op_trace import FILE_NAME, Reasons

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_winml.providers.binding import Binding

_MODEL_ERRORS = ("InvalidProtobuf", "InvalidGraph", "NoSuchFile", "NoModel", "NotImplemented")
_ERRORS_ONLY = 3


class Opened(Record, frozen=True, kw_only=True):
    session: Any
    placement: Placement
    options: dict[str, str]


def open_session(
    ort: Any,
    binding: Binding,
    device: Any | None,
    *,
    model_path: Path,
    trace_folder: Path,
    read_log: Callable[[], str],
    around_creation: AbstractContextManager[object] | None = None,
    monitor: MonitorOptions = NO_MONITOR,
) -> Opened:
    """`device` is ORT's own object, or None for a classic build that knows its EP by name only.

    `around_creation` is entered for the creation alone, without the reading of the model that placement needs.
    """
    structure = load_structure(model_path)
    options = {**binding.options, **_placement_proof(binding, trace_folder), **monitor.provider_options}
    try:
        with around_creation or nullcontext():
            session = _create(ort, binding, device, model_path, options, monitor=monitor)
    except Exception as error:
        raise _refusal(binding, model_path, error, read_log()) from error
    if binding.provider not in session.get_providers():
        raise _not_taken(binding, read_log())
    reasons = _reasons(binding, model_path, trace_folder)
    sidecar = reasons is not None and not (trace_folder / FILE_NAME).is_file()
    placement = place(
        binding,
        read_assignment(session),
        reasons,
        boundary_names(structure),
        "qnn_op_trace_sidecar" if sidecar else "qnn_op_trace",
    )
    if binding.target.ep == "qnn" and not placement.on_target and not (trace_folder / FILE_NAME).is_file():
        raise _backend_did_not_load(binding, read_log())
    return Opened(session=session, placement=placement, options=options)


def _placement_proof(binding: Binding, trace_folder: Path) -> dict[str, str]:
    if binding.target.ep != "qnn":
        return {}
    return {"enable_framework_op_trace": "1", "framework_op_trace_dir": str(trace_folder)}


def _create(
    ort: Any,
    binding: Binding,
    device: Any | None,
    model_path: Path,
    options: dict[str, str],
    *,
    monitor: MonitorOptions,
) -> Any:
    session_options = ort.SessionOptions()
    if monitor.profile_prefix is not None:
        session_options.enable_profiling = True
        session_options.profile_file_prefix = monitor.profile_prefix
    for key, value in monitor.session_entries.items():
        session_options.add_session_config_entry(key, value)
    session_options.log_severity_level = _ERRORS_ONLY
    session_options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if device is not None:
        session_options.add_provider_for_devices([device], options)
        return ort.InferenceSession(str(model_path), session_options, enable_fallback=0)
    by_name = {"providers": [binding.provider], "provider_options": [options]}
    return ort.InferenceSession(str(model_path), session_options, **by_name, enable_fallback=0)


def _refusal(binding: Binding, model_path: Path, error: Exception, log: str) -> Exception:
    """ORT's exception as ours: the model's fault, the target's, or the session's."""
    kind = type(error).__name__
    text = f"{kind}: {error}"
    if kind in _MODEL_ERRORS:
        return ModelError(f"model {model_path} does not load: {text}", log_tail=log)
    if kind in ("RuntimeError", "EPFail"):
        return TargetBroken(
            f"{binding.target.spec} is there but opens no session for {model_path.name}: {text}",
            remedy="check the target's options and driver, and run `pytest-winml doctor`.",
            log_tail=log,
        )
    return SessionError(f"no session for {model_path.name} on {binding.target.spec}: {text}", log_tail=log)


def _not_taken(binding: Binding, log: str) -> Exception:
    """A classic build drops an EP whose device is missing, and would go on with the CPU."""
    device = binding.target.device.upper()
    if f"Device {device} is not available" in log:
        return TargetAbsent(
            f"{binding.provider} is installed but finds no {device} on this machine",
            remedy=f"run on a machine with that {device} and its driver.",
        )
    return TargetBroken(
        f"{binding.target.spec}: ORT dropped {binding.provider} while opening the session",
        remedy="run `pytest-winml doctor`.",
        log_tail=log,
    )


def _reasons(binding: Binding, model_path: Path, trace_folder: Path) -> Reasons | None:
    if binding.target.ep != "qnn":
        return None
    written = Reasons(trace_folder / FILE_NAME)
    # A compiled model writes no trace; the one made beside it when it was compiled still holds.
    return written if written.found else Reasons(model_path.parent / FILE_NAME)


def _backend_did_not_load(binding: Binding, log: str) -> TargetBroken:
    backend = binding.options.get("backend_path") or binding.options.get("backend_type", "the device's own")
    return TargetBroken(
        f"{binding.target.spec}: the QNN backend {backend} did not load, so every node would have run on the CPU",
        remedy="check backend_path or backend_type, and install onnxruntime-qnn again.",
        log_tail=log,
    )

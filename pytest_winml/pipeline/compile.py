"""The compile stage: EPContext for one target, by ORT's own compiler, on any machine where the EP can.

Its bytes are those of the model and the target alone. QNN writes the path of the model into what it compiles, so the
model is compiled under a constant name from within its folder; and QNN numbers operators over the life of a process, so
the same bytes come only from a process that has compiled and opened nothing before. The caller gives each compilation a
worker of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import BuildError, InfrastructureError
from pytest_winml.graph.reading import external_files, load_structure
from pytest_winml.pipeline.policy import policy_for
from pytest_winml.records.stages import MODEL_FILE, StageAnswer
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.session.process import ProcessProviders
from pytest_winml.session.qnn_op_trace import FILE_NAME as TRACE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx import ModelProto, NodeProto

    from pytest_winml.providers.binding import Binding
    from pytest_winml.records.stages import CompileRequest, Fact

_INPUT_FILE = "input.onnx"
_ERRORS_ONLY = 3
_LARGE_BYTES = 1_500_000_000
_BOUNDARY = ("QuantizeLinear", "DequantizeLinear")


class _Refused(msgspec.Struct, frozen=True):
    node_name: str
    op_type: str
    reason: str


class _Trace(msgspec.Struct, frozen=True):
    unsupported_nodes: list[_Refused] = msgspec.field(default_factory=list)


def compile_model(request: CompileRequest, *, read_log: Callable[[], str] = lambda: "") -> StageAnswer:
    """Writes `model.onnx` with EPContext nodes, their binaries and the EP's op trace; or fails, with the EP's reason.

    `read_log` gives what native code has printed so far, for the error.
    """
    import onnxruntime as ort

    path, folder = Path(request.model_path).absolute(), Path(request.output_folder).absolute()
    source = load_structure(path)
    _refuse(source, request)
    settings = msgspec.json.decode(request.settings, type=ProviderSettings)
    binding, device = ProcessProviders(ort, settings).bind(request.target)  # as a session binds
    files = (path, *external_files(source, path.parent))
    large = sum(file.stat().st_size for file in files) > _LARGE_BYTES
    with _made_here(folder, path, files):
        try:
            _compile(ort, _options(ort, binding, device, folder), folder, embed=request.embed, large=large)
        except Exception as error:
            raise _failed(request, f"{type(error).__name__}: {error}", folder, read_log()) from error
    return _answer(request, binding, folder, read_log)


def _compile(ort: Any, options: Any, folder: Path, *, embed: bool, large: bool) -> None:
    compiler = ort.ModelCompiler(
        options,
        _INPUT_FILE,
        embed_compiled_data_into_model=embed,
        # Weights of what is not compiled; one protobuf holds 2 GB at the most.
        external_initializers_file_path=os.fspath(folder / f"{MODEL_FILE}.data") if large else None,
        flags=ort.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED,
        # The level of a session, so that the EP sees the graph it would see there.
        graph_optimization_level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    )
    compiler.compile_to_file(os.fspath(folder / MODEL_FILE))


def _refuse(source: ModelProto, request: CompileRequest) -> None:
    if not policy_for(request.target).has_ep_context:
        raise BuildError(f"{request.target.spec} has no EPContext: nothing can be compiled for it")
    if any(node.op_type == "EPContext" for node in source.graph.node):
        raise BuildError(f"{request.model_path} is compiled already and cannot be compiled again")


def _options(ort: Any, binding: Binding, device: Any | None, folder: Path) -> Any:
    trace = {"enable_framework_op_trace": "1", "framework_op_trace_dir": os.fspath(folder)}
    given = {**binding.options, **(trace if binding.target.ep == "qnn" else {})}
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    if device is None:
        options.add_provider(binding.provider, given)
    else:
        options.add_provider_for_devices([device], given)
    return options


@contextlib.contextmanager
def _made_here(folder: Path, path: Path, files: tuple[Path, ...]) -> Iterator[None]:
    """In a folder of its own, where the model has a constant name, and where what EPs leave in theirs is swept up."""
    try:
        # A failed compiler may hold its files open, which is no reason to lose its error.
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=folder, ignore_cleanup_errors=True) as scratch:
            for file in files:
                name = _INPUT_FILE if file == path else os.path.relpath(file, path.parent.resolve())
                _link_or_copy(file, Path(scratch, name))
            with contextlib.chdir(scratch):
                yield
    except OSError as error:
        raise InfrastructureError(
            f"compiling {path} in {folder} failed on this machine ({error})",
            remedy="make room on the disk, and run again.",
        ) from error


def _link_or_copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another disk, or a system without links
        shutil.copyfile(source, target)


def _failed(request: CompileRequest, what: str, folder: Path, log: str) -> BuildError:
    refused = [node for node in _read_trace(folder).unsupported_nodes if node.op_type not in _BOUNDARY]
    why = f". The EP refuses {refused[0].op_type} {refused[0].node_name!r}: {refused[0].reason}" if refused else ""
    return BuildError(
        f"{request.model_path} does not compile for {request.target.id}: {what.rstrip('.')}{why}",
        remedy="run it uncompiled with compile=False, and look at winml.placement().fallback_nodes.",
        log_tail=log or None,
    )


def _answer(request: CompileRequest, binding: Binding, folder: Path, read_log: Callable[[], str]) -> StageAnswer:
    compiled = load_structure(folder / MODEL_FILE)
    contexts = [node for node in compiled.graph.node if node.op_type == "EPContext"]
    if not contexts:
        raise _failed(request, "the EP compiled nothing", folder, read_log())
    binaries = _binaries(contexts, folder)
    left = [node for node in compiled.graph.node if node.op_type != "EPContext"]
    trace = _read_trace(folder)
    traced = (folder / TRACE_FILE).is_file()
    if traced:
        _check_left(request, left, trace)
        _write_in_order(folder / TRACE_FILE)
    versions = sorted({version for node in contexts if (version := _attribute(node, "ep_sdk_version"))})
    facts: dict[str, Fact] = {
        "target": binding.target.spec,
        "soc": binding.soc,
        "emulated": binding.emulated,
        "ep_version": binding.ep_version,
        "ep_sdk_version": ", ".join(map(str, versions)) or None,
        "provider_options": dict(sorted(binding.options.items())),
        "embedded": request.embed,
        "ep_context_nodes": len(contexts),
        "nodes_left": len(left),
        "nodes_left_by_type": dict(sorted(Counter(node.op_type for node in left).items())),
        "binaries": [binary.name for binary in binaries],
        "compiled_bytes": sum(file.stat().st_size for file in (folder / MODEL_FILE, *binaries)),
        "op_trace": traced,
    }
    return StageAnswer(facts=facts)


def _binaries(contexts: list[NodeProto], folder: Path) -> list[Path]:
    """The files the contexts refer to; one that lies elsewhere, or is not there, would fail on the user's machine."""
    found: list[Path] = []
    for node in contexts:
        name = _attribute(node, "ep_cache_context")
        if name is None or _attribute(node, "embed_mode"):
            continue
        binary = folder / os.fsdecode(name)
        if binary.parent.resolve() != folder.resolve() or not binary.is_file() or binary.stat().st_size == 0:
            raise BuildError(
                f"the compiled model refers to {os.fsdecode(name)!r}, which the EP did not write beside it"
            )
        found.append(binary)
    return sorted(set(found))


def _attribute(node: NodeProto, name: str) -> Any:
    from onnx import helper

    value = next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), None)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) and name != "ep_cache_context" else value


def _check_left(request: CompileRequest, left: list[NodeProto], trace: _Trace) -> None:
    """What was not compiled must be what the EP refused. A lone Q or DQ it may leave out without a word."""
    refused = {(node.node_name, node.op_type) for node in trace.unsupported_nodes}
    for node in left:
        if (node.name, node.op_type) not in refused and node.op_type not in _BOUNDARY:
            raise BuildError(
                f"{node.op_type} {node.name!r} of {request.model_path} was not compiled for {request.target.id}, and "
                "the EP does not say that it refused it",
                remedy="run it uncompiled with compile=False, and look at winml.placement().",
            )


def _read_trace(folder: Path) -> _Trace:
    """A trace of another schema tells nothing; so does one that was not written."""
    try:
        return msgspec.json.decode((folder / TRACE_FILE).read_bytes(), type=_Trace)
    except (OSError, msgspec.DecodeError):
        return _Trace()


def _write_in_order(path: Path) -> None:
    """QNN lists tensors as a hash table gives them, in another order each time."""
    trace = msgspec.json.decode(path.read_bytes())
    for subgraph in trace.get("subgraph_traces", []):
        subgraph.get("tensor_mappings", []).sort(key=lambda mapping: str(mapping.get("dst_name")))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(trace), indent=2))

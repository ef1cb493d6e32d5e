"""Reading an ONNX file for its structure, without its weights and without trusting its paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from google.protobuf.message import DecodeError
from onnx import helper

from pytest_winml.errors import InfrastructureError, ModelError
from pytest_winml.records.artifact import ArtifactIO, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def load_structure(path: Path) -> onnx.ModelProto:
    """The model with external weights left on disk; a `ModelError` names the file and what is wrong with it."""
    if not path.is_file():
        raise ModelError(f"model file {path} does not exist", remedy="relative paths start at pytest's rootdir.")
    if path.stat().st_size == 0:
        raise ModelError(f"model file {path} is empty", remedy="export the model again.")
    try:
        # The format is said, since onnx would read a name like model.json as text, which no runtime loads.
        model = onnx.load(os.fspath(path), format="protobuf", load_external_data=False)
    except OSError as error:
        raise InfrastructureError(
            f"model file {path} cannot be read ({error})", remedy="check its permissions."
        ) from error
    except DecodeError as error:
        raise ModelError(
            f"model file {path} is not ONNX, or is cut short ({error})", remedy="export or download it again."
        ) from error
    if not model.graph.node:
        raise ModelError(f"model file {path} holds no graph", remedy="export or download it again.")
    return model


def external_files(model: onnx.ModelProto, folder: Path) -> tuple[Path, ...]:
    """The files that hold a model's weights, in a stable order. A location outside `folder` is refused."""
    locations = {
        _text(entry.value, "the location of external data")
        for tensor in _all_tensors(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return tuple(_inside(folder, location) for location in sorted(locations))


def _inside(folder: Path, location: str) -> Path:
    root = folder.resolve()
    named = Path(os.path.normpath(root / location))
    # By name first: resolving follows links, and on Windows would ask a foreign server about its path.
    if "\0" in location or not named.is_relative_to(root) or not (path := named.resolve()).is_relative_to(root):
        raise ModelError(f"external data {location!r} lies outside the model's folder", remedy="do not use this model.")
    if not path.is_file():
        raise ModelError(f"external data {location!r} is missing from {folder}", remedy="put it beside the model.")
    return path


def _text(value: Any, what: str) -> str:
    """Protobuf gives bytes where a string of the file is not UTF-8."""
    if isinstance(value, str):
        return value
    raise ModelError(f"{what} is not UTF-8: {value!r}", remedy="export or download the model again.")


def _all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for subgraph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graph_tensors(subgraph)


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from graphs_of(inner)


def read_io(model: onnx.ModelProto) -> ArtifactIO:
    initializers = {tensor.name for tensor in model.graph.initializer}
    return ArtifactIO(
        inputs=tuple(_spec(value) for value in model.graph.input if value.name not in initializers),
        outputs=tuple(_spec(value) for value in model.graph.output),
    )


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    name = _text(value.name, "the name of an input or output")
    if not value.type.HasField("tensor_type"):
        raise ModelError(
            f"{value.name!r} is not a tensor", remedy="models with sequence or map inputs cannot be run here."
        )
    tensor = value.type.tensor_type
    dimensions = (
        dim.dim_value
        if dim.HasField("dim_value")
        else _text(dim.dim_param, f"a size of {name!r}") or f"unknown_{place}"
        for place, dim in enumerate(tensor.shape.dim)
    )
    try:
        dtype = dtype_name(tensor.elem_type)
    except KeyError as error:
        raise ModelError(
            f"{value.name!r} has the element type {tensor.elem_type}, which is none that ONNX defines",
            remedy="export the model again.",
        ) from error
    return TensorSpec(name=name, dtype=dtype, shape=tuple(dimensions) if tensor.HasField("shape") else None)


def dtype_name(element_type: int) -> str:
    """The name numpy has for it; a `KeyError` for a number that ONNX does not define."""
    if element_type == onnx.TensorProto.STRING:
        return "string"
    return str(helper.tensor_dtype_to_np_dtype(element_type).name)


def opset(model: onnx.ModelProto) -> int:
    """The version of the default operator set that the file declares."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def boundary_names(model: onnx.ModelProto) -> frozenset[str]:
    """Names of Q nodes that read a graph input and of DQ nodes that make a graph output."""
    inputs = {value.name for value in model.graph.input}
    outputs = {value.name for value in model.graph.output}

    def at_boundary(node: onnx.NodeProto) -> bool:
        if node.op_type == "QuantizeLinear":
            return _touches(node.input[:1], inputs)
        return node.op_type == "DequantizeLinear" and _touches(node.output, outputs)

    return frozenset(node.name for node in model.graph.node if node.name and at_boundary(node))


def _touches(names: Iterable[str], others: set[str]) -> bool:
    return any(name in others for name in names)

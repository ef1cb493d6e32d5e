"""A part of a PyTorch model to an ONNX model in memory: the same bytes for the same request, and no trace of where."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import BuildError
from pytest_winml.pipeline.export.inputs import tensors
from pytest_winml.records.stages import MODEL_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from pytest_winml.pipeline.export.parts import Part

OPSETS = {"torchscript": range(17, 22), "dynamo": range(18, 23)}
_EXTERNAL_FROM_BYTES = 100 * 1024**2
_EXTERNAL_TENSOR_BYTES = 1024


def check_opset(exporter: str, opset: int) -> None:
    allowed = OPSETS[exporter]
    if opset not in allowed:
        others = [f", or exporter={name!r}" for name, opsets in OPSETS.items() if opset in opsets]
        raise BuildError(
            f"the {exporter} exporter makes opsets {allowed[0]} to {allowed[-1]}, not {opset}",
            remedy=f"use opset={min(max(opset, allowed[0]), allowed[-1])}{''.join(others)}.",
        )


def convert(part: Part, feeds: Mapping[str, Any], *, opset: int, exporter: str, scratch: Path) -> onnx.ModelProto:
    """Traces the part on `feeds`, whose shapes become fixed. `scratch` is where the exporter may write."""
    import onnx
    import torch

    with tempfile.TemporaryDirectory(dir=scratch, prefix=".export-") as folder, torch.no_grad(), part.patched():
        examples = tensors(feeds)
        outputs = part.patched_outputs(examples)
        path = os.fspath(Path(folder) / MODEL_FILE)
        torch.onnx.export(
            part.model,
            args=(),
            kwargs=part.keywords(examples),
            f=path,
            input_names=[inlet.name for inlet in part.inlets],
            output_names=list(part.outputs),
            opset_version=opset,
            dynamo=exporter == "dynamo",  # always said: the default has changed before
            verbose=False,
        )
        model = onnx.load(path)
    _clean(model)
    _check_names([value.name for value in model.graph.input], [inlet.name for inlet in part.inlets], "inputs")
    _check_names([value.name for value in model.graph.output], list(part.outputs), "outputs")
    for value in model.graph.output:
        _fix_shape(value, tuple(outputs[value.name].shape))
    return model


def save(model: onnx.ModelProto, folder: Path) -> Path:
    """`model.onnx`, with large weights in one file beside it."""
    import onnx

    path, weights = folder / MODEL_FILE, folder / f"{MODEL_FILE}.data"
    weights.unlink(missing_ok=True)  # of an attempt before this one; onnx would append to it
    large = sum(_size_bytes(tensor) for tensor in model.graph.initializer) >= _EXTERNAL_FROM_BYTES
    onnx.save(
        model,
        os.fspath(path),
        save_as_external_data=large,
        location=weights.name,
        size_threshold=_EXTERNAL_TENSOR_BYTES,
    )
    return path


def parameters(model: onnx.ModelProto) -> int:
    """How many float weights are in the graph; tied ones once, unless the exporter has doubled them."""
    import math

    import onnx

    return sum(
        math.prod(tensor.dims) for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT
    )


def _size_bytes(tensor: onnx.TensorProto) -> int:
    return len(tensor.raw_data) or tensor.ByteSize()


def _check_names(found: list[str], expected: list[str], what: str) -> None:
    if found != expected:
        raise BuildError(
            f"the exporter gave the graph the {what} {', '.join(found)}, expected were {', '.join(expected)}",
            remedy="try the other exporter.",
        )


def _fix_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    """Sizes that the exporter could not follow are known all the same: PyTorch has just computed them."""
    dims = value.type.tensor_type.shape.dim
    del dims[:]
    for size in shape:
        dims.add().dim_value = size


def _clean(message: Any) -> None:
    """Doc strings and metadata hold stack traces with the paths of this machine; they go, in every graph."""
    from google.protobuf.message import Message

    for name in ("doc_string", "metadata_props"):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                _clean(part)

"""Static quantization in QDQ form, by ORT's own configurations: `qnn` for QNN, `generic` elsewhere."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_winml.data.calibration import read_feeds
from pytest_winml.errors import BuildError
from pytest_winml.graph.reading import opset, read_io
from pytest_winml.pipeline.quantize_graph import (
    constants_to_initializers,
    load_complete,
    name_nodes,
    save_model,
)
from pytest_winml.pipeline.quantize_overrides import (
    FLOAT,
    NEEDS_OPSET_21,
    check_excluded,
    check_met,
    check_tensor_types,
    keep_float,
    ort_overrides,
)
from pytest_winml.pipeline.quantize_proof import check_same_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from onnx import ModelProto

    from pytest_winml.records.stages import Fact, QuantizeRequest

# The first opset whose own QuantizeLinear takes 16 bits; below it ORT writes com.microsoft operators instead.
QDQ_OPSET = 21
_IR_OF_QDQ_OPSET = 10
_ACTIVATIONS = {"w8a8": "QUInt8", "w8a16": "QUInt16"}
_METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
_BIG_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Made:
    """A quantized model, what is true of it, and inputs it can be tried with."""

    model: ModelProto
    facts: dict[str, Fact]
    feed: dict[str, NDArray[Any]] | None = None
    no_op: bool = False


def quantize_static(source: ModelProto, request: QuantizeRequest, scratch: Path) -> Made:
    if request.feeds_path is None:
        raise BuildError(
            f"precision {request.precision} needs calibration inputs, and none were given",
            remedy="give samples with Calibration(data=...), or use precision='dynamic' or 'fp16'.",
        )
    feeds = read_feeds(Path(request.feeds_path), read_io(source).inputs)
    first = {name: array[0] for name, array in feeds.items()}
    model, raised = _at_qdq_opset(source, request, scratch, first)
    constants_to_initializers(model.graph)
    name_nodes(model.graph)
    check_excluded(model, request.exclude_nodes)
    check_tensor_types(model, request.tensor_types)
    made = _by_ort(model, request, feeds, scratch)
    keep_float(made, model, [name for name, word in request.tensor_types.items() if word == FLOAT])
    check_met(made, request.tensor_types)
    _check_scales(made)
    if opset(made) >= QDQ_OPSET:
        made.ir_version = max(made.ir_version, _IR_OF_QDQ_OPSET)
    facts: dict[str, Fact] = {
        "form": "QDQ",
        "samples": len(next(iter(feeds.values()))),
        "method": request.method,
        "weight_type": _weight_type(request).removeprefix("Q").lower(),
        "activation_type": _ACTIVATIONS[request.precision].removeprefix("Q").lower(),
        "per_channel": request.per_channel,
        **raised,
    }
    return Made(made, facts, first)


def _at_qdq_opset(
    source: ModelProto, request: QuantizeRequest, scratch: Path, feed: dict[str, NDArray[Any]]
) -> tuple[ModelProto, dict[str, Fact]]:
    """The model where 16 bits are ONNX's own, with what was done to get there."""
    wide = request.precision == "w8a16" or bool(NEEDS_OPSET_21.intersection(request.tensor_types.values()))
    declared = opset(source)
    if not wide or declared >= QDQ_OPSET:
        return copied(source), {}
    try:
        raised = _raised(source)
    except Exception as error:  # noqa: BLE001 - whatever the converter raises, ORT's own way is tried and it is told
        said = str(error).strip().splitlines() or [type(error).__name__]
        return copied(source), {"opset_not_raised": f"onnx cannot convert opset {declared} to {QDQ_OPSET}: {said[-1]}"}
    check_same_outputs(source, raised, feed, f"raising opset {declared} to {QDQ_OPSET}", scratch)
    return raised, {"opset_raised_from": declared}


def _raised(source: ModelProto) -> ModelProto:
    """Big weights stay out of the conversion: it knows nothing of them, and one protobuf cannot carry 2 GB of them."""
    from onnx import version_converter

    model = copied(source)
    kept: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > _BIG_BYTES:
            kept[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    raised = version_converter.convert_version(model, QDQ_OPSET)
    for tensor in raised.graph.initializer:
        if tensor.name in kept:
            tensor.raw_data = kept[tensor.name]
    raised.ir_version = max(raised.ir_version, _IR_OF_QDQ_OPSET)
    return raised


def copied(model: ModelProto) -> ModelProto:
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def _by_ort(model: ModelProto, request: QuantizeRequest, feeds: dict[str, NDArray[Any]], scratch: Path) -> ModelProto:
    from onnxruntime.quantization import quantize

    plain, quantized = scratch / "float.onnx", scratch / "quantized.onnx"
    save_model(model, plain)
    try:
        quantize(os.fspath(plain), os.fspath(quantized), _configuration(model, plain, request, feeds))
    except ValueError as error:
        if "bins" not in str(error):
            raise
        tensor = _tensor_in(error)
        which = f"tensor {tensor!r}" if tensor else "a tensor"
        raise BuildError(
            f"calibration by {request.method} can make no histogram of {which} ({error})",
            remedy="use Calibration(method='minmax'); such a tensor is next to zero, or spans the range of float32 as "
            "attention masks do.",
        ) from error
    return load_complete(quantized)


def _configuration(model: ModelProto, path: Path, request: QuantizeRequest, feeds: dict[str, NDArray[Any]]) -> Any:
    from onnxruntime.quantization import CalibrationMethod, QuantType
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config
    from onnxruntime.quantization.quantize import get_qdq_config

    wishes = ort_overrides(request.tensor_types)
    common = {
        "calibrate_method": getattr(CalibrationMethod, _METHODS[request.method]),
        "activation_type": getattr(QuantType, _ACTIVATIONS[request.precision]),
        "weight_type": getattr(QuantType, _weight_type(request)),
        "nodes_to_exclude": list(request.exclude_nodes),
        # A Relu that went into the Q behind it would go with that Q when the tensor is to stay float.
        "keep_removable_activations": FLOAT in request.tensor_types.values(),
    }
    reader = _reader(feeds)
    if request.family == "qnn":
        by_channel = _convolutions_by_channel(model) if request.per_channel else {}
        return get_qnn_qdq_config(os.fspath(path), reader, **common, init_overrides={**by_channel, **wishes})
    return get_qdq_config(
        os.fspath(path), reader, **common, per_channel=request.per_channel, tensor_quant_overrides=wishes
    )


def _weight_type(request: QuantizeRequest) -> str:
    """Unsigned for QNN: with signed weights every LayerNormalization goes to the CPU instead of the HTP."""
    return "QUInt8" if request.family == "qnn" else "QInt8"


def _convolutions_by_channel(model: ModelProto) -> dict[str, list[dict[str, Any]]]:
    """Only convolutions: QNN takes no other weights by channel, and takes these only signed and symmetric."""
    from onnxruntime.quantization import QuantType

    weights = {tensor.name for tensor in model.graph.initializer}
    axes = {"Conv": 0, "ConvTranspose": 1}
    return {
        node.input[1]: [{"axis": axes[node.op_type], "quant_type": QuantType.QInt8, "symmetric": True}]
        for node in model.graph.node
        if node.op_type in axes and node.input[1] in weights
    }


def _reader(feeds: dict[str, NDArray[Any]]) -> Any:
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader

    class Samples(CalibrationDataReader):  # type: ignore[misc]  # ORT has no types
        def __init__(self) -> None:
            self._samples: Iterator[dict[str, Any]] = (
                # Of a scalar input a sample would be a number, and ORT takes arrays.
                {name: np.asarray(value) for name, value in zip(feeds, sample, strict=True)}
                for sample in zip(*feeds.values(), strict=True)
            )

        def get_next(self) -> dict[str, Any] | None:
            return next(self._samples, None)

    return Samples()


def _tensor_in(error: BaseException) -> str | None:
    """The tensor ORT's histogram code was at, which its message does not say."""
    at = [frame.f_locals.get("tensor") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((name for name in at if isinstance(name, str)), None)


def _check_scales(model: ModelProto) -> None:
    import numpy as np
    from onnx import numpy_helper

    scales = {node.input[1] for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")}
    for tensor in model.graph.initializer:
        if tensor.name in scales:
            values = numpy_helper.to_array(tensor)
            if not np.isfinite(values).all() or (values <= 0).any():
                raise BuildError(
                    f"calibration found no usable range for tensor {tensor.name.removesuffix('_scale')!r}",
                    remedy="its values are not finite on these samples: look at the inputs, or exclude its node.",
                )

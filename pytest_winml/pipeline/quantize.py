"""The quantize stage: a float model in the precision asked for, and what is true of the result.

fp16      half precision inside, inputs and outputs unchanged
w8a8      QDQ, 8-bit weights and activations, calibrated
w8a16     QDQ, 8-bit weights and 16-bit activations, calibrated, opset 21 or later so that Q/DQ are ONNX's own
dynamic   8-bit weights in integer operators, activations quantized at run time
w4a16     4-bit weights of MatMuls in blocks (`MatMulNBits`), everything else half precision
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import BuildError, InfrastructureError, WinmlError
from pytest_winml.graph.precision import is_quantized, precision_in
from pytest_winml.graph.reading import opset
from pytest_winml.pipeline.quantize_graph import (
    COMPUTE_OPERATORS,
    all_nodes,
    constants,
    load_complete,
    save_model,
    tidy,
)
from pytest_winml.pipeline.quantize_proof import prove
from pytest_winml.pipeline.quantize_static import Made, quantize_static
from pytest_winml.pipeline.quantize_weights import to_dynamic, to_fp16, to_w4a16
from pytest_winml.records.stages import MODEL_FILE, StageAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx import ModelProto, NodeProto

    from pytest_winml.records.stages import Fact, QuantizeRequest

_MAKERS: dict[str, Callable[[ModelProto, QuantizeRequest, Path], Made]] = {
    "fp16": to_fp16,
    "w8a8": quantize_static,
    "w8a16": quantize_static,
    "dynamic": to_dynamic,
    "w4a16": to_w4a16,
}


def quantize(request: QuantizeRequest) -> StageAnswer:
    """Writes `model.onnx` into the output folder; what ORT's tools leave behind goes to a folder in it, and away."""
    try:
        return _quantized(request, Path(request.model_path), Path(request.output_folder))
    except (OSError, MemoryError) as error:
        raise InfrastructureError(
            f"quantizing {request.model_path} failed on this machine ({type(error).__name__}: {error})",
            remedy="make room on the disk or in memory, and run again.",
        ) from error


def _quantized(request: QuantizeRequest, path: Path, folder: Path) -> StageAnswer:
    source = load_complete(path)
    _refuse(source, request)
    _check_weights(source, request)
    target = folder / MODEL_FILE
    with _scratch_in(folder) as scratch:
        made = _made(source, request, scratch)
        tidy(made.model, source)
        save_model(made.model, target)
        proof = prove(target, path, made.model, made.feed, request.precision)
    return StageAnswer(facts={**_facts(made.model, request), **made.facts, "proof": proof}, no_op=made.no_op)


def _made(source: ModelProto, request: QuantizeRequest, scratch: Path) -> Made:
    try:
        return _MAKERS[request.precision](source, request, scratch)
    except (WinmlError, OSError, MemoryError):
        raise
    except Exception as error:
        raise BuildError(
            f"ONNX Runtime cannot quantize {request.model_path} to {request.precision} "
            f"({type(error).__name__}: {error})",
            remedy="optimizations beyond ORT's basic level make operators its quantizer does not know; try "
            "optimize='default', or leave the node it names out with Overrides(exclude_nodes=...).",
        ) from error


@contextlib.contextmanager
def _scratch_in(folder: Path) -> Iterator[Path]:
    """ORT's quantizers make temporary folders of their own, print, and warn of numbers that are checked here."""
    elsewhere = tempfile.tempdir
    with (
        # A failed session may hold its file open, which is no reason to lose its error.
        tempfile.TemporaryDirectory(prefix="quantizing-", dir=folder, ignore_cleanup_errors=True) as scratch,
        contextlib.redirect_stdout(sys.stderr),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        tempfile.tempdir = scratch
        try:
            yield Path(scratch)
        finally:
            tempfile.tempdir = elsewhere


def _refuse(source: ModelProto, request: QuantizeRequest) -> None:
    if any(node.op_type == "EPContext" for node in source.graph.node):
        raise BuildError(f"{request.model_path} is compiled for an EP already and cannot be quantized")
    if is_quantized(source):
        raise BuildError(
            f"{request.model_path} is quantized already ({precision_in(source)}) and is not quantized again",
            remedy="give the float model, or precision='fp32' to leave this one as it is.",
        )


def _check_weights(source: ModelProto, request: QuantizeRequest) -> None:
    """Half precision can hold an infinity, as masks do; nothing else here can, and NaN is nobody's weight."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    for name, tensor in constants(source.graph):
        if tensor.data_type not in floats:
            continue
        values = numpy_helper.to_array(tensor)
        bad = np.isnan(values) if request.precision == "fp16" else ~np.isfinite(values)
        if bad.any():
            what = "NaN" if np.isnan(values).any() else "infinity"
            raise BuildError(
                f"weight {name!r} of {request.model_path} holds {what} in {int(bad.sum())} of {values.size} values, so "
                f"it has no range to quantize to {request.precision}",
                remedy="export the model again, with finite weights and masks.",
            )


def _facts(model: ModelProto, request: QuantizeRequest) -> dict[str, Fact]:
    nodes = list(all_nodes(model.graph))
    by_type = Counter(node.op_type for node in nodes)
    domains = sorted({node.domain or "ai.onnx" for node in nodes if node.op_type == "QuantizeLinear"})
    return {
        "asked": request.precision,
        "family": request.family,
        "precision": precision_in(model),
        "opset": opset(model),
        "nodes": dict(sorted(by_type.items())),
        "quantize_nodes": by_type["QuantizeLinear"],
        "dequantize_nodes": by_type["DequantizeLinear"],
        "qdq_domains": domains,
        "left_in_float": _left_in_float(nodes) if request.precision != "fp16" else [],
        "excluded_nodes": list(request.exclude_nodes),
        "tensor_types": dict(request.tensor_types),
    }


def _left_in_float(nodes: list[NodeProto]) -> list[str]:
    """The nodes that do the arithmetic and whose second factor, most often a weight, is not quantized."""
    quantized = {name for node in nodes if node.op_type == "DequantizeLinear" for name in node.output}
    return [node.name for node in nodes if node.op_type in COMPUTE_OPERATORS and node.input[1] not in quantized]

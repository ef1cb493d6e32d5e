"""Precisions that need no calibration: fp16, 8-bit weights with ranges found at run time, 4-bit weights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_winml.errors import BuildError
from pytest_winml.graph.precision import precision_in
from pytest_winml.pipeline.quantize_graph import (
    all_nodes,
    constants,
    constants_to_initializers,
    load_complete,
    name_nodes,
    save_model,
    split_gemms,
    with_inferred_shapes,
)
from pytest_winml.pipeline.quantize_overrides import check_excluded
from pytest_winml.pipeline.quantize_static import Made, copied

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto

    from pytest_winml.records.stages import Fact, QuantizeRequest

# ORT's own default for 4 bits on NPUs, and what QNN takes: blocks of 32 weights with one scale and no zero point.
BLOCK_SIZE = 32
_LARGEST_HALF = 65504.0


def to_fp16(source: ModelProto, request: QuantizeRequest, scratch: Path) -> Made:
    """Weights and arithmetic in half precision; inputs and outputs stay what they are."""
    if precision_in(source) == "fp16":
        return Made(copied(source), {"form": "float16 already"}, no_op=True)
    model = _prepared(source, request)
    facts: dict[str, Fact] = {"form": "float16, inputs and outputs unchanged", "clamped": _beyond_half(model)}
    return Made(_halved(model, request, scratch), facts)


def to_dynamic(source: ModelProto, request: QuantizeRequest, scratch: Path) -> Made:
    """8-bit weights; activations are quantized while the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = _prepared(source, request)
    constants_to_initializers(model.graph)
    split_gemms(model.graph)
    plain, quantized = scratch / "float.onnx", scratch / "quantized.onnx"
    save_model(model, plain)
    # Unsigned, since products of unsigned and signed bytes saturate on processors without VNNI; by channel, zero points
    # must be zero, which is what signed weights have.
    weight_type = QuantType.QInt8 if request.per_channel else QuantType.QUInt8
    quantize_dynamic(
        os.fspath(plain),
        os.fspath(quantized),
        weight_type=weight_type,
        per_channel=request.per_channel,
        nodes_to_exclude=list(request.exclude_nodes),
        use_external_data_format=plain.with_name(f"{plain.name}.data").exists(),
    )
    made = load_complete(quantized)
    if not any(node.op_type == "DynamicQuantizeLinear" for node in all_nodes(made.graph)):
        raise _nothing_to_do(request, "no MatMul, Gemm or Conv with constant weights")
    facts: dict[str, Fact] = {
        "form": "integer operators, activations quantized at run time",
        "weight_type": weight_type.name.removeprefix("Q").lower(),
        "activation_type": "uint8",
        "per_channel": request.per_channel,
    }
    return Made(made, facts)


def to_w4a16(source: ModelProto, request: QuantizeRequest, scratch: Path) -> Made:
    """Constant MatMul weights in 4 bits (`MatMulNBits`), everything else in half precision."""
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    model = _prepared(source, request)
    clamped = _beyond_half(model)
    constants_to_initializers(model.graph)
    split_gemms(model.graph)
    model = with_inferred_shapes(model, scratch)
    quantizer = MatMulNBitsQuantizer(
        model,
        nodes_to_exclude=list(request.exclude_nodes),
        algo_config=DefaultWeightOnlyQuantConfig(block_size=BLOCK_SIZE, is_symmetric=True, bits=4),
    )
    quantizer.process()
    narrow = [node for node in all_nodes(quantizer.model.model.graph) if node.op_type == "MatMulNBits"]
    if not narrow:
        raise _nothing_to_do(request, "no MatMul or Gemm with constant two-dimensional weights")
    if request.family == "qnn":
        _in_three_dimensions(quantizer.model.model.graph)
    facts: dict[str, Fact] = {
        "form": f"MatMulNBits with 4-bit symmetric weights in blocks of {BLOCK_SIZE}, the rest float16, inputs and "
        "outputs unchanged",
        "weight_type": "int4",
        "activation_type": "float16",
        "matmuls_in_4_bits": len(narrow),
        "clamped": clamped,
    }
    return Made(_halved(quantizer.model.model, request, scratch), facts)


def _in_three_dimensions(graph: GraphProto) -> None:
    """QNN takes MatMulNBits of three dimensions only, and ORT's basic level makes two-dimensional products of most."""
    import numpy as np
    from onnx import helper, numpy_helper

    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.value_info, *graph.input)}
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type != "MatMulNBits" or ranks.get(node.input[0]) != 2:  # noqa: PLR2004 - rows and columns
            nodes.append(node)
            continue
        sizes = {attribute.name: attribute.i for attribute in node.attribute}
        name, flat, product = node.name, node.input[0], node.output[0]
        node.input[0], node.output[0] = f"{product}_lifted_input", f"{product}_lifted"
        lift = helper.make_node("Reshape", [flat, f"{name}_lift_shape"], [node.input[0]], name=f"{name}_lift")
        lower = helper.make_node("Reshape", [node.output[0], f"{name}_lower_shape"], [product], name=f"{name}_lower")
        nodes.extend((lift, node, lower))
        graph.initializer.append(numpy_helper.from_array(np.array([1, -1, sizes["K"]]), lift.input[1]))
        graph.initializer.append(numpy_helper.from_array(np.array([-1, sizes["N"]]), lower.input[1]))
    del graph.node[:]
    graph.node.extend(nodes)


def _prepared(source: ModelProto, request: QuantizeRequest) -> ModelProto:
    if request.tensor_types:
        raise BuildError(
            f"tensor_types has no meaning for precision {request.precision}",
            remedy="only w8a8 and w8a16 give tensors a type each; leave nodes in float with exclude_nodes.",
        )
    model = copied(source)
    name_nodes(model.graph)
    check_excluded(model, request.exclude_nodes)
    return model


def _halved(model: ModelProto, request: QuantizeRequest, scratch: Path) -> ModelProto:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    halved: ModelProto = convert_float_to_float16(
        with_inferred_shapes(model, scratch),
        keep_io_types=True,
        disable_shape_infer=True,
        node_block_list=list(request.exclude_nodes),
    )
    return halved


def _beyond_half(model: ModelProto) -> list[str]:
    """Constants that half precision cannot hold; they become the largest it can, which is right for masks only."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    def too_large(tensor: TensorProto) -> bool:
        values = numpy_helper.to_array(tensor)
        return bool((np.abs(values[np.isfinite(values)]) > _LARGEST_HALF).any())

    floats = (TensorProto.FLOAT, TensorProto.DOUBLE)
    return sorted({name for name, tensor in constants(model.graph) if tensor.data_type in floats and too_large(tensor)})


def _nothing_to_do(request: QuantizeRequest, what: str) -> BuildError:
    return BuildError(
        f"precision {request.precision} finds nothing to quantize: the graph has {what} outside exclude_nodes",
        remedy="use w8a8, w8a16 or fp16.",
    )

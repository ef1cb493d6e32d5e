"""The precision that is in a graph, whatever was asked for."""

from __future__ import annotations

import math
from collections import Counter

import onnx

_BITS: dict[int, int] = {
    onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.INT8: 8, onnx.TensorProto.UINT8: 8,
    onnx.TensorProto.INT16: 16, onnx.TensorProto.UINT16: 16,
}  # fmt: skip


def precision_in(model: onnx.ModelProto) -> str:
    """`w8a16`: the width most weight elements and most activations have. Without Q/DQ: the float type of the weights.

    Biases (32 bits) and the few constants that are quantized like activations do not name a precision.
    """
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    weights: Counter[int] = Counter()
    activations: Counter[int] = Counter()
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in initializers:
            tensor = initializers[node.input[0]]
            weights[_BITS.get(tensor.data_type, 0)] += math.prod(tensor.dims)
        elif node.op_type == "QuantizeLinear":
            activations[_activation_bits(node, initializers)] += 1
    words = _word("w", weights) + _word("a", activations)
    return words or _float_type(initializers)


def _activation_bits(node: onnx.NodeProto, initializers: dict[str, onnx.TensorProto]) -> int:
    zero_point_name = node.input[2] if len(node.input) > 2 else ""  # noqa: PLR2004 - x, scale, zero point
    if not zero_point_name:
        said = next((attribute.i for attribute in node.attribute if attribute.name == "output_dtype"), 0)
        return _BITS.get(said, 0) if said else 8  # what the operator's definition says of a missing zero point
    zero_point = initializers.get(zero_point_name)
    return _BITS.get(zero_point.data_type, 0) if zero_point else 0


def _word(letter: str, elements: Counter[int]) -> str:
    known = {bits: number for bits, number in elements.items() if bits}
    return f"{letter}{max(known, key=lambda bits: known[bits])}" if known else ""


def _float_type(initializers: dict[str, onnx.TensorProto]) -> str:
    types = {tensor.data_type for tensor in initializers.values()}
    only_halves = onnx.TensorProto.FLOAT16 in types and onnx.TensorProto.FLOAT not in types
    return "fp16" if only_halves else "fp32"


_QUANTIZED_OPERATORS = frozenset(
    {
        "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger",
        "ConvInteger", "QGemm", "QLinearAdd", "QAttention", "DynamicQuantizeMatMul", "MatMulNBits",
    }
)  # fmt: skip


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether the graph is quantized already, in any of the forms that ORT knows."""
    return any(node.op_type in _QUANTIZED_OPERATORS for node in model.graph.node)

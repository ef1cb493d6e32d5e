"""The precision that is in a graph, whatever was asked for."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from collections.abc import Iterator

_DYNAMIC_OPERATORS = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul")
_BLOCK_OPERATORS = ("MatMulNBits", "GatherBlockQuantized")
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
    float_type = _float_type(initializers)
    return _integer_form(model, float_type) or _word("w", weights) + _word("a", activations) or float_type


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
    """By most elements: a few constants of another type, such as the scales of a Resize, do not name a precision."""
    elements: Counter[int] = Counter()
    for tensor in initializers.values():
        elements[tensor.data_type] += math.prod(tensor.dims)
    return "fp16" if elements[onnx.TensorProto.FLOAT16] > elements[onnx.TensorProto.FLOAT] else "fp32"


def _integer_form(model: onnx.ModelProto, float_type: str) -> str | None:
    """Quantized forms that have no Q/DQ: ranges found at run time, weights in blocks, integer operators."""
    nodes = list(all_nodes(model.graph))
    if any(node.op_type in _DYNAMIC_OPERATORS for node in nodes):
        return "dynamic"
    blocks = [node for node in nodes if node.op_type in _BLOCK_OPERATORS]
    if blocks:
        bits = next((attribute.i for attribute in blocks[0].attribute if attribute.name == "bits"), 4)
        return f"w{bits}a{16 if float_type == 'fp16' else 32}"
    return "w8a8" if any(_is_integer_operator(node) for node in nodes) else None


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether the graph is quantized already, in any of the forms that ORT knows, subgraphs included."""
    known = {"QuantizeLinear", "DequantizeLinear", *_DYNAMIC_OPERATORS, *_BLOCK_OPERATORS}
    return any(node.op_type in known or _is_integer_operator(node) for node in all_nodes(model.graph))


def _is_integer_operator(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith("QLinear") or node.op_type in ("QGemm", "QAttention")


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of subgraphs (If, Loop, Scan) too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for subgraph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from all_nodes(subgraph)

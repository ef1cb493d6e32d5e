"""Tensors that are quantized unlike the rest: `{"logits": "uint16", "embed.weight": "float32"}`.

ORT takes such wishes and drops some without a word: those of a tensor that an activation absorbs, or that shares the
range of another. What came out is therefore read back, and a wish that was not met is an error.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import BuildError
from pytest_winml.graph.reading import dtype_name
from pytest_winml.pipeline.quantize_graph import all_nodes, drop_unread_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from onnx import GraphProto, ModelProto, NodeProto

FLOAT = "float32"
# Our words, and ORT's for the same type.
QUANT_TYPES = {
    "uint4": "QUInt4", "int4": "QInt4", "uint8": "QUInt8", "int8": "QInt8", "uint16": "QUInt16", "int16": "QInt16",
}  # fmt: skip
NEEDS_OPSET_21 = frozenset({"uint4", "int4", "uint16", "int16"})
_PAIRS = frozenset({"QuantizeLinear", "DequantizeLinear"})
# What ORT's quantizer puts behind the name of a tensor.
_QUANTIZED, _FLOAT_OUTPUT = "_quantized", "_QuantizeLinear_Input"


def check_tensor_types(model: ModelProto, wishes: Mapping[str, str]) -> None:
    known = {name for node in model.graph.node for name in (*node.input, *node.output) if name}
    for name, word in wishes.items():
        if word not in (*QUANT_TYPES, FLOAT):
            raise BuildError(
                f"tensor_types: {name!r} cannot be of type {word!r}", remedy=f"use {', '.join((*QUANT_TYPES, FLOAT))}."
            )
        if name not in known:
            raise unknown_in_graph("tensor_types: unknown tensor", name, known)


def check_excluded(model: ModelProto, names: Iterable[str]) -> None:
    known = {node.name for node in model.graph.node}
    for name in names:
        if name not in known:
            raise unknown_in_graph("exclude_nodes: unknown node", name, known)


def unknown_in_graph(what: str, given: str, known: Iterable[str]) -> BuildError:
    """A graph has too many names to list them all."""
    near = get_close_matches(given, sorted(known), n=3)
    hint = f"the nearest are {', '.join(map(repr, near))}." if near else "names are those of the optimized graph."
    return BuildError(f"{what} {given!r}", remedy=hint)


def ort_overrides(wishes: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """As ORT's configurations take them; a tensor that stays float is quantized first and freed by `keep_float`."""
    from onnxruntime.quantization import QuantType

    return {
        name: [{"quant_type": getattr(QuantType, QUANT_TYPES[word])}] for name, word in wishes.items() if word != FLOAT
    }


def keep_float(model: ModelProto, source: ModelProto, names: Iterable[str]) -> None:
    """Takes the Q/DQ around these tensors out again: who reads one reads its float value."""
    for name in names:
        if not _freed(model.graph, source.graph, name):
            raise _not_met(name, FLOAT, "its float value is no longer in the graph")
    drop_unread_pairs(model.graph)


def _freed(graph: GraphProto, source: GraphProto, name: str) -> bool:
    """Nodes are found by their names, which quantizing keeps; `source` says at which places they read the tensor."""
    before = {node.name: node for node in source.node}
    kept = [node for node in graph.node if node.op_type not in _PAIRS and node.name in before]
    value = _float_value(graph, source, name, kept, before)
    if value is None:
        return False
    for node in kept:
        for place, read in enumerate(before[node.name].input):
            if read == name:
                node.input[place] = value
    if value != name and any(output.name == name for output in graph.output):
        _make_output(graph, value, name)
    return True


def _float_value(
    graph: GraphProto, source: GraphProto, name: str, kept: list[NodeProto], before: Mapping[str, NodeProto]
) -> str | None:
    """Where the tensor's float value is now: an input, a weight, or what its maker puts out; None if it is gone."""
    weight = next((tensor for tensor in source.initializer if tensor.name == name), None)
    if weight is not None:
        if all(tensor.name != name for tensor in graph.initializer):
            graph.initializer.add().CopyFrom(weight)
        return name
    if any(value.name == name for value in graph.input):
        return name
    for node in kept:
        for place, made in enumerate(before[node.name].output):
            if made == name and node.output[place] in (name, f"{name}{_FLOAT_OUTPUT}"):
                return str(node.output[place])
    return None


def _make_output(graph: GraphProto, value: str, name: str) -> None:
    """The float value takes the output's name, which the DQ behind it had."""
    for node in list(graph.node):
        if node.op_type == "DequantizeLinear" and name in node.output:
            graph.node.remove(node)
            continue
        for names in (node.input, node.output):
            for place, one in enumerate(names):
                if one == value:
                    names[place] = name


def quantized_types(model: ModelProto) -> dict[str, str]:
    """Each quantized tensor's type, by the name it had before ORT's quantizer put its own behind it."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    types: dict[str, str] = {}
    for node in all_nodes(model.graph):
        if node.op_type == "QuantizeLinear" and len(node.input) > 2 and node.input[2] in constants:  # noqa: PLR2004 - x, scale, zero point
            types.setdefault(node.input[0].removesuffix(_FLOAT_OUTPUT), dtype_name(constants[node.input[2]].data_type))
        elif node.op_type == "DequantizeLinear" and node.input[0] in constants:
            types.setdefault(node.input[0].removesuffix(_QUANTIZED), dtype_name(constants[node.input[0]].data_type))
    return types


def check_met(model: ModelProto, wishes: Mapping[str, str]) -> None:
    types = quantized_types(model)
    for name, word in wishes.items():
        got = types.get(name, FLOAT)
        if got != word:
            what = "it is not quantized on its own" if got == FLOAT else f"it came out as {got}"
            raise _not_met(name, word, what)


def _not_met(name: str, word: str, what: str) -> BuildError:
    return BuildError(
        f"tensor_types: {name!r} cannot be made {word}: {what}",
        remedy="name the tensor behind the activation that absorbs it, or the one whose range it shares: what goes "
        "into a Reshape, Transpose or Flatten.",
    )

"""Powers that ONNX Runtime would take for squares.

Its LayerNormFusion reads Sub, Pow, ReduceMean as the variance of a LayerNormalization and does not look at the
exponent, so that `Pow(d, 4)` becomes another function (seen in 1.31.1).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pytest_winml.graph.reading import graphs_of

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

_SQUARE = 2.0
_PASSED_ON = ("Cast", "Identity")


def means_of_other_powers(model: onnx.ModelProto, folder: Path) -> tuple[str, ...]:
    """The Pow nodes whose mean is taken and whose exponent is not known to be 2; `folder` holds external weights."""
    graphs = tuple(graphs_of(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    made_by = {name: node for node in nodes for name in node.output}
    weights = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}

    def is_square(exponent: str) -> bool:
        origin = _origin(exponent, made_by)
        constant = made_by.get(origin)
        if constant is not None and constant.op_type == "Constant":
            return _is_two(helper.get_attribute_value(constant.attribute[0]), folder)
        return origin in weights and _is_two(weights[origin], folder)

    averaged = {_origin(node.input[0], made_by) for node in nodes if node.op_type == "ReduceMean"}
    powers = (node for node in nodes if node.op_type == "Pow" and node.output[0] in averaged)
    return tuple(node.name or node.output[0] for node in powers if not is_square(node.input[1]))


def _origin(name: str, made_by: dict[str, onnx.NodeProto]) -> str:
    """Where a tensor's values come from, through nodes that only pass them on."""
    while (node := made_by.get(name)) is not None and node.op_type in _PASSED_ON:
        name = node.input[0]
    return name


def _is_two(value: Any, folder: Path) -> bool:
    """`value` is a tensor, or what a Constant holds in the place of one."""
    array = numpy_helper.to_array(value, os.fspath(folder)) if isinstance(value, TensorProto) else np.asarray(value)
    return bool((array == _SQUARE).all())

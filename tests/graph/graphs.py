"""Graphs made by hand, as small as the question they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

Size = int | str | None


def value(name: str, shape: Sequence[Size] | None, element_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, shape)


def constant(name: str, shape: tuple[int, ...] = (2, 2), dtype: DTypeLike = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(shape, dtype), name)


def external(name: str, location: str) -> onnx.TensorProto:
    """A tensor whose data lies in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def model(
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] = (),
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        list(inputs) or [value("x", [1, 4])],
        list(outputs) or [value("y", [1, 4])],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def relu(**changes: Sequence[onnx.ValueInfoProto] | Sequence[onnx.TensorProto] | int) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], name="relu")], **changes)  # type: ignore[arg-type]

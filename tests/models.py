"""Small ONNX models that ask one question each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

_GENERATOR = np.random.default_rng(7)
_WEIGHTS = {
    "w1": _GENERATOR.standard_normal((8, 3, 3, 3)).astype(np.float32),
    "w2": _GENERATOR.standard_normal((8, 10)).astype(np.float32),
}


def conv_relu_matmul(*, middle: str = "Softmax", name: str = "middle") -> onnx.ModelProto:
    """Conv, Relu, pool, then `middle` between two parts that every EP takes."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node(middle, ["f"], ["m"], name=name),
        helper.make_node("MatMul", ["m", "w2"], ["y"], name="matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "conv_relu_matmul",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(array, key) for key, array in _WEIGHTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def only(op_type: str) -> onnx.ModelProto:
    """A graph of one node."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    node = helper.make_node(op_type, ["x"], ["y"], name=f"the_{op_type.lower()}")
    graph = helper.make_graph([node], f"only_{op_type.lower()}", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


def extended_by_ort(source: Path, path: Path) -> Path:
    """What ORT's extended optimizations make of a model for the CPU: Conv + Relu become FusedConv."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return path

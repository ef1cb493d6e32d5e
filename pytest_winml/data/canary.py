"""The canary: a frozen network timed beside every case, so that times of two days or two processes can be related.

It must never change: figures that were saved are relative to it. A different network is a different canary, with a name
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Calibration, Recipe

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

_SEED = 20_260_101
_SIDE = 112
_CHANNELS = (16, 32, 32)
_CLASSES = 64


def canary_model() -> ModelProto:
    """About 120 million multiplications: two convolutions and a product, which every EP takes whole."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.RandomState(_SEED)  # its stream is promised not to change, unlike that of the newer generators
    first, second, third = _CHANNELS
    weights = [
        numpy_helper.from_array(_weights(draw, second, first, 3, 3), "conv_1.weight"),
        numpy_helper.from_array(_weights(draw, third, second, 3, 3), "conv_2.weight"),
        numpy_helper.from_array(_weights(draw, third, _CLASSES), "product.weight"),
    ]
    padding: Any = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "conv_1.weight"], ["c1"], name="conv_1", **padding),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu_1"),
        helper.make_node("Conv", ["r1", "conv_2.weight"], ["c2"], name="conv_2", strides=[2, 2], **padding),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu_2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
        helper.make_node("MatMul", ["flat", "product.weight"], ["scores"], name="product"),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, first, _SIDE, _SIDE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, _CLASSES])
    graph = helper.make_graph(nodes, "canary", [image], [scores], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="canary-1")


def _weights(draw: Any, *shape: int) -> np.ndarray[Any, Any]:
    import numpy as np

    fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]  # noqa: PLR2004 - a convolution's have four
    values: np.ndarray[Any, Any] = (draw.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)
    return values


CANARY = Model.build("winml-canary-1", canary_model)
CANARY_RECIPE = Recipe(calibration=Calibration(data="random", samples=4))

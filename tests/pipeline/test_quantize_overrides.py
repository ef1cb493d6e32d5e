"""Parts of a graph that are to be quantized unlike the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from pytest_winml.data import digits
from pytest_winml.pipeline.quantize_overrides import quantized_types
from tests.models import conv_relu_matmul, save
from tests.pipeline.test_quantize import Quantized, feeds_for, on_cpu
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_runtime


def test_excluded_nodes_stay_float(tmp_path: Path) -> None:
    source = digits.model_path("digits-vit", "fp32")
    feeds = feeds_for(source, tmp_path / "feeds.npz", embedded="digits-vit")
    names = ("/classifier/Gemm", "/embed/conv/Conv")
    for precision in ("w8a16", "dynamic", "w4a16"):
        made = Quantized(source, tmp_path / precision, precision, feeds_path=feeds, exclude_nodes=names)
        left = made.facts["left_in_float"]
        assert isinstance(left, list)
        assert set(names) <= set(left)
        assert made.facts["excluded_nodes"] == list(names)
    half = Quantized(source, tmp_path / "fp16", "fp16", exclude_nodes=names)
    kinds = {tensor.name: tensor.data_type for tensor in half.model.graph.initializer}
    assert kinds["classifier.weight"] == TensorProto.FLOAT
    assert kinds["layers.0.attention.query.bias"] == TensorProto.FLOAT16


@pytest.mark.parametrize("family", ["qnn", "generic"])
def test_tensors_get_the_types_they_are_given(family: str, tmp_path: Path) -> None:
    source = save(conv_relu_matmul(middle="Softmax"), tmp_path / "m.onnx")
    wishes = {"m": "uint16", "w1": "int8"}
    made = Quantized(
        source,
        tmp_path / "out",
        "w8a8",
        family=family,
        feeds_path=feeds_for(source, tmp_path / "feeds.npz"),
        tensor_types=wishes,
    )
    types = quantized_types(made.model)
    assert {name: types[name] for name in wishes} == wishes
    assert types["x"] == "uint8"
    assert made.facts["tensor_types"] == wishes
    assert made.facts["opset_raised_from"] == 17  # for the one tensor that needs 16 bits


@pytest.mark.parametrize("family", ["qnn", "generic"])
@pytest.mark.parametrize("name", ["x", "w1", "c", "r", "f", "m", "w2", "y"])
def test_any_tensor_can_stay_float(name: str, family: str, tmp_path: Path) -> None:
    source = save(conv_relu_matmul(middle="Softmax"), tmp_path / "m.onnx")
    made = Quantized(
        source,
        tmp_path / "out",
        "w8a8",
        family=family,
        feeds_path=feeds_for(source, tmp_path / "feeds.npz"),
        tensor_types={name: "float32"},
    )
    types = quantized_types(made.model)
    assert name not in types
    assert {"x", "w1", "r", "m", "w2", "y"} - {name} <= types.keys()
    onnx.checker.check_model(made.model, full_check=True)
    feed = {"x": np.random.default_rng(5).random((1, 3, 8, 8), dtype=np.float32)}
    ((expected,),), ((got,),) = on_cpu(source, [feed]), on_cpu(made.path, [feed])
    assert np.abs(got - expected).max() < 0.05 * np.abs(expected).max()

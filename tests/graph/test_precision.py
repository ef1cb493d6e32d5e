from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_winml.data.digits import EMBEDDED_MODELS, EMBEDDED_PRECISIONS, model_path
from pytest_winml.graph.precision import precision_in
from pytest_winml.graph.reading import load_structure
from tests.graph.graphs import constant, model, relu

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def q(source: str, result: str, *zero_point: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        "QuantizeLinear", [source, "scale", *zero_point], [result], name=f"q_{result}", **attributes
    )


def dq(source: str, result: str) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [source, "scale"], [result], name=f"dq_{result}")


def small(bits: int, name: str, shape: tuple[int, ...]) -> onnx.TensorProto:
    """An integer tensor of a width numpy may not have."""
    return TensorProto(name=name, dims=shape, data_type={4: TensorProto.INT4, 8: TensorProto.INT8}[bits])


@pytest.mark.parametrize("name", EMBEDDED_MODELS)
@pytest.mark.parametrize("precision", EMBEDDED_PRECISIONS)
def test_the_shipped_files_are_what_they_are_called(name: str, precision: str) -> None:
    assert precision_in(load_structure(model_path(name, precision))) == precision


@pytest.mark.parametrize(
    ("dtypes", "precision"),
    [
        ((np.float32,), "fp32"),
        ((np.float16,), "fp16"),
        ((np.float16, np.int64), "fp16"),
        ((np.float16, np.float32), "fp32"),
        ((np.int64,), "fp32"),
        ((), "fp32"),
    ],
)
def test_without_quantization_the_weights_type_is_the_precision(dtypes: tuple[DTypeLike, ...], precision: str) -> None:
    weights = [constant(f"w{place}", dtype=dtype) for place, dtype in enumerate(dtypes)]
    assert precision_in(relu(weights=weights)) == precision


@pytest.mark.parametrize(("bits", "precision"), [(4, "w4"), (8, "w8")])
def test_quantized_weights_alone_name_no_activations(bits: int, precision: str) -> None:
    assert precision_in(model([dq("w", "wf")], weights=[small(bits, "w", (8, 8))])) == precision


def test_activations_alone_name_no_weights() -> None:
    assert precision_in(model([q("x", "xq", "zero")], weights=[constant("zero", (), np.uint16)])) == "a16"


def test_the_width_most_weight_elements_have_counts_and_not_most_tensors() -> None:
    nodes = [dq(name, f"{name}_f") for name in ("large", "small_1", "small_2")]
    weights = [small(4, "large", (64, 64)), small(8, "small_1", (2, 2)), small(8, "small_2", (2, 2))]
    assert precision_in(model(nodes, weights=weights)) == "w4"


def test_biases_do_not_name_a_precision() -> None:
    nodes = [dq("w", "wf"), dq("bias", "bf")]
    weights = [small(8, "w", (2, 2)), constant("bias", (64, 64), np.int32)]
    assert precision_in(model(nodes, weights=weights)) == "w8"


def test_the_width_most_activations_have_counts() -> None:
    nodes = [q("x", "a", "zero_16"), q("x", "b", "zero_16"), q("x", "c", "zero_8")]
    weights = [constant("zero_16", (), np.uint16), constant("zero_8", (), np.uint8)]
    assert precision_in(model(nodes, weights=weights)) == "a16"


@pytest.mark.parametrize("zero_point", [(), ("",)])
def test_a_missing_zero_point_means_eight_bits(zero_point: tuple[str, ...]) -> None:
    assert precision_in(model([q("x", "xq", *zero_point)])) == "a8"


def test_a_type_that_is_said_counts_where_there_is_no_zero_point() -> None:
    made = model([q("x", "xq", output_dtype=TensorProto.UINT16)], opset=21)
    assert precision_in(made) == "a16"


def test_a_dq_of_an_activation_is_no_weight() -> None:
    nodes = [q("x", "xq", "zero"), dq("xq", "xf")]
    assert precision_in(model(nodes, weights=[constant("zero", (), np.uint8)])) == "a8"

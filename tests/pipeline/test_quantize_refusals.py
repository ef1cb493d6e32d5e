"""What cannot be quantized is told apart, named, and never handed back as if it had been."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_winml.data import digits
from pytest_winml.errors import BuildError, InfrastructureError, ModelError
from pytest_winml.pipeline import quantize_static, quantize_weights
from pytest_winml.pipeline.quantize_proof import prove
from tests.models import conv_relu_matmul, only, save
from tests.pipeline.test_quantize import PRECISIONS, Quantized, feeds_for, with_state_and_if
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_runtime

CNN = digits.model_path("digits-cnn", "fp32")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return save(conv_relu_matmul(middle="Softmax"), tmp_path / "m.onnx")


@pytest.fixture
def feeds(graph: Path, tmp_path: Path) -> str:
    return feeds_for(graph, tmp_path / "feeds.npz")


@pytest.mark.parametrize("precision", ["w8a8", "w8a16"])
def test_a_static_precision_without_samples_is_refused(precision: str, graph: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"precision {precision} needs calibration inputs"):
        Quantized(graph, tmp_path / "out", precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("form", ["w8a8", "w4a16", "dynamic"])
def test_a_quantized_model_is_not_quantized_again(
    precision: str, form: str, graph: Path, feeds: str, tmp_path: Path
) -> None:
    once = Quantized(graph, tmp_path / "once", form, feeds_path=feeds)
    with pytest.raises(BuildError, match="is quantized already"):
        Quantized(once.path, tmp_path / "twice", precision, feeds_path=feeds)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_weight_that_is_not_finite_is_named(precision: str, value: float, feeds: str, tmp_path: Path) -> None:
    model = conv_relu_matmul(middle="Softmax")
    weight = numpy_helper.to_array(model.graph.initializer[1]).copy()
    weight[2, 3] = value
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(weight, "w2"))
    source = save(model, tmp_path / "bad.onnx")
    if precision == "fp16" and np.isinf(value):  # half precision holds an infinity, as masks have it
        assert Quantized(source, tmp_path / "out", precision).facts["clamped"] == []
        return
    with pytest.raises(BuildError, match=r"weight 'w2' of .*bad\.onnx holds (NaN|infinity) in 1 of 80 values"):
        Quantized(source, tmp_path / "out", precision, feeds_path=feeds)


def test_a_weight_inside_a_branch_is_looked_at_too(tmp_path: Path) -> None:
    model = with_state_and_if()
    branch = next(attribute.g for attribute in model.graph.node[3].attribute if attribute.name == "then_branch")
    branch.initializer.append(numpy_helper.from_array(np.array([np.nan], dtype=np.float32), "inner"))
    with pytest.raises(BuildError, match="weight 'inner'"):
        Quantized(save(model, tmp_path / "m.onnx"), tmp_path / "out", "fp16")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_node_nobody_knows_gets_the_nearest(precision: str, graph: Path, feeds: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="exclude_nodes: unknown node 'matmull'") as caught:
        Quantized(graph, tmp_path / "out", precision, feeds_path=feeds, exclude_nodes=("conv", "matmull"))
    assert "'matmul'" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"w3": "uint16"}, "unknown tensor 'w3'"),
        ({"w2": "uint32"}, "'w2' cannot be of type 'uint32'"),
        ({"c": "uint16"}, "'c' cannot be made uint16: it is not quantized on its own"),  # the Relu behind it absorbs it
        ({"f": "int8"}, "'f' cannot be made int8: it came out as uint8"),  # a Flatten keeps the range of its input
    ],
)
def test_a_type_that_a_tensor_cannot_have_is_told(
    wishes: dict[str, str], message: str, graph: Path, feeds: str, tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match=f"tensor_types: {message}"):
        Quantized(graph, tmp_path / "out", "w8a8", family="generic", feeds_path=feeds, tensor_types=wishes)


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "w4a16"])
def test_types_of_tensors_are_for_static_precisions(precision: str, graph: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"tensor_types has no meaning for precision {precision}"):
        Quantized(graph, tmp_path / "out", precision, tensor_types={"w1": "int8"})


@pytest.mark.parametrize("precision", ["dynamic", "w4a16"])
def test_a_graph_without_weights_is_not_called_quantized(precision: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"precision {precision} finds nothing to quantize"):
        Quantized(save(only("Softmax"), tmp_path / "m.onnx"), tmp_path / "out", precision)


@pytest.mark.parametrize("method", ["entropy", "percentile"])
def test_a_tensor_without_a_histogram_is_named_with_the_way_out(method: str, tmp_path: Path) -> None:
    """An attention mask of the lowest float, as exporters write it."""
    weight = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["scores"], name="matmul"),
            helper.make_node("Add", ["scores", "mask"], ["masked"], name="add"),
            helper.make_node("Softmax", ["masked"], ["y"], name="softmax"),
        ],
        "masked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(np.full(8, np.finfo(np.float32).min), "mask"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source = save(model, tmp_path / "m.onnx")
    feeds = feeds_for(source, tmp_path / "feeds.npz")
    with pytest.raises(BuildError, match=f"calibration by {method} can make no histogram of tensor 'masked'") as caught:
        Quantized(source, tmp_path / "out", "w8a8", feeds_path=feeds, method=method)
    assert "method='minmax'" in str(caught.value.remedy)


def test_samples_that_do_not_fit_the_model_are_refused(graph: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", x=np.zeros((2, 1, 3, 9, 9), dtype=np.float32))
    with pytest.raises(BuildError, match=r"wrong\.npz: input 'x' has samples of shape"):
        Quantized(graph, tmp_path / "out", "w8a8", feeds_path=str(tmp_path / "wrong.npz"))


def test_an_operator_that_ort_cannot_calibrate_is_a_build_error_with_its_reason(feeds: str, tmp_path: Path) -> None:
    model = conv_relu_matmul(middle="NoSuchOperator")
    with pytest.raises(BuildError, match=r"cannot quantize .*odd\.onnx to w8a8 .*NoSuchOperator"):
        Quantized(save(model, tmp_path / "odd.onnx"), tmp_path / "out", "w8a8", feeds_path=feeds)


@pytest.mark.parametrize("content", [b"", b"\x08\x07truncated"])
def test_a_file_that_is_no_model_is_the_models_fault(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ModelError, match=r"m\.onnx"):
        Quantized(tmp_path / "m.onnx", tmp_path / "out", "fp16")


def test_a_full_disk_is_not_a_verdict_about_the_model(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(quantize_weights, "save_model", full)
    with pytest.raises(InfrastructureError, match="No space left on device"):
        Quantized(graph, tmp_path / "out", "dynamic")


def test_a_model_that_puts_out_nan_where_the_float_one_does_not_is_not_handed_back(tmp_path: Path) -> None:
    model = only("Log")  # of zero, among made-up inputs
    model.graph.node.insert(0, helper.make_node("Floor", ["x"], ["floor"]))
    model.graph.node[1].input[0] = "floor"
    broken, whole = save(model, tmp_path / "broken.onnx"), save(only("Exp"), tmp_path / "whole.onnx")
    with pytest.raises(BuildError, match="fp16 model puts out NaN or infinity in 'y' where the float one does not"):
        prove(broken, whole, model, None, "fp16")
    assert prove(broken, broken, model, None, "fp16") == "runs on the CPU with made-up inputs"


def test_a_model_that_fails_where_the_float_one_runs_is_not_handed_back(tmp_path: Path) -> None:
    """Made-up inputs that no model takes say nothing about the quantization."""
    strict, loose = only("Relu"), only("Relu")
    strict.graph.node.insert(0, helper.make_node("Reshape", ["x", "impossible"], ["flat"]))
    strict.graph.node[1].input[0] = "flat"
    strict.graph.initializer.append(numpy_helper.from_array(np.array([3, -1]), "impossible"))
    del strict.graph.output[0].type.tensor_type.shape.dim[:]
    strict.graph.output[0].type.tensor_type.ClearField("shape")
    strict.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    broken, whole = save(strict, tmp_path / "broken.onnx"), save(loose, tmp_path / "whole.onnx")
    feed = {"x": np.zeros((1, 8), dtype=np.float32)}
    with pytest.raises(BuildError, match="w8a8 model fails on the CPU where the float one runs"):
        prove(broken, whole, strict, feed, "w8a8")
    assert "fit neither this model" in prove(broken, broken, strict, feed, "w8a8")
    assert "not run, since its inputs have no fixed shape" in prove(broken, broken, strict, None, "w8a8")


def test_an_opset_that_changes_the_outputs_is_not_raised_in_silence(
    graph: Path, feeds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(source: onnx.ModelProto) -> onnx.ModelProto:
        other = onnx.ModelProto()
        other.CopyFrom(source)
        other.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones((8, 10), dtype=np.float32), "w2"))
        return other

    monkeypatch.setattr(quantize_static, "_raised", wrong)
    with pytest.raises(BuildError, match="raising opset 17 to 21 changes output 'y'"):
        Quantized(graph, tmp_path / "out", "w8a16", feeds_path=feeds)


def test_an_opset_that_onnx_cannot_raise_is_left_to_ort_and_told(
    graph: Path, feeds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(_: onnx.ModelProto) -> onnx.ModelProto:
        raise RuntimeError("no adapter for this operator")

    monkeypatch.setattr(quantize_static, "_raised", impossible)
    made = Quantized(graph, tmp_path / "out", "w8a16", feeds_path=feeds)
    assert made.facts["opset_not_raised"] == "onnx cannot convert opset 17 to 21: no adapter for this operator"
    assert made.facts["qdq_domains"] == ["com.microsoft"]
    assert made.facts["precision"] == "w8a16"

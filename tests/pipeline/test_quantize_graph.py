from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pytest_winml.data import digits
from pytest_winml.pipeline.quantize_graph import name_nodes, reads, save_model, sort_nodes, split_gemms, tidy
from tests.pipeline.test_quantize import two_gemms_with_one_weight, with_state_and_if

if TYPE_CHECKING:
    from pathlib import Path


def in_order(graph: onnx.GraphProto) -> bool:
    made = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    everything = {name for node in graph.node for name in node.output}
    for node in graph.node:
        if any(name in everything and name not in made for name in reads(node)):
            return False
        made.update(node.output)
    return True


@given(st.randoms(use_true_random=False))
def test_nodes_in_any_order_come_out_in_one_that_works(random: object) -> None:
    for model in (with_state_and_if(), onnx.load(digits.model_path("digits-cnn", "fp32"))):
        nodes = list(model.graph.node)
        random.shuffle(nodes)  # type: ignore[attr-defined]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        sort_nodes(model.graph)
        assert in_order(model.graph)
        assert len(model.graph.node) == len(nodes)


def test_an_order_that_works_stays() -> None:
    model = with_state_and_if()
    before = [node.op_type for node in model.graph.node]
    sort_nodes(model.graph)
    assert [node.op_type for node in model.graph.node] == before


def test_unnamed_nodes_get_names_that_nobody_has() -> None:
    model = with_state_and_if()
    model.graph.node[0].name = "Add_5"
    name_nodes(model.graph)
    names = [node.name for node in model.graph.node]
    assert names[0] == "Add_5"
    assert names[5] == "Add_5_"
    assert len(set(names)) == len(names)


def test_a_gemm_becomes_a_matmul_of_its_name_and_leaves_the_weight_to_the_others() -> None:
    model = two_gemms_with_one_weight()
    before = numpy_helper.to_array(model.graph.initializer[0])
    split_gemms(model.graph)
    onnx.checker.check_model(model, full_check=True)
    assert [(node.op_type, node.name) for node in model.graph.node] == [
        ("MatMul", "turned"),
        ("Add", "turned_bias"),
        ("MatMul", "plain"),
        ("Add", "plain_bias"),
        ("MatMul", "matmul"),
    ]
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert np.array_equal(weights["w"], before)
    assert np.array_equal(weights["w_transposed"], before.T)


def test_a_gemm_that_is_more_than_a_product_stays() -> None:
    model = two_gemms_with_one_weight()
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.5))
    split_gemms(model.graph)
    assert model.graph.node[0].op_type == "Gemm"


def test_what_is_unused_or_there_twice_goes() -> None:
    model = two_gemms_with_one_weight()
    source = two_gemms_with_one_weight()
    model.graph.initializer.append(model.graph.initializer[0])
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, dtype=np.float32), "unused"))
    model.graph.input.append(helper.make_tensor_value_info("unused", TensorProto.FLOAT, [3]))
    model.graph.value_info.append(helper.make_tensor_value_info("gone", TensorProto.FLOAT, [3]))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    tidy(model, source)
    assert model == source


def test_a_model_is_written_the_same_twice(tmp_path: Path) -> None:
    model = with_state_and_if()
    save_model(model, tmp_path / "a.onnx")
    save_model(onnx.load(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()

"""The stage around the optimizations: what it leaves alone, what it refuses, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_winml.data.digits import model_path
from pytest_winml.errors import BuildError, ModelError, UsageProblem
from pytest_winml.graph.difference import nodes_by_type
from pytest_winml.pipeline.optimize import optimize
from pytest_winml.pipeline.optimizing import bench
from pytest_winml.pipeline.optimizing.files import publish
from pytest_winml.pipeline.optimizing.transformers import ALL_RULES, KNOWN
from pytest_winml.records.stages import MODEL_FILE, OptimizeRequest, StageAnswer
from tests.pipeline.patterns import (
    attention,
    conv_bn,
    conv_then,
    erf_gelu,
    from_text,
    ints,
    largest_difference,
    layer_norm,
    listed,
    made,
    matmul_add,
    optimized,
    quantized_twice,
)
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = needs_runtime

_Q_AND_DQ = ("QuantizeLinear", "DequantizeLinear")


def shipped(name: str, precision: str) -> onnx.ModelProto:
    return onnx.load(model_path(name, precision))


def result(folder: Path) -> onnx.ModelProto:
    return onnx.load(folder / "out" / MODEL_FILE)


def only_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out").iterdir())


# Nothing to do


def test_no_base_and_no_names_copy_the_file(tmp_path: Path) -> None:
    answer = optimized(conv_bn(), tmp_path)
    assert answer.no_op
    assert (tmp_path / "out" / MODEL_FILE).read_bytes() == (tmp_path / "source.onnx").read_bytes()
    assert answer.facts["changes"] == "2 nodes as before"


def test_a_graph_that_basic_does_not_change_is_a_no_op_of_the_same_bytes(tmp_path: Path) -> None:
    answer = optimized(shipped("digits-cnn", "fp32"), tmp_path, base="basic")
    assert answer.no_op
    assert (tmp_path / "out" / MODEL_FILE).read_bytes() == (tmp_path / "source.onnx").read_bytes()


def test_the_answer_travels_as_json(tmp_path: Path) -> None:
    answer = optimized(erf_gelu(), tmp_path, "bias_gelu_fusion", "bias_softmax_fusion", base="basic")
    assert msgspec.json.decode(msgspec.json.encode(answer), type=StageAnswer) == answer


# ORT's basic level


def test_basic_changes_the_embedded_transformer_and_not_its_answers(tmp_path: Path) -> None:
    answer = optimized(shipped("digits-vit", "fp32"), tmp_path, base="basic")
    assert not answer.no_op
    assert set(nodes_by_type(result(tmp_path))) <= set(onnx_operators())
    assert "MatMulAddFusion" in listed(answer, "transformers")
    assert largest_difference(tmp_path) <= 1e-4
    assert only_files(tmp_path) == [MODEL_FILE]


def onnx_operators() -> set[str]:
    return {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}


def test_basic_is_the_whole_basic_level_and_nothing_above(tmp_path: Path) -> None:
    graph = conv_then("b = BatchNormalization(c, s, s, s, v) y = Relu(b)", s=(8,), v=np.ones(8, np.float32))
    answer = optimized(graph, tmp_path, base="basic")
    assert answer.facts["removed"] == {"BatchNormalization": 1}  # and Relu is not in a FusedConv
    assert listed(answer, "fired") == []


def test_what_was_made_opens_at_every_level_also_with_more_of_the_same_behind_it(tmp_path: Path) -> None:
    """ONNX Runtime gives tensors names that it makes up again, and fails, when it opens its own file."""
    import onnxruntime as ort

    optimized(matmul_add("2,4"), tmp_path, base="basic")
    model = result(tmp_path)
    assert "Gemm" in nodes_by_type(model)
    model.graph.node.append(helper.make_node("MatMul", ["y", "more_w"], ["m2"], name="more_matmul"))
    model.graph.node.append(helper.make_node("Add", ["m2", "more_b"], ["z"], name="more_add"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((6, 8), np.float32), "more_w"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(8, np.float32), "more_b"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 4, 8]))
    ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_only_names_that_were_made_up_are_changed(tmp_path: Path) -> None:
    graph = matmul_add("2,4")
    graph.graph.initializer[0].name = "w_token_1"
    graph.graph.node[0].input[1] = "w_token_1"
    optimized(graph, tmp_path, base="basic")
    names = {tensor.name for tensor in result(tmp_path).graph.initializer}
    assert {"w_token_1", "b"} < names
    assert not any("_token_" in node.name for node in result(tmp_path).graph.node)


# Quantized graphs


@pytest.mark.parametrize("precision", ["w8a8", "w8a16"])
@pytest.mark.parametrize("name", ["digits-cnn", "digits-vit"])
def test_basic_leaves_a_quantized_model_as_it_is(name: str, precision: str, tmp_path: Path) -> None:
    answer = optimized(shipped(name, precision), tmp_path, base="basic")
    assert answer.no_op
    assert "QDQPropagationTransformer" in listed(answer, "held_back")
    assert listed(answer, "always_on") == ["EnsureUniqueDQForNodeUnit"]


def test_basic_neither_folds_nor_moves_nor_joins_q_and_dq(tmp_path: Path) -> None:
    body = """wf = DequantizeLinear(w, s, z) xq = QuantizeLinear(x, s, z) xf = DequantizeLinear(xq, s, z)
              i = Identity(xf) m = MatMul(i, wf) mq = QuantizeLinear(m, s, z) mf = DequantizeLinear(mq, s, z)
              t = Transpose<perm=[1,0]>(mf) tq = QuantizeLinear(t, s, z) y = DequantizeLinear(tq, s, z)"""
    graph = made("(float[4,8] x) => (float[6,4] y)", body, w=np.ones((8, 6), np.uint8), s=0.1, z=np.uint8(3))
    answer = optimized(graph, tmp_path, base="basic")
    assert answer.facts["removed"] == {"Identity": 1}
    for kind in _Q_AND_DQ:
        assert nodes_by_type(result(tmp_path))[kind] == nodes_by_type(graph)[kind]


def test_a_name_still_acts_on_a_quantized_model(tmp_path: Path) -> None:
    answer = optimized(quantized_twice(2), tmp_path, "double_qdq_pairs_remover", base="basic")
    assert listed(answer, "fired") == ["double_qdq_pairs_remover"]


# Powers


@pytest.mark.parametrize(("exponent", "fused"), [(2.0, True), (4.0, False), (3.0, False)])
def test_a_power_is_not_taken_for_the_square_of_a_layer_norm(tmp_path: Path, exponent: float, fused: bool) -> None:
    answer = optimized(layer_norm(exponent=exponent), tmp_path, base="basic")
    assert ("LayerNormalization" in nodes_by_type(result(tmp_path))) is fused
    assert ("LayerNormFusionL1" in listed(answer, "held_back")) is not fused
    assert largest_difference(tmp_path) <= 1e-4 or exponent == 3.0  # the root of a negative mean is not a number


@pytest.mark.parametrize("name", ["layer_norm_fusion", "layernormalization_singlelayernorm", "skip_layer_norm_fusion"])
def test_a_fusion_that_would_misread_a_power_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildError, match="would take the power 'pow_2', whose exponent is not 2, for a square"):
        optimized(layer_norm(exponent=4.0), tmp_path, name, base="basic")


# Names


def test_conv_and_relu_become_fused_conv_and_nothing_else_happens(tmp_path: Path) -> None:
    graph = conv_then(
        "r = Relu(c) i = Identity(r) y = BatchNormalization(i, s, s, s, v)", s=(8,), v=np.ones(8, np.float32)
    )
    answer = optimized(graph, tmp_path, "conv_activation_fusion")
    assert answer.facts["added"] == {"com.microsoft.FusedConv": 1}
    assert answer.facts["removed"] == {"Conv": 1, "Relu": 1}
    assert largest_difference(tmp_path) <= 1e-4


def test_the_rules_that_fired_are_told_apart(tmp_path: Path) -> None:
    answer = optimized(conv_bn(), tmp_path, "conv_bn_fusion", "conv_add_fusion", "pad_fusion")
    assert listed(answer, "fired") == ["conv_bn_fusion"]
    assert listed(answer, "did_not_fire") == ["conv_add_fusion", "pad_fusion"]


def test_rules_that_fire_only_together_both_fired(tmp_path: Path) -> None:
    graph = conv_then(
        "a = Add(c, k) y = BatchNormalization(a, s, s, s, v)", k=(1, 8, 1, 1), s=(8,), v=np.ones(8, np.float32)
    )
    answer = optimized(graph, tmp_path, "conv_add_batch_normalization_folding")
    assert listed(answer, "fired") == ["conv_add_batch_normalization_folding", "conv_add_fusion", "conv_bn_fusion"]


def test_an_unknown_name_is_a_usage_problem_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="unknown optimization 'gelu_fusoin'"):
        optimized(erf_gelu(), tmp_path, "gelu_fusoin")


def test_attention_is_found_before_basic_turns_its_projections_into_gemm(tmp_path: Path) -> None:
    answer = optimized(attention(), tmp_path, "attention_fusion", base="basic")
    assert "attention_fusion" in listed(answer, "fired")
    assert "Gemm" in listed(answer, "added")  # the projection after it, since basic ran in full afterwards
    assert largest_difference(tmp_path) <= 1e-4


def test_waiting_for_nothing_ends_where_basic_alone_ends(tmp_path: Path) -> None:
    digests = []
    for number, names in enumerate([(), ("attention_fusion",)]):
        (tmp_path / str(number)).mkdir()
        digests.append(
            optimized(attention(key_bias=False), tmp_path / str(number), *names, base="basic").facts["graph_digest"]
        )
    assert digests[0] == digests[1]


def test_a_fusion_keeps_the_inputs_that_it_makes_superfluous(tmp_path: Path) -> None:
    graph = attention()
    graph.graph.input.append(helper.make_tensor_value_info("unused", TensorProto.FLOAT, [1, 4]))
    optimized(graph, tmp_path, "attention_fusion")
    assert [value.name for value in result(tmp_path).graph.input] == ["x", "unused"]


# What the runtime does on its own


def run_bench(model: onnx.ModelProto, folder: Path, use: Callable[[bench.Bench], None], **options: Any) -> bench.Bench:
    onnx.save(model, folder / "source.onnx")
    made_bench = bench.Bench(folder / "source.onnx", folder, **options)
    use(made_bench)
    return made_bench


@pytest.mark.parametrize("level", [1, 2, 3])
def test_with_everything_off_the_graph_stays_as_it_was(level: int, tmp_path: Path) -> None:
    for number, graph in enumerate([conv_bn(), erf_gelu(), attention(), matmul_add("2,4"), quantized_twice(2)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = run_bench(graph, folder, lambda one: one.control(), level=level)
        assert ran.story.always_on == []


def test_a_transformer_that_is_not_in_the_table_is_an_error(tmp_path: Path) -> None:
    known = KNOWN - {"QuickGeluFusion"}
    with pytest.raises(
        BuildError, match=r"ran the graph transformer 'QuickGeluFusion' unasked: it is not in the table"
    ):
        run_bench(erf_gelu(), tmp_path, lambda one: one.control(), level=2, known=known)


def test_a_rule_that_is_not_in_the_table_is_an_error_though_no_log_names_it(tmp_path: Path) -> None:
    known = KNOWN - {"EliminateIdentity"}
    with pytest.raises(
        BuildError, match=r"'Level1_RuleBasedTransformer' unasked: it holds rules that are not in the table"
    ):
        run_bench(erf_gelu(), tmp_path, lambda one: one.control(), level=1, known=known)


def test_a_new_transformer_of_a_higher_level_does_not_concern_basic(tmp_path: Path) -> None:
    known = KNOWN - {"QuickGeluFusion"}
    ran = run_bench(erf_gelu(), tmp_path, lambda one: one.control(), level=1, known=known)
    ran.basic()
    assert ran.current == tmp_path / "source.onnx"


@pytest.mark.parametrize("name", ["NoSuchTransformer", "ConvNoSuchRule"])
def test_a_transformer_that_this_runtime_lacks_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_winml.pipeline.optimizations import Optimization
    from pytest_winml.pipeline.optimizing import ort

    if name.endswith("Rule"):
        monkeypatch.setattr(ort, "ALL_RULES", ALL_RULES | {name})
    row = Optimization(name="new", does="It does.", transformers=(name,))
    with pytest.raises(BuildError, match=f"has no graph transformer '{name}'"):
        run_bench(erf_gelu(), tmp_path, lambda one: one.named([row]), level=1)


def test_a_change_that_nothing_explains_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_expanded", lambda *_: [])
    with pytest.raises(BuildError, match=r"with every optimization off, .* changed the graph all the same: .*-1 Mish"):
        optimized(made("(float[4] x) => (float[4] y)", "y = Mish(x)", 18), tmp_path, "pad_fusion")


def test_an_operator_that_the_cpu_writes_out_is_named_and_stays_if_nothing_else_happens(tmp_path: Path) -> None:
    answer = optimized(made("(float[4] x) => (float[4] y)", "y = Mish(x)", 18), tmp_path, "pad_fusion")
    assert listed(answer, "always_on") == ["expansion of Mish"]
    assert answer.no_op
    assert nodes_by_type(result(tmp_path)) == {"Mish": 1}


def test_functions_of_the_model_are_written_out_with_a_word(tmp_path: Path) -> None:
    graph = made("(float[4] x) => (float[4] y)", "t = Identity(x) y = mine.Twice(t)")
    add = helper.make_node("Add", ["a", "a"], ["b"])
    graph.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], [add], [helper.make_opsetid("", 17)]))
    graph.opset_import.append(helper.make_opsetid("mine", 1))
    answer = optimized(graph, tmp_path, base="basic")
    assert listed(answer, "always_on") == ["expansion of mine.Twice"]
    assert largest_difference(tmp_path) == 0


def halves() -> onnx.ModelProto:
    weights = np.ones((8, 6), np.float16)
    return from_text(
        "(float16[4,8] x) => (float16[4,6] y)", "i = Identity(x) m = MatMul(i, w) y = Relu(m)", {"w": weights}
    )


def test_half_precision_that_would_get_casts_is_left_alone_by_basic(tmp_path: Path) -> None:
    answer = optimized(halves(), tmp_path, base="basic")
    assert answer.no_op
    assert "16-bit floats" in str(answer.facts["left_alone"])
    assert "Cast" not in nodes_by_type(result(tmp_path))


def test_half_precision_that_would_get_casts_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"cannot be optimized by name: .*16-bit floats"):
        optimized(halves(), tmp_path, "constant_folding")


# The preparation for QNN


def test_the_preparation_for_qnn_leaves_no_erf(tmp_path: Path) -> None:
    answer = optimized(shipped("digits-vit", "fp32"), tmp_path, base="basic", preparation="qnn")
    assert answer.facts["prepared"] is True
    assert nodes_by_type(result(tmp_path))["com.microsoft.Gelu"] == 3
    assert "Erf" not in nodes_by_type(result(tmp_path))
    assert largest_difference(tmp_path) <= 1e-4


def test_the_preparation_keeps_what_the_file_says_of_itself(tmp_path: Path) -> None:
    graph = erf_gelu()
    helper.set_model_props(graph, {"made for": "a test"})
    optimized(graph, tmp_path, base="basic", preparation="qnn")
    assert [(entry.key, entry.value) for entry in result(tmp_path).metadata_props] == [("made for", "a test")]


def test_the_preparation_names_the_nodes_that_have_no_name(tmp_path: Path) -> None:
    graph = conv_then("y = Relu(c)")
    for node in graph.graph.node:
        node.ClearField("name")
    answer = optimized(graph, tmp_path, base="basic", preparation="qnn")
    assert answer.no_op
    assert all(node.name for node in result(tmp_path).graph.node)


def test_a_quantized_graph_is_not_prepared_for_quantization(tmp_path: Path) -> None:
    graph = quantized_twice(2)
    for node in graph.graph.node:
        node.ClearField("name")
    assert optimized(graph, tmp_path, base="basic", preparation="qnn").no_op
    assert nodes_by_type(result(tmp_path)) == nodes_by_type(graph)


# Files


def test_the_same_graph_gives_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    found = []
    for name in ("here", "a longer name of a folder"):
        (tmp_path / name).mkdir()
        optimized(
            attention(), tmp_path / name, "attention_fusion", "highdim_rtr_lowdim_rtr", base="basic", preparation="qnn"
        )
        found.append((tmp_path / name / "out" / MODEL_FILE).read_bytes())
    assert found[0] == found[1]
    assert str(tmp_path).encode() not in found[0]


def test_comments_of_exporters_with_their_paths_go(tmp_path: Path) -> None:
    graph = conv_bn()
    graph.graph.node[0].doc_string = "/somewhere/model.py(7): forward"
    graph.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/somewhere/model.py")
    optimized(graph, tmp_path, base="basic")
    assert b"/somewhere" not in (tmp_path / "out" / MODEL_FILE).read_bytes()


def test_only_operator_sets_in_use_are_declared(tmp_path: Path) -> None:
    optimized(conv_then("y = Relu(c)"), tmp_path, "conv_activation_fusion")
    assert {entry.domain for entry in result(tmp_path).opset_import} == {"", "com.microsoft"}


def with_external_weights(folder: Path) -> Path:
    path = folder / "source.onnx"
    model = made("(float[2,64] x) => (float[2,64] y)", "i = Identity(x) y = MatMul(i, w)", w=(64, 64))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def stage(path: Path, folder: Path, **request: Any) -> StageAnswer:
    (folder / "out").mkdir()
    return optimize(OptimizeRequest(model_path=str(path), output_folder=str(folder / "out"), **request))


@pytest.mark.parametrize("base", ["none", "basic"])
def test_weights_beside_the_model_are_taken_along(base: str, tmp_path: Path) -> None:
    answer = stage(with_external_weights(tmp_path), tmp_path, base=base)
    assert answer.no_op == (base == "none")
    assert largest_difference(tmp_path) == 0
    assert only_files(tmp_path) == [MODEL_FILE]


def test_large_weights_stay_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    publish(with_external_weights(tmp_path), tmp_path / "out", embed_below_bytes=1)
    assert only_files(tmp_path) == [MODEL_FILE, f"{MODEL_FILE}.data"]
    assert largest_difference(tmp_path) == 0


def test_a_missing_weights_file_is_a_fault_of_the_model(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"external data 'weights\.bin' is missing"):
        stage(path, tmp_path, base="basic")


def test_a_graph_that_the_runtime_does_not_know_is_a_build_error_with_its_reason(tmp_path: Path) -> None:
    graph = made("(float[4] x) => (float[4] y)", "y = far.away.Op(x)")
    graph.opset_import.append(helper.make_opsetid("far.away", 1))
    with pytest.raises(BuildError, match=r"cannot take the graph on its CPU: .*far\.away"):
        optimized(graph, tmp_path, base="basic")
    assert only_files(tmp_path) == []


def test_subgraphs_are_optimized_too(tmp_path: Path) -> None:
    then_branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["i"]), helper.make_node("Relu", ["i"], ["t"])],
        "then", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, [4])],
    )  # fmt: skip
    else_branch = helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [4])],
    )
    graph = made("(bool c, float[4] x) => (float[4] y)", "d = Not(c) y = Identity(x)")
    del graph.graph.node[1:]
    graph.graph.node.append(helper.make_node("If", ["d"], ["y"], then_branch=then_branch, else_branch=else_branch))
    answer = optimized(graph, tmp_path, base="basic")
    assert answer.facts["removed"] == {"Identity": 1}


def test_an_opset_of_eleven_is_taken(tmp_path: Path) -> None:
    answer = optimized(
        made("(float[1,8] x) => (float[8] y)", "s = Squeeze<axes=[0]>(x) i = Identity(s) y = Relu(i)", 11),
        tmp_path,
        base="basic",
    )
    assert answer.facts["opset"] == 11
    assert answer.facts["removed"] == {"Identity": 1}


def test_sizes_that_are_not_fixed_stay_so(tmp_path: Path) -> None:
    graph = from_text(
        '(float["batch",8] x) => (float["batch",8] y)', "i = Identity(x) y = Relu(i)", {"unused": ints(1)}
    )
    optimized(graph, tmp_path, base="basic")
    (value,) = result(tmp_path).graph.input
    assert value.type.tensor_type.shape.dim[0].dim_param == "batch"

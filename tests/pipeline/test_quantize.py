"""What the quantize stage makes of the digit networks and of graphs that ask one question each, on ORT's CPU EP."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_winml.data import digits
from pytest_winml.data.calibration import EmbeddedData, RandomData, gather, write_feeds
from pytest_winml.graph.precision import is_quantized, precision_in
from pytest_winml.graph.reading import load_structure, opset, read_io
from pytest_winml.pipeline import quantize_graph
from pytest_winml.pipeline.quantize import quantize
from pytest_winml.pipeline.quantize_overrides import quantized_types
from pytest_winml.records.stages import MODEL_FILE, QuantizeRequest
from tests.models import conv_relu_matmul, save
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_winml.records.stages import Fact

pytestmark = needs_runtime

PRECISIONS = ("fp16", "w8a8", "w8a16", "dynamic", "w4a16")


class Quantized:
    """The stage run once: its folder, its model and its facts."""

    def __init__(self, source: Path, folder: Path, precision: str, *, family: str = "qnn", **more: Any) -> None:
        folder.mkdir(parents=True)
        request = {"model_path": str(source), "precision": precision, "family": family, "output_folder": str(folder)}
        self.answer = quantize(QuantizeRequest(**{**request, **more}))
        self.facts: dict[str, Fact] = self.answer.facts
        self.path = folder / MODEL_FILE
        self.model = onnx.load(self.path)
        self.operators = Counter(node.op_type for node in self.model.graph.node)


def feeds_for(source: Path, path: Path, samples: int = 32, embedded: str | None = None) -> str:
    given = EmbeddedData(embedded) if embedded else RandomData()
    inputs = read_io(load_structure(source)).inputs
    return write_feeds(given, inputs, samples=samples, seed=0, path=path).path


def prepared(name: str, folder: Path) -> Path:
    """A digit network as the optimize stage hands it over: opset 21, ORT basic, Gelus whole."""
    import onnxruntime as ort

    raised, path = folder / f"{name}.raised.onnx", folder / f"{name}.prepared.onnx"
    onnx.save(onnx.version_converter.convert_version(onnx.load(digits.model_path(name, "fp32")), 21), raised)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(str(raised), options, providers=["CPUExecutionProvider"])
    return path


def on_cpu(path: Path, feeds: Iterable[Mapping[str, NDArray[Any]]]) -> list[list[NDArray[Any]]]:
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run(None, dict(feed)) for feed in feeds]


def top1(path: Path) -> float:
    images = digits.held_out()
    read = on_cpu(path, ({"image": image[None]} for image in images.images))
    return float(np.mean([values[0].argmax() for values in read] == images.labels))


def with_state_and_if() -> onnx.ModelProto:
    """A branch that reads activations and weights of the graph around it, and a whole number that is carried on."""
    generator = np.random.default_rng(2)
    weights = {name: generator.standard_normal((8, 8)).astype(np.float32) for name in ("w", "w2")}

    def branch(name: str, weight: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8])
        return helper.make_graph(
            [helper.make_node("MatMul", ["a", weight], [name], name=f"in_{name}")], name, [], [value]
        )

    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
            helper.make_node("Greater", ["state", "zero"], ["above"], name="greater"),
            helper.make_node("Squeeze", ["above"], ["chosen"], name="squeeze"),
            helper.make_node(
                "If", ["chosen"], ["i"], name="if", then_branch=branch("then", "w"), else_branch=branch("other", "w2")
            ),
            helper.make_node("MatMul", ["i", "w2"], ["y"], name="last"),
            helper.make_node("Add", ["state", "one"], ["next_state"]),
        ],
        "with_state_and_if",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8]),
            helper.make_tensor_value_info("state", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8]),
            helper.make_tensor_value_info("next_state", TensorProto.INT64, [1]),
        ],
        [
            *(numpy_helper.from_array(array, name) for name, array in weights.items()),
            numpy_helper.from_array(np.array([0]), "zero"),
            numpy_helper.from_array(np.array([1]), "one"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def two_gemms_with_one_weight() -> onnx.ModelProto:
    """The weight is turned over for one of them, as tied embeddings are."""
    weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["a"], name="turned", transB=1),
            helper.make_node("Gemm", ["a", "w", "b"], ["c"], name="plain"),
            helper.make_node("MatMul", ["c", "w"], ["y"], name="matmul"),
        ],
        "tied",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.ones(8, dtype=np.float32), "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def digit_feeds(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("feeds") / "feeds.npz"
    return feeds_for(digits.model_path("digits-cnn", "fp32"), path, 64, "digits-cnn")


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(request.param, tmp_path_factory.mktemp("prepared"))


@pytest.mark.parametrize("family", ["qnn", "generic"])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("source", digits.EMBEDDED_MODELS, indirect=True)
def test_a_quantized_network_reads_digits_as_well_as_the_float_one(
    source: Path, precision: str, family: str, digit_feeds: str, tmp_path: Path
) -> None:
    made = Quantized(source, tmp_path / "out", precision, family=family, feeds_path=digit_feeds)
    assert top1(made.path) >= 0.98
    assert read_io(made.model) == read_io(onnx.load(source))
    assert made.facts["asked"] == precision
    assert made.facts["precision"] == precision_in(made.model)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [MODEL_FILE]
    onnx.checker.check_model(made.model, full_check=True)


@pytest.mark.parametrize("precision", ["w8a8", "w8a16"])
@pytest.mark.parametrize("name", digits.EMBEDDED_MODELS)
def test_a_static_precision_is_in_the_graph(name: str, precision: str, digit_feeds: str, tmp_path: Path) -> None:
    """From opset 17: 16 bits need 21, where Q and DQ of 16 bits are ONNX's own."""
    made = Quantized(digits.model_path(name, "fp32"), tmp_path / "out", precision, feeds_path=digit_feeds)
    assert precision_in(made.model) == precision == made.facts["precision"]
    assert made.facts["qdq_domains"] == ["ai.onnx"]
    assert {entry.domain for entry in made.model.opset_import} == {""}
    assert opset(made.model) == made.facts["opset"] == (21 if precision == "w8a16" else 17)
    assert made.facts.get("opset_raised_from") == (17 if precision == "w8a16" else None)
    assert made.facts["samples"] == 64
    assert made.facts["left_in_float"] == []
    assert made.facts["quantize_nodes"] == made.operators["QuantizeLinear"]
    assert made.facts["dequantize_nodes"] == made.operators["DequantizeLinear"]


def test_qnn_gets_unsigned_weights_and_the_others_signed_ones(digit_feeds: str, tmp_path: Path) -> None:
    source = digits.model_path("digits-vit", "fp32")
    for family, word in (("qnn", "uint8"), ("generic", "int8")):
        made = Quantized(source, tmp_path / family, "w8a16", family=family, feeds_path=digit_feeds)
        weights = {name: found for name, found in quantized_types(made.model).items() if name.endswith(".weight")}
        assert set(weights.values()) == {word}
        assert made.facts["weight_type"] == word


def test_by_channel_qnn_gets_signed_convolutions_and_nothing_else(digit_feeds: str, tmp_path: Path) -> None:
    source = digits.model_path("digits-vit", "fp32")
    made = Quantized(source, tmp_path / "out", "w8a16", feeds_path=digit_feeds, per_channel=True)
    types = quantized_types(made.model)
    convolutions = {node.input[1] for node in onnx.load(source).graph.node if node.op_type == "Conv"}
    signed = {name for name, word in types.items() if word == "int8"}
    assert signed == convolutions
    assert top1(made.path) >= 0.98


def test_by_channel_works_elsewhere_too(digit_feeds: str, tmp_path: Path) -> None:
    for precision in ("w8a8", "dynamic"):
        source = digits.model_path("digits-vit", "fp32")
        made = Quantized(
            source, tmp_path / precision, precision, family="generic", feeds_path=digit_feeds, per_channel=True
        )
        assert made.facts["per_channel"] is True
        assert top1(made.path) >= 0.98


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_each_calibration_method_works(method: str, digit_feeds: str, tmp_path: Path) -> None:
    source = digits.model_path("digits-cnn", "fp32")
    made = Quantized(source, tmp_path / "out", "w8a8", feeds_path=digit_feeds, method=method)
    assert made.facts["method"] == method
    assert top1(made.path) >= 0.9


@pytest.mark.parametrize("source", ["digits-vit"], indirect=True)
def test_w4a16_is_blocks_of_four_bits_in_a_half_precision_graph(source: Path, tmp_path: Path) -> None:
    made = Quantized(source, tmp_path / "out", "w4a16")
    assert made.operators["MatMulNBits"] == made.facts["matmuls_in_4_bits"] == 19
    assert made.operators["MatMul"] == 6  # attention multiplies activations with each other
    kinds = {tensor.data_type for tensor in made.model.graph.initializer}
    assert TensorProto.FLOAT not in kinds
    assert "4-bit symmetric weights in blocks of 32" in str(made.facts["form"])
    assert is_quantized(made.model)


def test_fp16_of_a_half_precision_model_changes_nothing(tmp_path: Path) -> None:
    once = Quantized(digits.model_path("digits-cnn", "fp32"), tmp_path / "once", "fp16")
    twice = Quantized(once.path, tmp_path / "twice", "fp16")
    assert twice.answer.no_op
    assert not once.answer.no_op
    assert [node.op_type for node in twice.model.graph.node] == [node.op_type for node in once.model.graph.node]


def test_fp16_names_the_constants_it_had_to_clamp(tmp_path: Path) -> None:
    model = conv_relu_matmul(middle="Softmax")
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.full((8, 10), 1e5, dtype=np.float32), "w2"))
    made = Quantized(save(model, tmp_path / "m.onnx"), tmp_path / "out", "fp16")
    assert made.facts["clamped"] == ["w2"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_same_request_gives_the_same_bytes_wherever_it_is_run(
    precision: str, digit_feeds: str, tmp_path: Path
) -> None:
    original = digits.model_path("digits-vit", "fp32")
    elsewhere = tmp_path / "elsewhere" / "another name.onnx"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(original.read_bytes())
    first = Quantized(original, tmp_path / "a", precision, feeds_path=digit_feeds)
    second = Quantized(elsewhere, tmp_path / "b" / "c", precision, feeds_path=digit_feeds)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.facts == second.facts


def test_nothing_is_printed_and_nothing_is_left_behind(
    digit_feeds: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source" / "model.onnx"
    source.parent.mkdir()
    source.write_bytes(digits.model_path("digits-cnn", "fp32").read_bytes())
    temporary, here = tmp_path / "temporary", tmp_path / "here"
    for folder in (temporary, here):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(here)
    for place, (precision, method) in enumerate([("w8a16", "entropy"), ("dynamic", "minmax"), ("w4a16", "minmax")]):
        Quantized(source, tmp_path / str(place), precision, feeds_path=digit_feeds, method=method)
        assert [path.name for path in (tmp_path / str(place)).iterdir()] == [MODEL_FILE]
    assert capfd.readouterr().out == ""
    assert [path.name for path in source.parent.iterdir()] == ["model.onnx"]
    assert not list(temporary.iterdir())
    assert not list(here.iterdir())
    assert tempfile.gettempdir() == str(temporary)
    assert logging.getLogger().level == logging.WARNING


@pytest.mark.parametrize("precision", PRECISIONS)
def test_branches_and_states_go_through(precision: str, tmp_path: Path) -> None:
    source = save(with_state_and_if(), tmp_path / "m.onnx")
    feeds = feeds_for(source, tmp_path / "feeds.npz", 8)
    made = Quantized(source, tmp_path / "out", precision, feeds_path=feeds)
    onnx.checker.check_model(made.model, full_check=True)
    samples = gather(RandomData(), read_io(onnx.load(source)).inputs, samples=8, seed=0).arrays
    for place in range(4):
        feed = {name: array[place] for name, array in samples.items()}
        ((expected, state),), ((got, next_state),) = on_cpu(source, [feed]), on_cpu(made.path, [feed])
        assert np.array_equal(state, next_state)
        assert np.abs(got - expected).max() < (0.4 if precision == "w4a16" else 0.05) * np.abs(expected).max()
    if precision in ("w8a8", "w8a16"):
        assert made.facts["left_in_float"] == ["in_other", "in_then"]
        unread = {name for node in made.model.graph.node for name in node.output} - {
            name for node in made.model.graph.node for name in (*node.input, *quantize_graph.reads(node))
        }
        assert unread == {"y", "next_state"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_old_opsets_go_through(precision: str, tmp_path: Path) -> None:
    model = conv_relu_matmul(middle="Relu")
    model.opset_import[0].version = 11
    source = save(model, tmp_path / "m.onnx")
    made = Quantized(source, tmp_path / "out", precision, feeds_path=feeds_for(source, tmp_path / "feeds.npz"))
    assert made.facts["opset"] == (21 if precision == "w8a16" else 11)
    feed = {"x": np.random.default_rng(5).random((1, 3, 8, 8), dtype=np.float32)}
    ((expected,),), ((got,),) = on_cpu(source, [feed]), on_cpu(made.path, [feed])
    assert np.abs(got - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("precision", ["dynamic", "w4a16", "w8a8"])
def test_a_weight_that_is_read_turned_over_and_plain_stays_right_for_both(precision: str, tmp_path: Path) -> None:
    source = save(two_gemms_with_one_weight(), tmp_path / "m.onnx")
    feeds = feeds_for(source, tmp_path / "feeds.npz", 8)
    made = Quantized(source, tmp_path / "out", precision, feeds_path=feeds)
    feed = {"x": np.random.default_rng(4).random((1, 8), dtype=np.float32)}
    ((expected,),), ((got,),) = on_cpu(source, [feed]), on_cpu(made.path, [feed])
    assert np.abs(got - expected).max() < (0.3 if precision == "w4a16" else 0.05) * np.abs(expected).max()


def test_weights_in_constant_nodes_are_weights(tmp_path: Path) -> None:
    model = conv_relu_matmul(middle="Softmax")
    tensors = list(model.graph.initializer)
    del model.graph.initializer[:]
    for tensor in tensors:
        node = helper.make_node("Constant", [], [tensor.name])
        node.attribute.append(helper.make_attribute("value", tensor))
        model.graph.node.insert(0, node)
    source = save(model, tmp_path / "m.onnx")
    made = Quantized(source, tmp_path / "out", "w8a8", feeds_path=feeds_for(source, tmp_path / "feeds.npz"))
    assert {quantized_types(made.model)[name] for name in ("w1", "w2")} == {"uint8"}
    assert not made.operators["Constant"]


def test_what_a_model_says_of_itself_and_its_nodes_stays(digit_feeds: str, tmp_path: Path) -> None:
    model = onnx.load(digits.model_path("digits-cnn", "fp32"))
    helper.set_model_props(model, {"winml.io.inputs": "[]"})
    tagged = next(node for node in model.graph.node if node.op_type == "Conv")
    tagged.metadata_props.add(key="winml.hierarchy.tag", value="/stem")
    made = Quantized(save(model, tmp_path / "m.onnx"), tmp_path / "out", "w8a16", feeds_path=digit_feeds)
    assert {prop.key: prop.value for prop in made.model.metadata_props} == {"winml.io.inputs": "[]"}
    kept = next(node for node in made.model.graph.node if node.name == tagged.name)
    assert [prop.value for prop in kept.metadata_props] == ["/stem"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_that_one_file_cannot_hold_lie_beside_it(
    precision: str, digit_feeds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is lowered: what is done above it is the same at 20 kB and at 2 GB."""
    monkeypatch.setattr(quantize_graph, "EMBED_BELOW_BYTES", 20_000)
    folder = tmp_path / "source"
    folder.mkdir()
    onnx.save(
        onnx.load(digits.model_path("digits-cnn", "fp32")),
        str(folder / "m.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=64,
    )
    made = Quantized(folder / "m.onnx", tmp_path / "out", precision, feeds_path=digit_feeds)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MODEL_FILE, f"{MODEL_FILE}.data"]
    assert top1(made.path) >= 0.98
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "weights.bin"]

from __future__ import annotations

import gc
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from onnx import helper

from pytest_winml.data.digits import model_path
from pytest_winml.errors import ModelError, UsageProblem
from pytest_winml.records.case import Case
from pytest_winml.records.model import LONGEST_NAME, Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.target import Target
from tests.graph.graphs import external, relu, value
from tests.models import conv_relu_matmul

if TYPE_CHECKING:
    from pytest_winml.pipeline.pipeline import Pipeline
    from pytest_winml.records.artifact import Artifact

AS_IT_IS = Recipe(optimize="none", precision="fp32", compile=False)
CNN = Model.embedded("digits-cnn")


def build(pipeline: Pipeline, model: Model, recipe: Recipe = AS_IT_IS, target: str = "cpu") -> Artifact:
    return pipeline.build(Case(model=model, recipe=recipe, target=Target(target)))


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


# --- embedded models


def test_an_embedded_model_takes_values_from_zero_to_one(pipeline: Pipeline) -> None:
    (image,) = build(pipeline, CNN, Recipe()).io.inputs
    assert (image.name, image.dtype, image.shape) == ("image", "float32", (1, 1, 8, 8))
    assert (image.low, image.high) == (0.0, 1.0)


def test_an_unknown_embedded_model_suggests_the_nearest(pipeline: Pipeline) -> None:
    with pytest.raises(UsageProblem, match="unknown embedded model 'digits-cnm'") as caught:
        build(pipeline, Model.embedded("digits-cnm"), Recipe())
    assert caught.value.remedy == "did you mean 'digits-cnn'?"


# --- files


def test_a_file_is_taken_as_it_is(pipeline: Pipeline, tmp_path: Path) -> None:
    path = save(relu(opset=19), tmp_path / "models" / "m.onnx")
    before = path.read_bytes()
    artifact = build(pipeline, Model.onnx("models/m.onnx"))
    assert artifact.path == path
    assert path.read_bytes() == before
    provenance = artifact.provenance
    assert (provenance.source, provenance.stages) == ("onnx:models/m.onnx", ("as it is",))
    assert (provenance.precision, provenance.opset, provenance.size_bytes) == ("fp32", 19, len(before))
    assert provenance.sha256 == hashlib.sha256(before).hexdigest()
    assert not (tmp_path / "store").exists()


def test_an_absolute_path_is_taken_from_where_it_is(pipeline: Pipeline, tmp_path: Path) -> None:
    path = save(relu(), tmp_path / "elsewhere" / "m.onnx")
    assert build(pipeline, Model.onnx(path)).path == path


def test_a_missing_file_is_named_in_the_rootdir(pipeline: Pipeline, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist") as caught:
        build(pipeline, Model.onnx("gone.onnx"))
    assert str(Path(tmp_path.name) / "gone.onnx") in caught.value.message


def test_a_file_that_is_quantized_stays_so_and_says_so(pipeline: Pipeline) -> None:
    artifact = build(pipeline, Model.onnx(model_path("digits-vit", "w8a8")), target="qnn:npu")
    assert artifact.provenance.precision == "w8a8"


def test_not_compiling_leaves_a_file_alone(pipeline: Pipeline, tmp_path: Path) -> None:
    path = save(relu(), tmp_path / "m.onnx")
    recipe = Recipe(optimize="none", precision="fp32", compile=False)
    assert build(pipeline, Model.onnx("m.onnx"), recipe).path == path


# --- the key


def test_the_key_follows_the_content_and_not_the_name(pipeline: Pipeline, tmp_path: Path) -> None:
    first = save(relu(), tmp_path / "first.onnx")
    second = tmp_path / "folder" / "second.onnx"
    second.parent.mkdir()
    second.write_bytes(first.read_bytes())
    assert build(pipeline, Model.onnx("first.onnx")).key == build(pipeline, Model.onnx("folder/second.onnx")).key


def test_one_byte_makes_another_key(pipeline: Pipeline, tmp_path: Path) -> None:
    path = save(relu(), tmp_path / "m.onnx")
    before = build(pipeline, Model.onnx("m.onnx")).key
    content = path.read_bytes()
    path.write_bytes(content.replace(b"relu", b"relv"))
    assert build(pipeline, Model.onnx("m.onnx")).key != before


def test_a_byte_of_external_data_makes_another_key_and_counts_in_the_size(pipeline: Pipeline, tmp_path: Path) -> None:
    path = save(relu(weights=[external("w", "w.bin")]), tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    before = build(pipeline, Model.onnx("m.onnx"))
    assert before.provenance.size_bytes == path.stat().st_size + 8
    (tmp_path / "w.bin").write_bytes(b"\0" * 7 + b"\1")
    assert build(pipeline, Model.onnx("m.onnx")).key != before.key


def test_external_data_outside_the_models_folder_is_not_read(pipeline: Pipeline, tmp_path: Path) -> None:
    save(relu(weights=[external("w", "../w.bin")]), tmp_path / "models" / "m.onnx")
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    with pytest.raises(ModelError, match="lies outside"):
        build(pipeline, Model.onnx("models/m.onnx"))


# --- shapes


def dynamic() -> onnx.ModelProto:
    return relu(inputs=[value("x", ["batch", 4])], outputs=[value("y", ["batch", 4])])


def test_shapes_make_a_copy_with_fixed_sizes_and_leave_the_file_alone(pipeline: Pipeline, tmp_path: Path) -> None:
    path = save(dynamic(), tmp_path / "m.onnx")
    before = path.read_bytes()
    artifact = build(pipeline, Model.onnx("m.onnx", shapes={"x": (2, 4)}))
    assert path.read_bytes() == before
    assert artifact.path.is_relative_to(tmp_path / "store")
    assert artifact.provenance.stages == ("import",)
    assert [spec.shape for spec in (*artifact.io.inputs, *artifact.io.outputs)] == [(2, 4), (2, 4)]
    assert artifact.key != build(pipeline, Model.onnx("m.onnx")).key


def test_the_same_shapes_are_fixed_once_and_others_are_another_artifact(pipeline: Pipeline, tmp_path: Path) -> None:
    save(dynamic(), tmp_path / "m.onnx")
    two = Model.onnx("m.onnx", shapes={"x": (2, 4)})
    three = Model.onnx("m.onnx", shapes={"x": (3, 4)})
    assert build(pipeline, two).path == build(pipeline, two, target="qnn:npu").path
    assert build(pipeline, three).path != build(pipeline, two).path
    assert build(pipeline, three).io.inputs[0].shape == (3, 4)


def test_shapes_that_contradict_the_file_are_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    save(dynamic(), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="contradicts"):
        build(pipeline, Model.onnx("m.onnx", shapes={"x": (2, 5)}))


# --- functions


def test_a_function_is_called_once_however_many_targets_ask(pipeline: Pipeline) -> None:
    calls: list[int] = []

    def make() -> onnx.ModelProto:
        calls.append(1)
        return relu()

    model = Model.build("made", make)
    artifacts = [build(pipeline, model, target=target) for target in ("cpu", "qnn:npu", "cpu")]
    assert len(calls) == 1
    assert len({artifact.path for artifact in artifacts}) == 1
    provenance = artifacts[0].provenance
    assert (provenance.source, provenance.stages) == (f"build:{model.source}", ("as it is",))


def test_functions_of_one_name_are_not_taken_for_each_other(pipeline: Pipeline) -> None:
    def named(name: str) -> Model:
        return Model.build("made", lambda: helper_model(name))

    assert node_names(build(pipeline, named("first"))) == ["first"]
    for number in range(50):
        gc.collect()  # so that a function may get the address of one that is gone
        assert node_names(build(pipeline, named(f"n{number}"))) == [f"n{number}"]


def helper_model(name: str) -> onnx.ModelProto:
    made = relu()
    made.graph.node[0].name = name
    return made


def node_names(artifact: Artifact) -> list[str]:
    return [node.name for node in onnx.load(artifact.path).graph.node]


def test_a_function_that_raises_is_named_with_what_it_raised(pipeline: Pipeline) -> None:
    def broken() -> onnx.ModelProto:
        raise RuntimeError("no weights today")

    with pytest.raises(ModelError, match=r"broken\(\) raised RuntimeError: no weights today") as caught:
        build(pipeline, Model.build("made", broken))
    assert caught.value.message.startswith("model 'made': ")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_function_that_raised_is_called_again(pipeline: Pipeline) -> None:
    answers: list[Any] = [RuntimeError("not yet"), relu()]

    def second_time() -> onnx.ModelProto:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        made: onnx.ModelProto = answer
        return made

    model = Model.build("made", second_time)
    with pytest.raises(ModelError):
        build(pipeline, model)
    assert node_names(build(pipeline, model)) == ["relu"]


@pytest.mark.parametrize(("result", "kind"), [(None, "NoneType"), (b"bytes", "bytes"), (relu().graph, "GraphProto")])
def test_a_function_that_returns_something_else_is_named_with_what(pipeline: Pipeline, result: Any, kind: str) -> None:
    def wrong() -> onnx.ModelProto:
        made: onnx.ModelProto = result
        return made

    with pytest.raises(ModelError, match=rf"wrong\(\) returned {kind}, not an ONNX model"):
        build(pipeline, Model.build("made", wrong))


def test_a_function_that_returns_an_empty_model_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ModelError, match="holds no graph"):
        build(pipeline, Model.build("made", lambda: helper.make_model(helper.make_graph([], "empty", [], []))))


def test_a_model_whose_function_stayed_in_another_process_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ModelError, match="was made by a function of another process"):
        build(pipeline, Model(kind="build", name="made", source="tests.somewhere"))


# --- ranges


def test_ranges_reach_the_inputs_they_name(pipeline: Pipeline, tmp_path: Path) -> None:
    save(relu(inputs=[value("x", [1, 4]), value("z", [1])]), tmp_path / "m.onnx")
    io = build(pipeline, Model.onnx("m.onnx", inputs={"x": (-1, 2.5)})).io
    assert [(spec.name, spec.low, spec.high) for spec in io.inputs] == [("x", -1, 2.5), ("z", None, None)]
    assert [(spec.low, spec.high) for spec in io.outputs] == [(None, None)]


def test_a_range_of_an_input_that_is_not_there_names_those_that_are(pipeline: Pipeline, tmp_path: Path) -> None:
    save(relu(), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="model 'm' has no input 'images'") as caught:
        build(pipeline, Model.onnx("m.onnx", inputs={"images": (0, 1)}))
    assert caught.value.remedy == "it has x."


def test_a_model_with_the_longest_name_gets_files_that_every_system_takes(pipeline: Pipeline, tmp_path: Path) -> None:
    artifact = build(pipeline, Model.build("m" * LONGEST_NAME, conv_relu_matmul))
    assert artifact.path.is_file()
    assert max(len(path.name) for path in tmp_path.rglob("*")) <= 143  # what encrypted file systems take

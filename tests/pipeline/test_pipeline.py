"""Stages through the store: each built once, whatever asks for it, and found whole or built again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from onnx import TensorProto, helper

from pytest_winml.data.digits import held_out, model_path
from pytest_winml.errors import BuildError, ModelError, UsageProblem
from pytest_winml.pipeline import pipeline as pipeline_module
from pytest_winml.pipeline.tools import cpu_identity
from pytest_winml.records.case import Case
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Calibration, Recipe
from pytest_winml.records.target import ALL_TARGETS, Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from tests.models import conv_relu_matmul, save
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.pipeline.pipeline import Pipeline
    from pytest_winml.records.artifact import Artifact

pytestmark = needs_runtime
CNN = Model.embedded("digits-cnn")
RANDOM = Calibration(data="random", samples=4)


def build(pipeline: Pipeline, target: str = "cpu", recipe: Recipe | None = None, model: Model = CNN) -> Artifact:
    return pipeline.build(Case(model=model, recipe=recipe or Recipe(), target=Target(target)))


def built_stages(artifacts: list[Artifact]) -> Counter[str]:
    return Counter(run.stage for artifact in artifacts for run in artifact.provenance.runs if not run.reused)


def test_eight_targets_cost_one_stage_per_distinct_setting(
    make_pipeline: Callable[[], Pipeline], tmp_path: Path
) -> None:
    save(conv_relu_matmul(), tmp_path / "m.onnx")
    model = Model.onnx("m.onnx", shapes={"x": (1, 3, 8, 8)})
    recipe = Recipe(compile=False, calibration=RANDOM)
    artifacts = [build(make_pipeline(), target, recipe, model) for target in ALL_TARGETS]
    # Two ways to optimize (with and without QNN's preparation), two ways to quantize w8a16 (QNN's and the generic one).
    assert built_stages(artifacts) == {"import": 1, "optimize": 2, "quantize": 2}
    again = [build(make_pipeline(), target, recipe, model) for target in ALL_TARGETS]
    assert built_stages(again) == {}
    assert [one.key for one in again] == [one.key for one in artifacts]


def test_the_precision_in_the_graph_is_what_is_recorded(pipeline: Pipeline) -> None:
    recipes = {word: Recipe(precision=word, compile=False) for word in ("fp32", "fp16", "w8a8", "w8a16")}
    assert {word: build(pipeline, recipe=recipe).provenance.precision for word, recipe in recipes.items()} == {
        word: word for word in recipes
    }


@needs_qnn
def test_by_default_the_npu_gets_a_compiled_w8a16_that_reads_digits(pipeline: Pipeline, pool: WorkerPool) -> None:
    artifact = build(pipeline, "qnn:npu")
    assert artifact.provenance.stages == ("optimize", "quantize", "compile")
    machine = Machine(pool, ProviderSettings(offline=True), timeout_s=120)
    images = held_out()
    with machine.open(Target("qnn:npu"), artifact.path) as session:
        placement = session.placement
        right = sum(
            int(session.run({"image": image[None]})["logits"].argmax()) == label
            for image, label in zip(images.images[:60], images.labels[:60], strict=True)
        )
    assert placement.ep_context
    assert placement.fallback_nodes == ()
    assert placement.compiled_nodes
    assert right >= 57


@needs_qnn
def test_a_model_that_does_not_fit_whole_keeps_its_reasons_when_compiled(
    pipeline: Pipeline, pool: WorkerPool, tmp_path: Path
) -> None:
    save(conv_relu_matmul(middle="Hardmax"), tmp_path / "m.onnx")
    artifact = build(pipeline, "qnn:npu", Recipe(calibration=RANDOM), Model.onnx("m.onnx"))
    machine = Machine(pool, ProviderSettings(offline=True), timeout_s=120)
    with machine.open(Target("qnn:npu"), artifact.path) as session:
        (node,) = session.placement.fallback_nodes
    assert node.op_type == "Hardmax"
    assert "not supported" in str(node.reason)
    assert node.reason_source == "qnn_op_trace_sidecar"


def test_a_model_that_is_quantized_already_is_not_quantized_again(pipeline: Pipeline) -> None:
    shipped = Model.onnx(model_path("digits-cnn", "w8a16"))
    artifact = build(pipeline, "cpu", Recipe(precision="w8a16", compile=False), shipped)
    assert artifact.provenance.stages == ("as it is",)
    assert artifact.provenance.precision == "w8a16"


def test_a_damaged_artifact_is_built_again(make_pipeline: Callable[[], Pipeline]) -> None:
    recipe = Recipe(precision="w8a8", compile=False)
    first = build(make_pipeline(), recipe=recipe)
    content = first.path.read_bytes()
    first.path.chmod(0o644)
    first.path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = build(make_pipeline(), recipe=recipe)
    assert again.path.read_bytes() == content
    assert built_stages([again]) == {"quantize": 1}


def test_a_damaged_input_of_a_stage_is_built_again_first(make_pipeline: Callable[[], Pipeline]) -> None:
    optimized = build(make_pipeline(), recipe=Recipe(precision="fp32"))
    optimized.path.chmod(0o644)
    optimized.path.write_bytes(optimized.path.read_bytes()[:-10])
    artifact = build(make_pipeline(), recipe=Recipe(precision="fp16"))
    assert artifact.provenance.precision == "fp16"


def test_static_quantization_without_data_says_what_to_choose(pipeline: Pipeline, tmp_path: Path) -> None:
    save(conv_relu_matmul(), tmp_path / "m.onnx")
    with pytest.raises(BuildError, match=r"m, stage quantize: the model brings no data set .* \(x\)") as caught:
        build(pipeline, "cpu", Recipe(precision="w8a16"), Model.onnx("m.onnx"))
    assert 'Calibration(data="random")' in str(caught.value.remedy)
    assert caught.value.stage == "quantize"


def test_calibration_data_that_is_not_there_is_named_with_model_and_stage(pipeline: Pipeline) -> None:
    recipe = Recipe(precision="w8a8", calibration=Calibration(data="none.npz"))
    with pytest.raises(BuildError, match=r"digits-cnn, stage quantize: calibration data .*none\.npz does not exist"):
        build(pipeline, recipe=recipe)


def test_random_data_for_a_dynamic_shape_name_model_stage_and_input(pipeline: Pipeline, tmp_path: Path) -> None:
    made = conv_relu_matmul()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    save(made, tmp_path / "m.onnx")
    recipe = Recipe(optimize="none", precision="w8a8", calibration=RANDOM)
    with pytest.raises(BuildError, match=r"m, stage quantize: random data cannot be made for input 'x'.*'batch'"):
        build(pipeline, recipe=recipe, model=Model.onnx("m.onnx"))


def test_a_recipe_that_must_compile_for_an_absent_ep_fails_before_anything_is_built(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match="compile=True needs vitisai:npu, which is absent"):
        build(pipeline, "vitisai:npu", Recipe(compile=True))
    assert not (tmp_path / "store" / "entries").exists()


def test_compiling_for_an_ep_without_epcontext_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(BuildError, match="cpu has no EPContext"):
        build(pipeline, "cpu", Recipe(compile=True))


def test_qdq_on_the_qnn_gpu_is_refused_with_the_reason(pipeline: Pipeline) -> None:
    with pytest.raises(BuildError, match="cannot be used on qnn:gpu"):
        build(pipeline, "qnn:gpu", Recipe(precision="w8a8"))


def test_an_unknown_optimization_suggests_the_nearest(pipeline: Pipeline) -> None:
    with pytest.raises(UsageProblem, match="gelu_fusoin") as caught:
        build(pipeline, recipe=Recipe(optimize=("gelu_fusoin",)))
    assert "gelu_fusion" in str(caught.value.remedy)


def test_a_named_optimization_is_another_artifact(pipeline: Pipeline) -> None:
    plain, fused = build(pipeline), build(pipeline, recipe=Recipe(optimize=("conv_activation_fusion",)))
    assert plain.key != fused.key


def test_a_stage_that_fails_names_model_and_stage(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "inputs.npz").write_bytes(b"not an archive")
    recipe = Recipe(precision="w8a8", calibration=Calibration(data="inputs.npz"))
    with pytest.raises(BuildError, match="digits-cnn, stage quantize: ") as caught:
        build(pipeline, recipe=recipe)
    assert caught.value.stage == "quantize"


def test_a_model_older_than_opset_11_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    model = conv_relu_matmul()
    model.opset_import[0].version = 10
    save(model, tmp_path / "old.onnx")
    with pytest.raises(ModelError, match="opset 10; 11 is the oldest"):
        build(pipeline, model=Model.onnx("old.onnx"))


def test_opset_and_exporter_belong_to_an_export(pipeline: Pipeline) -> None:
    with pytest.raises(BuildError, match="opset 21 is chosen when a model is exported"):
        build(pipeline, recipe=Recipe(opset=21))
    with pytest.raises(BuildError, match="has nothing to export"):
        build(pipeline, recipe=Recipe(exporter="dynamo"))
    assert build(pipeline, recipe=Recipe(opset=17)).provenance.opset == 17


def test_a_scalar_input_can_be_calibrated(pipeline: Pipeline, tmp_path: Path) -> None:
    model = conv_relu_matmul()
    model.graph.input.append(helper.make_tensor_value_info("gain", TensorProto.FLOAT, []))
    model.graph.node[-1].output[0] = "product"
    model.graph.node.append(helper.make_node("Mul", ["product", "gain"], ["y"], name="scaled"))
    save(model, tmp_path / "m.onnx")
    recipe = Recipe(precision="w8a8", calibration=RANDOM)
    assert build(pipeline, "cpu", recipe, Model.onnx("m.onnx")).provenance.precision == "w8a8"


def test_tensors_without_a_shape_in_the_file_build_and_are_told_as_such(pipeline: Pipeline, tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "g", values[:1], values[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "loose.onnx")
    for optimize in ("none", "default"):
        io = build(pipeline, recipe=Recipe(optimize=optimize), model=Model.onnx("loose.onnx")).io
        assert (io.inputs[0].shape, io.outputs[0].shape) == (None, None)


def test_what_is_made_for_one_kind_of_cpu_is_not_served_to_another(
    make_pipeline: Callable[[], Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    for_this_cpu = Recipe(optimize=("nchwc_transformer",), precision="fp32")
    for_every_cpu = Recipe(optimize=("conv_bn_fusion",), precision="fp32")
    here = [build(make_pipeline(), recipe=recipe) for recipe in (for_this_cpu, for_every_cpu)]
    assert built_stages(here) == {"optimize": 2}
    assert built_stages([build(make_pipeline(), recipe=for_this_cpu)]) == {}
    monkeypatch.setattr(pipeline_module, "cpu_identity", lambda: {"architecture": "x64", "instructions": "SSE2"})
    assert built_stages([build(make_pipeline(), recipe=for_this_cpu)]) == {"optimize": 1}
    assert built_stages([build(make_pipeline(), recipe=for_every_cpu)]) == {}


def test_the_identity_of_a_cpu_names_its_instructions() -> None:
    identity = cpu_identity()
    assert identity == cpu_identity()
    assert all(identity.values())

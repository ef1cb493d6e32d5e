"""What a test holds: the case, its artifact, its placement, its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_runtime


def test_the_fixtures_give_what_their_names_say(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, target="cpu")
def test_artifact(winml_artifact, winml):
    assert winml_artifact == winml.artifact()
    assert winml_artifact.path.is_file()
    assert winml_artifact.provenance.precision == "fp32"
    (image,) = winml_artifact.io.inputs
    assert (image.name, image.dtype, image.shape, image.low, image.high) == ("image", "float32", (1, 1, 8, 8), 0, 1)

@pytest.mark.winml(model=CNN, target="cpu")
def test_session(winml_session):
    outputs = winml_session.run()
    assert outputs["logits"].shape == (1, 10)
    assert (winml_session.run()["logits"] == outputs["logits"]).all(), "made-up inputs are seeded"
    assert winml_session.placement.on_target

@pytest.mark.winml(model=CNN, target="cpu")
def test_placement(winml):
    assert not winml.emulated
    assert winml.placement().fallback_nodes == ()
    with winml.session() as session:
        assert session.run()["logits"].shape == (1, 10)
""")
    project.runpytest().assert_outcomes(passed=3)


@needs_qnn
def test_a_failed_placement_assertion_lists_nodes_and_reasons(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
from tests.models import conv_relu_matmul

HARDMAX = Model.build("hardmax", lambda: conv_relu_matmul(middle="Hardmax"))

@pytest.mark.winml(model=HARDMAX, recipe=Recipe(optimize="none", precision="fp32"), target="qnn:npu")
def test_a(winml):
    assert winml.placement().fallback_nodes == ()
""")
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*1 node not on the target:",
            "*Hardmax 'middle' on CPU: Operators of type `Hardmax` are not supported by QNN EP*",
            "*hardmax*fp32*qnn:npu*emulated*7 of 8 nodes, 2*",
        ]
    )


@needs_qnn
def test_a_session_with_nothing_on_its_target_is_refused(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
from pytest_winml import NotOnTarget
from tests.models import only

ONLY = Model.build("only", lambda: only("Hardmax"))
UNCOMPILED = Recipe(optimize="none", precision="fp32", compile=False)

@pytest.mark.winml(model=ONLY, recipe=UNCOMPILED, target="qnn:npu")
def test_a(winml):
    with pytest.raises(NotOnTarget, match="took none of the 1 nodes"), winml.session():
        raise AssertionError("never reached")
    assert winml.placement().target_nodes == ()
""")
    project.runpytest().assert_outcomes(passed=1)


def test_a_recipe_that_cannot_be_built_fails_at_the_users_line_with_what_to_do(
    suite: Callable[[str], pytest.Pytester],
) -> None:
    project = suite("""
from tests.models import only

@pytest.mark.winml(model=Model.build("one", lambda: only("Relu")), recipe=Recipe(precision="w8a8"), target="cpu")
def test_a(winml):
    winml.artifact()
""")
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*BuildError: one, stage quantize: the model brings no data set*inputs with (x)",
            '*Calibration(data="random")*',
        ]
    )
    result.stdout.no_fnmatch_line("*pipeline.py*")
    project.runpytest("--full-trace").stdout.fnmatch_lines(["*pipeline.py*"])


def test_feeds_that_cannot_be_meant_are_named_by_input(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, target="cpu")
@pytest.mark.parametrize("feeds", [{"image": [1, 2]}, {"imag": __import__("numpy").zeros(1, "float32")}], ids=[1, 2])
def test_a(winml_session, feeds):
    winml_session.run(feeds)
""")
    result = project.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*UsageProblem: input 'image' is a list, not a NumPy array", "*RunFailed: *'image'*"])


def test_inputs_that_cannot_be_made_up_are_named_with_their_case(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
from onnx import TensorProto, helper

def loose():
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="r")], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

@pytest.mark.winml(model=Model.build("loose", loose), target="cpu")
def test_a(winml_session):
    winml_session.run()
""")
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ModelError: loose-default-cpu, inputs of a run: input 'x' has shape ('batch', 8), which is not fixed"]
    )


@pytest.mark.parametrize("jobs", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_fixture_of_ours_that_fails_shows_its_message_and_no_frames_of_pytest(
    suite: Callable[[str], pytest.Pytester], jobs: tuple[str, ...]
) -> None:
    project = suite("""
@pytest.mark.winml(model=Model.onnx("none.onnx"), target="cpu")
def test_a(winml_session): ...
""")
    result = project.runpytest(*jobs)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["ModelError: none, stage import: model file *none.onnx does not exist", "To do: *"])
    result.stdout.fnmatch_lines(["ERROR *test_a* - *ModelError*"])
    for frame in ("*fixtures.py*", "*_caller*", "*def *"):
        result.stdout.no_fnmatch_line(frame)
    project.runpytest("--full-trace").stdout.fnmatch_lines(["*fixtures.py*"])


def test_a_fixture_of_the_users_that_fails_ends_at_its_own_line(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.fixture
def mine(winml):
    with winml.session() as session:
        yield session

@pytest.mark.winml(model=Model.onnx("none.onnx"), target="cpu")
def test_a(mine): ...
""")
    result = project.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([">       with winml.session() as session:", "*ModelError: none, stage import*"])
    result.stdout.no_fnmatch_line("*_caller*")


def test_a_relative_path_starts_at_the_rootdir(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
FILE = Model.onnx("models/relu.onnx")

@pytest.mark.winml(model=FILE, recipe=Recipe(optimize="none", precision="fp32"), target="cpu")
def test_a(winml_session):
    assert winml_session.run()["y"].shape == (1, 8)
""")
    from tests.models import only, save

    (project.path / "models").mkdir()
    save(only("Relu"), project.path / "models" / "relu.onnx")
    project.mkdir("elsewhere")
    project.runpytest("--rootdir", str(project.path)).assert_outcomes(passed=1)

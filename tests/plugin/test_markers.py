"""The winml marker: parametrizing, selecting by device, and mistakes that are usage errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable


def test_ids_read_model_recipe_target_and_are_stable(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.winml(models=[CNN, VIT], recipes=[Recipe(), Recipe(precision="w8a8")], targets=["CPU", "QNN:npu"])
def test_a(winml): ...
""")
    result = project.runpytest("--collect-only", "-q")
    ids = [line.partition("[")[2].rstrip("]") for line in result.outlines if "test_a[" in line]
    assert ids == [
        f"{model}-{recipe}-{target}"
        for model in ("digits-cnn", "digits-vit")
        for recipe in ("default", "w8a8")
        for target in ("cpu", "qnn:npu")
    ]


@pytest.mark.parametrize(("device", "kept"), [("npu", 2), ("gpu", 1), ("cpu", 1)])
def test_device_marks_select(suite: Callable[[str], pytest.Pytester], device: str, kept: int) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, targets=["cpu", "qnn:npu", "npu", "dml:gpu"])
def test_a(winml): ...
""")
    result = project.runpytest("--collect-only", "-q", "-m", device)
    assert sum("test_a[" in line for line in result.outlines) == kept


def test_the_nearest_marker_wins_for_each_keyword(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
pytestmark = pytest.mark.winml(models=[VIT], targets=["qnn:npu"])

@pytest.mark.winml(targets=["cpu"])
class TestIt:
    @pytest.mark.winml(model=CNN)
    def test_a(self, winml): ...
    def test_b(self, winml): ...
""")
    result = project.runpytest("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*test_a[[]digits-cnn-default-cpu]", "*test_b[[]digits-vit-default-cpu]"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('@pytest.mark.winml(models=[CNN], tragets=["cpu"])\ndef test_a(winml): ...', "did you mean 'targets'"),
        ('@pytest.mark.winml(models=[CNN], targets=["qnm:npu"])\ndef test_a(winml): ...', "did you mean 'qnn:npu'"),
        ('@pytest.mark.winml(models=[CNN], targets=["cpu"])\ndef test_a(): ...', "uses none of its fixtures"),
        ("def test_a(winml): ...", "has no @pytest.mark.winml"),
        ("@pytest.mark.winml(models=[CNN])\ndef test_a(winml): ...", "says no targets"),
        ('@pytest.mark.winml(models=["cnn"], targets=["cpu"])\ndef test_a(winml): ...', "is no Model"),
        ('@pytest.mark.winml(models=[CNN, CNN], targets=["cpu"])\ndef test_a(winml): ...', "two cases have the id"),
    ],
)
def test_mistakes_are_usage_errors_that_name_the_test(
    suite: Callable[[str], pytest.Pytester], text: str, said: str
) -> None:
    result = suite(text + "\n").runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    output = result.stdout.str() + result.stderr.str()
    assert "test_it.py::test_a" in output
    assert said in output


@pytest.mark.parametrize("options", [(), ("-q",), ("--winml-build-only",), ("-n", "2")], ids=str)
def test_a_mistyped_provider_option_is_a_usage_error_before_anything_runs(
    suite: Callable[[str], pytest.Pytester], options: tuple[str, ...]
) -> None:
    project = suite("""
BURST = Target("qnn:npu", options={"htp_performance_mod": "burst"})

@pytest.mark.winml(model=CNN, target=BURST)
def test_a(winml): ...
""")
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "did you mean 'htp_performance_mode'" in result.stdout.str() + result.stderr.str()


def test_two_models_of_one_name_in_two_tests_are_a_usage_error(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.winml(model=Model.onnx("a/model.onnx"), target="cpu")
def test_a(winml): ...

@pytest.mark.winml(model=Model.onnx("b/model.onnx"), target="cpu")
def test_b(winml): ...
""")
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "another model has the id 'model-default-cpu' (a/model.onnx)" in result.stderr.str()


def test_a_marked_unittest_method_is_a_usage_error(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
import unittest

@pytest.mark.winml(model=CNN, target="cpu")
class TestOld(unittest.TestCase):
    def test_a(self): ...
""")
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "unittest method" in result.stderr.str()


def test_a_mistake_is_a_usage_error_under_xdist_too(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite('@pytest.mark.winml(models=[CNN], tragets=["cpu"])\ndef test_a(winml): ...\n')
    result = project.runpytest("-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["ERROR: test_it.py::test_a: *did you mean 'targets'*"])


@needs_runtime
def test_a_device_mark_on_a_test_of_ours_means_nothing_on_others(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.npu
def test_of_somebody_else(): ...

@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml):
    assert winml.case.model is CNN
""")
    project.runpytest("--strict-markers").assert_outcomes(passed=2)

"""Traces as tests ask for them: on the CPU, on the emulator, and where they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.models import conv_relu_matmul, save
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Suite = Callable[[str], pytest.Pytester]
    Report = Callable[[], dict[str, Any]]

pytestmark = needs_runtime

TRACED = """
@pytest.mark.winml(model=CNN, targets=["cpu", "qnn:npu"])
def test_a(winml):
    trace = winml.trace(runs=2, warmup=1)
    assert trace.status == "ok"
    assert [one.warm_up for one in trace.inferences] == [True, False, False]
    assert trace.share(op_type="Conv") > 0.3
    trace.require_no_fallback()
    assert trace.metadata.artifact_key == winml.artifact().key
"""


@needs_qnn
def test_a_trace_says_where_the_work_is_and_stands_in_the_report(suite: Suite, report: Report) -> None:
    suite(TRACED).runpytest().assert_outcomes(passed=2)
    for item in report()["items"]:
        (trace,) = item["traces"]
        assert trace["status"] == "ok"
        assert trace["metadata"]["case"] == item["case"]["id"]
        assert {node["name"] for one in trace["operators"] for node in one["onnx_nodes"]} >= {"/stem/conv/Conv"}


@needs_qnn
def test_a_share_that_is_not_held_shows_the_operators(suite: Suite) -> None:
    result = suite("""
@pytest.mark.winml(model=CNN, target="qnn:npu")
def test_a(winml):
    assert winml.trace().share(op_type="Conv") < 0.01
""").runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*Conv*"])


@needs_qnn
def test_a_node_that_is_not_on_the_npu_fails_before_anything_is_timed(suite: Suite, report: Report) -> None:
    pytester = suite("""
MODEL = Model.onnx("model.onnx")
RANDOM = Recipe(precision="w8a16", calibration=__import__("pytest_winml").Calibration(data="random", samples=2))

@pytest.mark.winml(model=MODEL, recipe=RANDOM, target="qnn:npu")
def test_a(winml):
    winml.trace().require_no_fallback()
""")
    save(conv_relu_matmul(middle="Hardmax", name="scores"), pytester.path / "model.onnx")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Hardmax*scores*"])
    (item,) = report()["items"]
    (trace,) = item["traces"]
    assert trace["status"] == "ok"
    assert len(trace["partitions"]) == 2


@needs_qnn
def test_a_monitor_observes_the_runs_of_its_window(suite: Suite) -> None:
    suite("""
@pytest.mark.winml(model=CNN, targets=["cpu", "qnn:npu"])
def test_a(winml, winml_monitor):
    with winml.session(monitor=winml_monitor) as session:
        session.run()
        session.run()
        assert winml_monitor.result is None
    assert winml_monitor.result.status == "ok"
    assert len(winml_monitor.result.inferences) == 2

@pytest.mark.winml(model=CNN, target="cpu")
def test_b(winml, winml_monitor):
    with winml.session(monitor=winml_monitor):
        with pytest.raises(Exception, match="a window is open already"):
            winml.trace()
""").runpytest().assert_outcomes(passed=3)


@needs_qnn
def test_a_monitor_of_another_ep_is_refused(suite: Suite) -> None:
    result = suite("""
from pytest_winml.monitors.qnn import QnnMonitor

@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml):
    with winml.session(monitor=QnnMonitor()):
        pass
""").runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MonitorError: QnnMonitor is for QNNExecutionProvider, and the session is on CPU*"])


def test_a_level_nobody_knows_and_a_trace_of_nothing_are_usage_problems(suite: Suite) -> None:
    suite("""
from pytest_winml import UsageProblem

@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml):
    with pytest.raises(UsageProblem, match="did you mean 'detail'"):
        winml.trace(level="detailed")
    with pytest.raises(UsageProblem, match="a trace of 0 runs"):
        winml.trace(runs=0)
""").runpytest().assert_outcomes(passed=1)


def test_two_recipes_are_explained_by_their_operators(suite: Suite) -> None:
    suite("""
@pytest.mark.winml(model=VIT, target="cpu", recipe=Recipe(optimize="none"))
def test_a(winml_latency):
    difference = winml_latency.explain(Recipe())
    assert difference.totals[0].before and difference.totals[0].after
""").runpytest().assert_outcomes(passed=1)


def test_memory_is_told_without_a_timed_test(suite: Suite) -> None:
    suite("""
@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml):
    memory = winml.memory()
    assert memory.artifact_bytes > 1000
    assert memory.peak_bytes > 1_000_000
""").runpytest().assert_outcomes(passed=1)


@needs_qnn
def test_convolutions_fused_for_the_cpu_are_caught_by_placement_before_a_trace_or_a_time(
    suite: Suite, report: Report
) -> None:
    """The pack of fusions that made ResNet-18 130 times slower on an NPU: its FusedConv runs on the CPU."""
    result = suite("""
FUSED = Recipe(
    name="fused", precision="fp32", optimize=("conv_bn_fusion", "conv_add_fusion", "conv_activation_fusion")
)

@pytest.mark.winml(model=CNN, recipe=FUSED, target="qnn:npu")
def test_a(winml):
    assert winml.placement().fallback_nodes == ()
""").runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*FusedConv '/stem/conv/Conv' on CPU: Operators of type `FusedConv` are not supported by QNN EP*"]
    )
    (item,) = report()["items"]
    assert (item["measured"], item["traces"]) == (None, [])
    assert item["duration_s"] < 60

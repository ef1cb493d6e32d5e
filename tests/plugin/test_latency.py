"""Timed tests: gates, baselines and comparisons. The device is simulated but for one test, sessions are its own."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.platforms import needs_qnn, needs_runtime
from tests.plugin.simulated import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Suite = Callable[[str], pytest.Pytester]
    Report = Callable[[], dict[str, Any]]

pytestmark = needs_runtime

TIMED = """
import os

def built():
    import onnx
    nodes = "y = Relu(x)" if os.environ.get("CHANGED") else "a = Relu(x) y = Neg(a)"
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 8] x) => (float[1, 8] y) {' + nodes + '}'
    )

@pytest.mark.winml(model=Model.build("tiny", built), target="cpu")
@pytest.mark.winml_gate(latency="10%", size="500%")
def test_a(winml_latency):
    winml_latency.check()
"""


@pytest.fixture
def timed(suite: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Suite:
    """A project whose times are the simulator's, and whose artifacts are its own."""
    monkeypatch.setenv("PYTEST_ADDOPTS", f'--winml-store="{(tmp_path / "store").as_posix()}"')

    def make(text: str) -> pytest.Pytester:
        pytester = suite(text)
        pytester.makeconftest(SIMULATED)
        return pytester

    return make


def only_item(report: Report) -> dict[str, Any]:
    (item,) = report()["items"]
    return dict(item)


def test_a_first_run_without_a_baseline_passes_and_lists_the_gate_as_not_applied(timed: Suite, report: Report) -> None:
    result = timed(TIMED).runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["gates not applied:", "*latency 10%: NO_BASELINE. no baseline was named: run with*"])
    item = only_item(report)
    assert [gate["status"] for gate in item["gates"]] == ["not applied", "not applied"]
    assert len(item["measured"]["sessions"]) == 4


def test_strict_makes_a_gate_that_is_not_applied_a_failure(timed: Suite) -> None:
    result = timed(TIMED).runpytest("--winml-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*GateFailed: latency 10%: NO_BASELINE*(--winml-strict)*"])


def test_a_baseline_is_saved_and_the_changed_artifact_held_against_the_old_one_measured_again(
    timed: Suite, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester = timed(TIMED)
    saved = pytester.runpytest("--winml-save=main")
    saved.assert_outcomes(passed=1)
    saved.stdout.fnmatch_lines(["*saved as baseline main*"])
    assert len(list((pytester.path / "winml-baselines" / "main").glob("*.json"))) == 1

    same = pytester.runpytest("--winml-baseline=main")
    same.assert_outcomes(passed=1)
    assert "byte for byte" in only_item(report)["gates"][0]["sentence"]

    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("SLOWDOWN", "0.2")
    slower = pytester.runpytest("--winml-baseline=main")
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(
        ["*GateFailed: latency 10%: REGRESSED, *% slower (90 % interval +*", "*to measure it again: pytest *test_a*"]
    )
    gate = only_item(report)["gates"][0]
    assert gate["verdict"]["route"] == "co-resident"
    assert gate["verdict"]["effect"] == pytest.approx(0.2, abs=0.03)


def test_where_the_old_artifact_is_gone_stored_figures_are_compared_and_it_is_said(
    timed: Suite, report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytester = timed(TIMED)
    pytester.runpytest("--winml-save=main").assert_outcomes(passed=1)
    shutil.rmtree(tmp_path / "store")
    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("SLOWDOWN", "0.3")
    pytester.runpytest("--winml-baseline=main").assert_outcomes(failed=1)
    gate = only_item(report)["gates"][0]
    assert gate["verdict"]["route"] == "stored"
    assert "is not in the store any more, so figures of" in gate["sentence"]


def test_a_baseline_of_another_machine_is_not_comparable_with_the_fields_named(timed: Suite, report: Report) -> None:
    pytester = timed(TIMED)
    pytester.runpytest("--winml-save=main").assert_outcomes(passed=1)
    (file,) = (pytester.path / "winml-baselines" / "main").glob("*.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    content["machine"]["cpu"] = "a quicker one"
    file.write_text(json.dumps(content), encoding="utf-8")
    result = pytester.runpytest("--winml-baseline=main")
    result.assert_outcomes(passed=1)
    sentence = only_item(report)["gates"][0]["sentence"]
    assert "NOT_COMPARABLE" in sentence
    assert "cpu: a quicker one before" in sentence
    ignoring = pytester.runpytest("--winml-baseline=main", "--winml-ignore-identity=cpu")
    ignoring.assert_outcomes(passed=1)
    assert "EQUIVALENT" in only_item(report)["gates"][0]["sentence"]


def test_the_quick_protocol_says_that_it_screens_and_never_gates(timed: Suite, report: Report) -> None:
    timed(TIMED).runpytest("--winml-protocol=quick", "--winml-gate=latency=<1ns").assert_outcomes(passed=1)
    item = only_item(report)
    assert "the quick protocol screens and never gates" in item["gates"][0]["sentence"]
    assert any("a screen" in note for note in item["measured"]["notes"])


def test_the_marker_wins_over_the_option_metric_by_metric(timed: Suite, report: Report) -> None:
    timed(TIMED).runpytest("--winml-gate=latency=1%,memory=<1MB").assert_outcomes(passed=1)
    assert [gate["limit"]["text"] for gate in only_item(report)["gates"]] == ["10%", "500%", "<1MB"]


def test_an_absolute_limit_needs_no_baseline(timed: Suite) -> None:
    text = TIMED.replace('latency="10%"', 'latency="<1ms"')
    result = timed(text).runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*GateFailed: latency <1ms: *.* ms*"])


COMPARED = """
@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml_latency):
    verdict = winml_latency.compare(recipe=Recipe(optimize="none"))
    assert (verdict.outcome, verdict.route) == ("REGRESSED", "co-resident")
"""


def test_two_recipes_are_compared_in_one_process(timed: Suite, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOWDOWN", "0.2")
    result = timed(COMPARED).runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["digits-cnn-default-cpu: REGRESSED, p50 *"])
    (comparison,) = only_item(report)["comparisons"]
    assert comparison["against"] == "digits-cnn-unoptimized-cpu"


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("winml_gate(latency='5')", "*latency='5' is no limit*"),
        ("winml_gate(latincy='5%')", "*unknown limit in @pytest.mark.winml_gate 'latincy'*did you mean 'latency'*"),
        ("winml_gate('5%')", "*winml_gate takes keywords only*"),
        ("winml_gate()", "*winml_gate limits nothing*"),
    ],
)
def test_a_gate_that_cannot_be_meant_is_a_usage_error(suite: Suite, marker: str, sentence: str) -> None:
    text = f"""
@pytest.mark.winml(model=CNN, target="cpu")
@pytest.mark.{marker}
def test_a(winml_latency):
    pass
"""
    result = suite(text).runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])


def test_a_gate_on_a_test_that_times_nothing_is_a_usage_error(suite: Suite) -> None:
    result = suite("""
@pytest.mark.winml(model=CNN, target="cpu")
@pytest.mark.winml_gate(latency="5%")
def test_a(winml):
    pass
""").runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is marked winml_gate and times nothing*"])


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--winml-protocol=quik", "*did you mean 'quick'*"),
        ("--winml-budget=soon", "*--winml-budget 'soon' is no time*"),
        ("--winml-gate=latency", "*is not METRIC=LIMIT*"),
        ("--winml-ignore-identity=cup", "*did you mean 'cpu'*"),
    ],
)
def test_options_that_cannot_be_meant_are_usage_errors(suite: Suite, option: str, sentence: str) -> None:
    result = suite(TIMED).runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])


@needs_qnn
def test_an_emulated_target_is_never_timed(suite: Suite, report: Report) -> None:
    result = suite("""
@pytest.mark.winml(model=CNN, target="qnn:npu")
def test_a(winml_latency):
    winml_latency.measure()
""").runpytest("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*emulated here, and times of an emulator mean nothing. To run it:*"])
    assert only_item(report)["measured"] is None


def test_a_model_is_timed_for_real(suite: Suite, report: Report) -> None:
    result = suite("""
@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml_latency):
    latency = winml_latency.measure()
    assert latency.p50_ms > 0
    assert latency is not winml_latency.measure()
    assert latency == winml_latency.measure()
    assert winml_latency.memory().peak_bytes > 1_000_000
""").runpytest("--winml-protocol=quick")
    result.assert_outcomes(passed=1)
    measured = only_item(report)["measured"]
    assert {block["arm"] for block in measured["sessions"][0]} == {"target", "canary"}
    assert measured["memory"]["artifact_bytes"] > 1000


def test_a_red_among_several_is_confirmed_by_fresh_sessions(
    timed: Suite, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester = timed(TIMED + TIMED[TIMED.index("@pytest.mark.winml(") :].replace("test_a", "test_b"))
    pytester.runpytest("--winml-save=main").assert_outcomes(passed=2)
    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("SLOWDOWN", "0.2")
    pytester.runpytest("--winml-baseline=main").assert_outcomes(failed=2)
    for item in report()["items"]:
        first, second = item["comparisons"]
        assert first["verdict"]["seed"] != second["verdict"]["seed"]
        assert "a second test with fresh sessions agrees" in item["gates"][0]["sentence"]


KILLED = (
    SIMULATED
    + """
import signal

def run(self, order, sessions=[]):
    sessions.append(order)
    if os.environ.get("DIE_AT") == str(len(sessions)):
        os.kill(os.getpid(), signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    with open("timed.txt", "a") as file:
        file.write("one\\\\n")
    return SimulatedTimedDevice.run(self, order)

OnTheSimulator.run = run
"""
)


def test_a_run_that_is_killed_while_timing_goes_on_at_the_next_session(
    timed: Suite, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester = timed(COMPARED + COMPARED.replace("test_a", "test_b"))
    pytester.makeconftest(KILLED)
    monkeypatch.setenv("SLOWDOWN", "0.2")
    whole = pytester.runpytest_subprocess()
    whole.assert_outcomes(passed=2)
    count = (pytester.path / "timed.txt").read_text().count("one")
    assert not (pytester.path / "reports" / "sessions").exists()

    monkeypatch.setenv("DIE_AT", str(count - 2))
    assert pytester.runpytest_subprocess().ret != 0
    monkeypatch.delenv("DIE_AT")
    told = pytester.runpytest_subprocess("--collect-only", "-q")
    assert told.ret == 0
    (pytester.path / "timed.txt").unlink()
    pytester.runpytest_subprocess("--winml-resume").assert_outcomes(passed=2)
    assert (pytester.path / "timed.txt").read_text().count("one") == 3
    reasons = [item["comparisons"][0]["verdict"]["reasons"] for item in report()["items"]]
    assert all(any("of an interrupted run were taken over" in reason for reason in one) for one in reasons)
    assert not (pytester.path / "reports" / "sessions").exists()

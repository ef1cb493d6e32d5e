"""--winml-build-only: eight combinations on a machine that has none of them, and what became of each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.records.target import ALL_TARGETS
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_runtime
SUITE = """
@pytest.fixture
def never():
    raise AssertionError("a build-only run sets up no fixture")

@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml, never):
    raise AssertionError("a build-only run runs no test")

@pytest.mark.winml(model=CNN, target="qnn:npu")
def test_b(winml): ...

def test_plain(): ...
"""


def _results(project: pytest.Pytester) -> dict[str, Any]:
    text = (project.path / "reports" / "build_results.json").read_text(encoding="utf-8")
    return {one["case"]["target"]["spec"]: one for one in json.loads(text)["outcomes"]}


def test_every_target_is_built_once_and_its_outcome_kept(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(SUITE)
    result = project.runpytest("--winml-build-only", "--winml-store", "store")
    result.assert_outcomes(passed=len(ALL_TARGETS))
    results = _results(project)
    assert tuple(results) == ALL_TARGETS
    assert {one["status"] for one in results.values()} <= {"built", "reused"}
    assert results["cpu"]["precision"] == "fp32"
    assert results["openvino:npu"]["precision"] == "w8a16"
    assert results["vitisai:npu"]["precision"] == "fp32"
    assert results["qnn:gpu"]["stopped_before"] == "compile"
    result.stdout.fnmatch_lines(["*built in this run: *optimize x 2, quantize x 2*"])
    again = project.runpytest("--winml-build-only", "--winml-store", "store")
    assert {one["status"] for one in _results(project).values()} == {"reused"}
    again.stdout.fnmatch_lines(["*built in this run: nothing*"])


def test_the_soc_of_a_target_is_kept_and_progress_is_seen(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, target=Target("qnn:npu", soc="sm8650"))
def test_a(winml): ...
""")
    result = project.runpytest_subprocess("--winml-build-only", "--winml-store=fresh", "--winml-target=qnn:npu", "-v")
    result.assert_outcomes(passed=1)
    assert _results(project)["qnn:npu"]["case"]["target"]["soc"] == "sm8650"
    result.stdout.fnmatch_lines(["*winml: building digits-cnn: optimize (* into the run)"])


def test_targets_on_the_command_line_replace_the_eight(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(SUITE)
    project.runpytest("--winml-build-only", "--winml-target", "cpu", "--winml-target", "dml:gpu").assert_outcomes(
        passed=2
    )
    assert tuple(_results(project)) == ("cpu", "dml:gpu")


def test_a_refused_combination_is_skipped_with_the_reason(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, recipe=Recipe(precision="w8a8"), target="cpu")
def test_a(winml): ...
""")
    project.runpytest("--winml-build-only", "--winml-target", "qnn:gpu").assert_outcomes(skipped=1)
    outcome = _results(project)["qnn:gpu"]
    assert outcome["status"] == "skipped"
    assert "GPU" in outcome["reason"]


@pytest.mark.parametrize("jobs", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_failure_tells_stage_and_class_and_the_rest_is_built(
    suite: Callable[[str], pytest.Pytester], jobs: tuple[str, ...]
) -> None:
    project = suite("""
BAD = Model.onnx("bad.onnx")

@pytest.mark.winml(models=[BAD, CNN], target="cpu")
def test_a(winml): ...
""")
    (project.path / "bad.onnx").write_bytes(b"not a model")
    result = project.runpytest("--winml-build-only", "--winml-target", "cpu", *jobs)
    result.assert_outcomes(passed=1, failed=1)
    text = (project.path / "reports" / "build_results.json").read_text(encoding="utf-8")
    outcomes = {one["case"]["model"]: one for one in json.loads(text)["outcomes"]}
    assert outcomes["bad"]["status"] == "failed"
    assert outcomes["bad"]["error_class"] == "ModelError"
    assert outcomes["bad"]["infrastructure"] is False
    assert outcomes["digits-cnn"]["status"] in ("built", "reused")


def test_a_malformed_target_is_a_usage_error_here_too(suite: Callable[[str], pytest.Pytester]) -> None:
    result = suite(SUITE).runpytest("--winml-build-only", "--winml-target", "qnm:npu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_two_runs_at_once_build_each_stage_once(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--winml-build-only",
        "--winml-store",
        "s",
    ]
    runs = [
        subprocess.Popen([*command, "--winml-report-dir", name], cwd=project.path, stdout=subprocess.DEVNULL)
        for name in ("one", "two")
    ]
    assert [run.wait() for run in runs] == [0, 0]
    built: Counter[str] = Counter()
    for name in ("one", "two"):
        text = (project.path / name / "build_results.json").read_text(encoding="utf-8")
        stages = (stage for outcome in json.loads(text)["outcomes"] for stage in outcome["stages"])
        built.update(stage["key"] for stage in stages if not stage["reused"])
    assert built
    assert set(built.values()) == {1}

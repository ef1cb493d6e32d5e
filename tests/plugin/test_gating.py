"""No device skips, a broken one fails, a required one cannot be green by skipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_runtime
ON_VITIS = """
@pytest.mark.winml(model=CNN, target="vitisai:npu")
def test_a(winml):
    winml.placement()
"""
ON_QNN = """
@pytest.mark.winml(model=CNN, target="qnn:npu")
def test_a(winml):
    assert winml.emulated
    assert winml.placement().emulated
"""


def test_a_target_that_is_not_here_skips_with_reason_and_remedy(suite: Callable[[str], pytest.Pytester]) -> None:
    result = suite(ON_VITIS).runpytest("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*no VitisAIExecutionProvider in this environment. To run it: *"])


@pytest.mark.parametrize("required", ["vitisai:npu", "npu", "VitisAIExecutionProvider"])
def test_a_required_target_that_is_not_here_fails(suite: Callable[[str], pytest.Pytester], required: str) -> None:
    result = suite(ON_VITIS).runpytest("--winml-require", required)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TargetAbsent: vitisai:npu is required (--winml-require) and absent: no Vitis*"])


def test_a_skip_of_the_users_own_is_a_failure_where_the_target_is_required(
    suite: Callable[[str], pytest.Pytester],
) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, target="cpu")
def test_a(winml):
    pytest.skip("not today")
""")
    project.runpytest().assert_outcomes(skipped=1)
    result = project.runpytest("--winml-require", "cpu")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cpu is required (--winml-require), and this test was skipped: not today*"])


def test_requiring_one_target_leaves_skips_of_others_alone(suite: Callable[[str], pytest.Pytester]) -> None:
    suite(ON_VITIS).runpytest("--winml-require", "cpu").assert_outcomes(skipped=1)


@needs_qnn
def test_under_xdist_the_summary_says_once_that_the_npu_is_emulated(suite: Callable[[str], pytest.Pytester]) -> None:
    result = suite(ON_QNN).runpytest("-n", "2")
    result.assert_outcomes(passed=1)
    said = [line for line in result.outlines if "EMULATED" in line]
    assert len(said) == 1
    assert said[0].startswith("winml: qnn:npu EMULATED on this host (HTP emulator ")


@needs_qnn
def test_on_x64_the_npu_is_emulated_and_the_header_says_so(suite: Callable[[str], pytest.Pytester]) -> None:
    result = suite(ON_QNN).runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["winml: onnxruntime *", "winml: qnn:npu EMULATED on this host (HTP emulator *Snapdragon X Elite)*"]
    )


@needs_qnn
def test_emulation_can_be_forbidden(suite: Callable[[str], pytest.Pytester]) -> None:
    result = suite(ON_QNN).runpytest("-rs", "--winml-emulate", "never")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*could only run on the HTP emulator here*--winml-emulate=auto*"])


@needs_qnn
def test_emulate_only_leaves_native_targets_out(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(ON_QNN + '\n@pytest.mark.winml(model=CNN, target="cpu")\ndef test_b(winml): ...\n')
    project.runpytest("--winml-emulate", "only").assert_outcomes(passed=1, skipped=1)


@needs_qnn
def test_an_ep_that_is_there_but_broken_fails_and_never_skips(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(ON_QNN)
    (project.path / "broken.dll").write_bytes(b"not a library")
    result = project.runpytest("--winml-ep-library", "qnn=broken.dll")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TargetBroken: qnn does not register from the path given for it*broken.dll*"])


def test_two_runtimes_in_one_environment_are_named_and_fail(
    suite: Callable[[str], pytest.Pytester], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tmp_path_factory.mktemp("second")
    info = second / "onnxruntime_directml-1.24.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-directml\nVersion: 1.24.4\n")
    (info / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    (second / "onnxruntime").mkdir()
    (second / "onnxruntime" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(second)
    result = suite('@pytest.mark.winml(model=CNN, target="cpu")\ndef test_a(winml): ...\n').runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["winml: *onnxruntime-directml 1.24.4*", "*TargetBroken: 2 distributions install*"])


def test_a_bare_device_records_what_it_resolved_to(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]]
) -> None:
    project = suite('@pytest.mark.winml(model=CNN, target="npu")\ndef test_a(winml):\n    winml.placement()\n')
    project.runpytest()
    (item,) = report()["items"]
    availability = item["availability"]
    assert availability["target"] == "npu"
    assert availability["resolved"] in (None, "qnn:npu")
    assert (availability["mode"] == "absent") == (availability["resolved"] is None)

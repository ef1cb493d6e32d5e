from __future__ import annotations

import pytest

from pytest_winml.records.machine import Availability
from pytest_winml.records.target import Target
from pytest_winml.report.header import header_lines, target_line

QNN = Target("qnn:npu")
NATIVE = Availability(target="qnn:npu", resolved="qnn:npu", mode="native", ep_version="2.7.0")
EMULATED = Availability(target="qnn:npu", resolved="qnn:npu", mode="emulated", ep_version="2.7.0", soc="sc8380xp")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (NATIVE, "qnn:npu native (EP 2.7.0)"),
        (Availability(target="cpu", resolved="cpu", mode="native"), "cpu native"),
        (
            EMULATED,
            "qnn:npu EMULATED on this host (HTP emulator 2.7.0, Snapdragon X Elite): its times mean nothing",
        ),
        (
            Availability(target="qnn:npu", resolved="qnn:npu", mode="emulated"),
            "qnn:npu EMULATED on this host (HTP emulator, an unnamed SoC): its times mean nothing",
        ),
        (
            Availability(target="npu", resolved="openvino:npu", mode="native", ep_version="1.8.1"),
            "npu → openvino:npu native (EP 1.8.1)",
        ),
        (
            Availability(target="npu", resolved="qnn:npu", mode="emulated", ep_version="2.7.0", soc="sm8750"),
            "npu → qnn:npu EMULATED on this host (HTP emulator 2.7.0, Snapdragon 8 Elite): its times mean nothing",
        ),
        (
            Availability(target="dml:gpu", resolved=None, mode="absent", reason="no DmlExecutionProvider", remedy="x"),
            "dml:gpu absent: no DmlExecutionProvider",
        ),
        (
            Availability(target="qnn:npu", resolved=None, mode="broken", reason="qnn does not register: Error 126"),
            "qnn:npu broken: qnn does not register: Error 126",
        ),
        (
            Availability(target="qnn:npu", resolved=None, mode="broken", reason="it died\nTo do: x\n  | log"),
            "qnn:npu broken: it died",
        ),
        (Availability(target="qnn:npu", resolved=None, mode="broken"), "qnn:npu broken: no reason given"),
    ],
)
def test_a_target_is_met_in_one_line(answer: Availability, line: str) -> None:
    assert target_line(Target(answer.target), answer) == line


def test_the_header_names_the_runtime_first_and_then_each_target() -> None:
    assert header_lines("onnxruntime 1.31.1", [(QNN, NATIVE), (QNN, EMULATED)]) == [
        "winml: onnxruntime 1.31.1",
        "winml: qnn:npu native (EP 2.7.0)",
        "winml: qnn:npu EMULATED on this host (HTP emulator 2.7.0, Snapdragon X Elite): its times mean nothing",
    ]


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (Target("qnn:npu", soc="sm8750"), "qnn:npu@sm8750 native (EP 2.7.0)"),
        (Target("qnn:npu", options={"vtcm_mb": "8"}), "qnn:npu@vtcm_mb=8 native (EP 2.7.0)"),
        (Target("qnn:npu", options={"vtcm_mb": "8"}, name="small"), "small (qnn:npu) native (EP 2.7.0)"),
    ],
)
def test_targets_that_differ_only_in_soc_or_options_are_told_apart(target: Target, line: str) -> None:
    assert target_line(target, NATIVE) == line


def test_a_header_without_targets_is_the_runtime() -> None:
    assert header_lines("no ONNX Runtime", []) == ["winml: no ONNX Runtime"]

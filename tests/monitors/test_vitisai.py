"""AMD's report and counters, after the published schemas; no NPU is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.monitors.tools import find_xrt_smi
from pytest_winml.monitors.vitisai import VitisAiMonitor, read_report, sum_contexts
from tests.monitors.profiles import fused, run, text, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.trace import OpTrace

VITISAI = "VitisAIExecutionProvider"
PID = 4711


def contexts(*counts: tuple[int, int]) -> dict[str, Any]:
    """As xrt-smi writes them: texts, a new field among them; (pid, submissions)."""
    listed = [
        {
            "pid": str(pid),
            "context_id": str(place),
            "status": "Active",
            "command_submissions": str(count),
            "command_completions": str(count),
            "errors": "0",
            "gops": "N/A",
            "of_the_future": {"any": "thing"},
        }
        for place, (pid, count) in enumerate(counts)
    ]
    return {"devices": [{"aie_partitions": {"partitions": [{"start_col": "0", "hw_contexts": listed}]}}]}


REPORT = {
    "deviceStat": [
        {"name": "all", "nodeNum": 402, "supportedOpType": ["::Add", "::Conv"]},
        {"name": "CPU", "nodeNum": 2, "supportedOpType": ["::DequantizeLinear"]},
        {"name": "NPU", "nodeNum": 400, "new": 1.5},
    ],
    "nodeStat": [{"input": "x", "opType": "Conv"}] * 3,
    "version": "1.8",
}


class XrtSmi:
    """Answers with one report after the other, into the file it is told."""

    def __init__(self, *reports: Any) -> None:
        self.reports = list(reports)
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> str:
        self.commands.append(command)
        report = self.reports.pop(0)
        if isinstance(report, Exception):
            raise report
        Path(command[command.index("-o") + 1]).write_text(report if isinstance(report, str) else json.dumps(report))
        return ""


def observed(tmp_path: Path, tool: XrtSmi | None, **fields: Any) -> OpTrace:
    environment = fields.pop("environment", {})
    path = Path("xrt-smi") if tool else None
    monitor = VitisAiMonitor(tool=path, run=tool or XrtSmi(), environment=environment, wall_clock=lambda: 1000.0)
    prefix = monitor.prepare(tmp_path).profile_prefix
    profile = Path(f"{prefix}_1.json")
    profile.write_text(text([run(0, 100), fused(0, 1, 90, VITISAI)]))
    after = window(profile, provider=VITISAI, worker_pid=PID, **fields)
    monitor.begin(after)
    monitor.end()
    return monitor.collect(after)


def test_the_commands_of_the_worker_are_counted_and_no_others(tmp_path: Path) -> None:
    tool = XrtSmi(contexts((PID, 10), (99, 500)), contexts((PID, 17), (PID, 2), (99, 900)))
    trace = observed(tmp_path, tool)
    assert trace.status == "ok"
    assert trace.summary["npu_command_submissions"] == 9
    assert trace.summary["npu_command_completions"] == 9
    assert trace.summary["npu_errors"] == 0
    assert list(tool.commands[0])[1:6] == ["examine", "-f", "JSON", "-r", "aie-partitions"]


def test_a_context_that_came_with_the_first_run_counts_from_nothing(tmp_path: Path) -> None:
    trace = observed(tmp_path, XrtSmi({"devices": []}, contexts((PID, 5))))
    assert trace.summary["npu_command_submissions"] == 5


def test_no_command_means_that_the_ep_ran_on_the_cpu_itself(tmp_path: Path) -> None:
    trace = observed(tmp_path, XrtSmi(contexts((PID, 5)), contexts((PID, 5))))
    assert trace.status == "cpu_fallback"
    assert "no command" in str(trace.error)


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (None, "xrt-smi is not installed here"),
        (XrtSmi(OSError("it ended with 1: no device"), contexts()), "it ended with 1: no device"),
        (XrtSmi(contexts(), "not JSON"), "xrt-smi: "),
        (XrtSmi(contexts(), contexts()), f"no hardware context of process {PID}"),
    ],
)
def test_missing_counters_are_a_note_and_cost_no_trace(tmp_path: Path, tool: XrtSmi | None, reason: str) -> None:
    trace = observed(tmp_path, tool)
    assert trace.status == "ok"
    assert [one.name for one in trace.partitions] != []
    assert any("not available" in note and reason in note for note in trace.notes)


def report_in(folder: Path, changed_at: float) -> dict[str, str]:
    path = folder / "cache" / "key" / "vitisai_ep_report.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(REPORT))
    os.utime(path, (changed_at, changed_at))
    return {"cache_dir": str(folder / "cache"), "cache_key": "key"}


def test_the_placement_report_is_read_from_the_eps_cache(tmp_path: Path) -> None:
    trace = observed(tmp_path, None, options=report_in(tmp_path, 2000.0))
    assert trace.summary["placement_NPU"] == 400
    assert trace.summary["placement_CPU"] == 2
    assert trace.artifacts["placement"].endswith("vitisai_ep_report.json")


def test_a_report_from_before_the_session_is_not_read(tmp_path: Path) -> None:
    trace = observed(tmp_path, None, options=report_in(tmp_path, 500.0))
    assert "placement_NPU" not in trace.summary
    assert any("older than this session" in note for note in trace.notes)


def test_a_report_that_the_environment_places_is_found(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(REPORT))
    trace = observed(tmp_path, None, environment={"XLNX_ONNX_EP_REPORT_FILE": str(path)})
    assert trace.summary["placement_all"] == 402


def test_without_a_report_the_note_says_how_to_get_one(tmp_path: Path) -> None:
    assert any("XLNX_ONNX_EP_REPORT_FILE" in note for note in observed(tmp_path, None).notes)


def test_unknown_fields_of_the_report_are_kept() -> None:
    figures = read_report(json.dumps(REPORT).encode())
    assert figures["placement_NPU_new"] == "1.5"
    assert figures["placement_all_supportedOpType"] == '["::Add","::Conv"]'
    assert figures["placement_report_version"] == "1.8"
    assert figures["placement_report_nodes"] == 3


def json_bytes() -> st.SearchStrategy[bytes]:
    keys = st.sampled_from(["devices", "aie_partitions", "partitions", "hw_contexts", "pid", "deviceStat", "name"])
    leaves = st.none() | st.integers() | st.text(max_size=4) | st.just(str(PID))
    values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=12)
    return values.map(msgspec.json.encode) | st.binary(max_size=60)


@given(json_bytes())
def test_reports_of_any_form_read_or_are_refused_as_such(data: bytes) -> None:
    for read in (lambda: sum_contexts(data, PID), lambda: read_report(data)):
        try:
            read()
        except ValueError as error:
            assert str(error)  # noqa: PT017 - either way is right


def test_the_tool_is_found_where_windows_and_xrt_put_it(tmp_path: Path) -> None:
    windows = tmp_path / "System32" / "AMD" / "xrt-smi.exe"
    linux = tmp_path / "xrt" / "bin" / "xrt-smi"
    for path in (windows, linux):
        path.parent.mkdir(parents=True)
        path.touch()
    assert find_xrt_smi({"SystemRoot": str(tmp_path), "PATH": ""}) == windows
    assert find_xrt_smi({"XILINX_XRT": str(tmp_path / "xrt"), "PATH": ""}) == linux
    assert find_xrt_smi({"PATH": ""}) is None

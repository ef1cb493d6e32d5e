"""The detail level at its seam: a viewer that is a script, and summaries after QHAS' schema."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.monitors.qnn import QnnMonitor
from pytest_winml.monitors.qnn_detail import Unavailable, Viewer, find_viewer
from tests.models import conv_relu_matmul, save
from tests.monitors.qnn_profiles import FINALIZE, HEADER, placement, simple_block, window

if TYPE_CHECKING:
    from pytest_winml.records.trace import OpTrace


def qhas(*operators: dict[str, Any]) -> dict[str, Any]:
    overall = {
        "htp_resources": {"data": [{"type": "HVX", "tid": 0, "utilization": 0.5}]},
        "time_us": 1000.0,
        "graph_execute_us": 1200,
        "timeline_cycles": 500_000,
        "total_dram_read": 4096,
        "total_dram_write": 128,
        "total_vtcm_read": 65536,
        "total_vtcm_write": 1024,
        "peak_vtcm_alloc": 2048,
        "qnn_nodes": 1,
        "htp_nodes": 7,
    }
    return {
        "header": {"header_version": {"major": 1}, "version": {"major": 2}, "artifact_type": "QHAS"},
        "model_id": "graph_1_0",
        "data": {
            "htp_overall_summary": {"data": [overall]},
            "qnn_op_types": {"data": []},
            "qnn_op_instances_nodes": {"data": list(operators)},
            "dominant_path_htp_0": {"data": []},
        },
    }


CONV = {
    "qnn_op": "conv",
    "qnn_op_type": "Conv2d",
    "cycles": 900,
    "percent_active_cycles": 70.5,
    "num_dominant_path_cycles_htp_0": 250,
    "percent_dominant_path_cycles_htp_0": 60.0,
    "num_htp_ops": 3,
    "dram_read": 4000,
    "dram_write": 100,
    "vtcm_read": 60000,
    "vtcm_write": 1000,
    "a field of tomorrow": 1,
}


def viewer(folder: Path, body: str, limit_s: float = 30.0) -> Viewer:
    """A script that has its options in `options`."""
    script = folder / "viewer.py"
    script.write_text(
        "import json, os, subprocess, sys, time\noptions = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n" + body + "\n",
        encoding="utf-8",
    )
    return Viewer(command=(sys.executable, str(script)), reader=str(folder / "reader.so"), limit_s=limit_s)


def writing(answer: object) -> str:
    return f"open(options['--output'] + '_qnn_htp_analysis_summary.json', 'w').write({json.dumps(answer)!r})"


def traced(folder: Path, with_viewer: Viewer | None, *, schematics: int = 1, log: bool = True) -> OpTrace:
    window_folder = folder / "window"
    window_folder.mkdir()
    model = save(conv_relu_matmul(), folder / "m.onnx")
    monitor = QnnMonitor("detail", viewer=with_viewer)
    csv = Path(monitor.prepare(window_folder).provider_options["profiling_file_path"])
    if log:
        csv.with_name(f"{csv.stem}_qnn.log").write_bytes(b"\0log")
    for number in range(schematics):
        (window_folder / f"graph_{number}_schematic.bin").write_bytes(b"\0schematic")
    return monitor.collect(window(csv, model, [HEADER + FINALIZE, simple_block("conv")], placement("conv")))


def test_operators_get_memory_traffic_and_their_dominant_path(tmp_path: Path) -> None:
    trace = traced(tmp_path, viewer(tmp_path, writing(qhas(CONV))))
    assert (trace.status, trace.reason) == ("ok", None)
    conv = next(operator for operator in trace.operators if operator.name == "conv")
    assert conv.cycles == 10, "cycles stay those of the profile's inferences"
    assert conv.details == {
        "qhas_cycles": 900,
        "active_percent": 70.5,
        "dominant_path_cycles": 250,
        "dominant_path_percent": 60.0,
        "dominant_path_us": 0.5,
        "dram_read_bytes": 4000,
        "dram_write_bytes": 100,
        "vtcm_read_bytes": 60000,
        "vtcm_write_bytes": 1000,
        "htp_ops": 3,
    }
    assert conv.ep_op_type == "Conv2d"
    assert (trace.summary["dram_read_bytes"], trace.summary["qhas_inference_us"]) == (4096, 1000)
    assert Path(trace.artifacts["qhas"]).is_file()
    assert trace.metadata.level == "detail"


def test_the_viewer_is_given_log_schematic_reader_and_config(tmp_path: Path) -> None:
    body = (
        "assert options['--input_log'].endswith('_qnn.log') and os.path.isfile(options['--input_log'])\n"
        "assert os.path.basename(options['--schematic']) == 'graph_0_schematic.bin'\n"
        "assert options['--reader'].endswith('reader.so')\n"
        "assert json.load(open(options['--config']))['features']['qhas_json'] is True\n"
        "assert os.path.dirname(options['--output']) == os.getcwd()\n"
    )
    trace = traced(tmp_path, viewer(tmp_path, body + writing(qhas(CONV))))
    assert (trace.status, trace.reason) == ("ok", None)


def test_several_graphs_are_viewed_one_by_one_and_a_name_they_share_is_nobodys(tmp_path: Path) -> None:
    trace = traced(tmp_path, viewer(tmp_path, writing(qhas(CONV))), schematics=2)
    assert trace.status == "ok"
    assert {"qhas", "qhas_1"} <= trace.artifacts.keys()
    assert trace.summary["dram_read_bytes"] == 8192
    assert all(operator.details == {} for operator in trace.operators)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit('no such reader')", "viewer_failed: the viewer ended with 1: no such reader"),
        ("pass", "qhas_output_missing: the viewer wrote no summary of graph_0_schematic.bin"),
        (writing({"not": "qhas"}), "qhas_parse_failed: view_qnn_htp_analysis_summary.json: Object missing required"),
        (writing({**qhas(), "header": {"artifact_type": "CHROMETRACE"}}), "qhas_parse_failed"),
        (writing(qhas({**CONV, "cycles": "many"})), "qhas_parse_failed"),
        (writing(qhas({**CONV, "qnn_op": None})), "qhas_parse_failed"),
    ],
)
def test_what_goes_wrong_is_a_basic_fallback_with_its_reason(tmp_path: Path, body: str, reason: str) -> None:
    trace = traced(tmp_path, viewer(tmp_path, body))
    assert trace.status == "basic_fallback"
    assert str(trace.reason).startswith(reason)
    assert any(operator.name == "conv" and operator.cycles == 10 for operator in trace.operators)


def test_a_viewer_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    body = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\ntime.sleep(60)"
    start = time.monotonic()
    trace = traced(tmp_path, viewer(tmp_path, body, limit_s=0.5))
    assert trace.reason == "viewer_failed: the viewer did not end within 0.5 s"
    assert time.monotonic() - start < 20


def test_a_viewer_that_does_not_start_has_failed(tmp_path: Path) -> None:
    trace = traced(tmp_path, Viewer(command=(str(tmp_path / "nowhere"),), reader="r"))
    assert str(trace.reason).startswith("viewer_failed: the viewer does not start")


def test_a_missing_schematic_or_log_is_a_reason(tmp_path: Path) -> None:
    for name, schematics, log, reason in (("a", 0, True, "schematic_missing"), ("b", 1, False, "qnn_log_missing")):
        (tmp_path / name).mkdir()
        trace = traced(tmp_path / name, viewer(tmp_path, "pass"), schematics=schematics, log=log)
        assert (trace.status, str(trace.reason).split(":")[0]) == ("basic_fallback", reason)


def test_a_compiled_models_schematic_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "graph_9_schematic.bin").write_bytes(b"\0")
    assert traced(tmp_path, viewer(tmp_path, writing(qhas(CONV))), schematics=0).status == "ok"


def test_the_viewer_is_looked_for_in_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    windows = sys.platform == "win32"
    folder = "x86_64-windows-msvc" if windows else "x86_64-linux-clang"
    program = tmp_path / "bin" / folder / ("qnn-profile-viewer.exe" if windows else "qnn-profile-viewer")
    reader = "QnnHtpOptraceProfilingReader.dll" if windows else "libQnnHtpOptraceProfilingReader.so"
    library = tmp_path / "lib" / folder / reader
    for environment in ({}, {"QNN_SDK_ROOT": ""}, {"QNN_SDK_ROOT": str(tmp_path)}):
        with pytest.raises(Unavailable, match="sdk_missing"):
            find_viewer(environment)
    for file in (program, library):
        file.parent.mkdir(parents=True)
        file.touch()
    found = find_viewer({"QNN_SDK_ROOT": str(tmp_path)})
    assert (found.command, found.reader) == ((str(program),), str(library))

"""AMD's VitisAI: what its placement report says, and how many commands the NPU was given during the window.

Sources of the schemas:
* `vitisai_ep_report.json`: "Operator Assignment Report" in AMD's Ryzen AI documentation (amd/ryzen-ai-documentation,
  docs/modelrun.rst): `deviceStat[]` with `name` (`all`, `CPU`, and `DPU` or, in later versions, `NPU` and
  `VITIS_EP_CPU`), `nodeNum`, `supportedOpType[]`; the documentation tells of node statistics after that. Written into
  `<cache_dir>/<cache_key>`, since Ryzen AI 1.5 only where the environment names it in XLNX_ONNX_EP_REPORT_FILE.
* `xrt-smi examine -f JSON -r aie-partitions`: Xilinx/XRT, ReportAiePartitions.cpp: `devices[].aie_partitions.
  partitions[].hw_contexts[]` with `pid`, `context_id`, `command_submissions`, `command_completions`, `errors` and
  more, as texts. xrt-smi writes JSON into a file only.

Fields that are not known here are kept as they are. There is no per-operator time; that of whole partitions comes from
ORT's profile.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.monitors.ort_profile import OrtProfileMonitor
from pytest_winml.monitors.tools import find_xrt_smi, run_tool
from pytest_winml.records.target import EP_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_winml.monitors.tools import Run
    from pytest_winml.records.trace import OpTrace
    from pytest_winml.session.monitoring import MonitorOptions, Window

REPORT_NAME = "vitisai_ep_report.json"
REPORT_VARIABLE = "XLNX_ONNX_EP_REPORT_FILE"
_COUNTERS = ("command_submissions", "command_completions", "errors")
Figure = float | int | str | None


class Unavailable(Exception):
    """Why there is no figure."""


class _Device(msgspec.Struct):
    name: str
    nodeNum: int = 0  # noqa: N815 - AMD's spelling


class _Report(msgspec.Struct):
    deviceStat: list[_Device]  # noqa: N815 - AMD's spelling


class VitisAiMonitor(OrtProfileMonitor):
    """`run` starts a tool, `read` gives a file's bytes, `wall_clock` is in seconds as files have it."""

    def __init__(
        self,
        *,
        tool: Path | None = None,
        run: Run = run_tool,
        read: Callable[[Path], bytes] = Path.read_bytes,
        environment: Mapping[str, str] | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ep=EP_BY_NAME["vitisai"].provider, backend="onnxruntime profile, xrt-smi")
        self._environment = os.environ if environment is None else environment
        self._tool = tool or find_xrt_smi(self._environment)
        self._run = run
        self._read = read
        self._wall_clock = wall_clock
        self._since = 0.0
        self._folder: Path | None = None
        self._pid: int | None = None
        self._before: dict[str, int] | str = "the window did not begin"
        self._after: dict[str, int] | str = "the window did not end"

    def prepare(self, folder: Path) -> MonitorOptions:
        self._since = self._wall_clock()
        self._folder = folder
        return super().prepare(folder)

    def begin(self, window: Window) -> None:
        self._pid = window.worker_pid
        self._before = self._contexts("before")

    def end(self) -> None:
        self._after = self._contexts("after")

    def collect(self, window: Window) -> OpTrace:
        trace = super().collect(window)
        summary: dict[str, Figure] = dict(trace.summary)
        artifacts = dict(trace.artifacts)
        notes = list(trace.notes)
        try:
            summary.update(self._submitted())
        except Unavailable as why:
            notes.append(f"submissions to the NPU: not available: {why}")
        try:
            path, report = self._report(window)
            summary.update(report)
            artifacts["placement"] = str(path)
        except Unavailable as why:
            notes.append(f"{REPORT_NAME}: not available: {why}")
        trace = msgspec.structs.replace(trace, summary=summary, artifacts=artifacts, notes=tuple(notes))
        return _without_commands(trace) if summary.get("npu_command_submissions") == 0 else trace

    def _contexts(self, moment: str) -> dict[str, int] | str:
        """The counters of the worker's hardware contexts, summed, or why there are none."""
        if self._tool is None:
            return "xrt-smi is not installed here"
        if self._folder is None or self._pid is None:
            return "the worker's process is not known"
        out = self._folder / f"xrt-smi-{moment}.json"
        command = [str(self._tool), "examine", "-f", "JSON", "-r", "aie-partitions", "-o", str(out), "--force"]
        try:
            self._run(command)
            return sum_contexts(self._read(out), self._pid)
        except (OSError, ValueError) as error:
            return f"xrt-smi: {error}"

    def _submitted(self) -> dict[str, Figure]:
        before, after = self._before, self._after
        if isinstance(before, str):
            raise Unavailable(before)
        if isinstance(after, str):
            raise Unavailable(after)
        if not after["contexts"]:
            raise Unavailable(f"xrt-smi shows no hardware context of process {self._pid}")
        return {f"npu_{key}": after[key] - before[key] for key in _COUNTERS}

    def _report(self, window: Window) -> tuple[Path, dict[str, Figure]]:
        found = [path for path in self._report_places(window.options) if path.is_file()]
        if not found:
            raise Unavailable(
                f"the EP wrote none; set {REPORT_VARIABLE}={REPORT_NAME}, and give the EP a cache_dir and a cache_key"
            )
        path = found[0]
        try:
            if path.stat().st_mtime < self._since:
                raise Unavailable(f"{path} is older than this session, so it may be another model's; empty the cache")
            return path, read_report(self._read(path))
        except (OSError, ValueError) as error:
            raise Unavailable(f"{path}: {error}") from error

    def _report_places(self, options: Mapping[str, str]) -> list[Path]:
        name = Path(self._environment.get(REPORT_VARIABLE) or REPORT_NAME)
        if name.is_absolute():
            return [name]
        folder = options.get("cache_dir") or options.get("cacheDir")
        key = options.get("cache_key") or options.get("cacheKey")
        return [Path(folder) / key / name, Path(folder) / name] if folder and key else []


def _without_commands(trace: OpTrace) -> OpTrace:
    """The EP can take nodes and run them on the CPU itself, which ORT's record does not show."""
    if trace.status != "ok":
        return trace
    error = "the EP took nodes, and the NPU was given no command during the window"
    return msgspec.structs.replace(trace, status="cpu_fallback", error=error)


def sum_contexts(data: bytes, pid: int) -> dict[str, int]:
    """A `ValueError` for what is not xrt-smi's report; contexts of other processes are left out."""
    report = msgspec.json.decode(data, type=dict[str, Any])
    devices = report.get("devices")
    if not isinstance(devices, list):
        raise ValueError("the report has no list of devices")  # noqa: TRY004 - one kind for all that is unreadable
    sums = dict.fromkeys(("contexts", *_COUNTERS), 0)
    for context in _contexts_of(devices):
        if str(context.get("pid")) == str(pid):
            sums["contexts"] += 1
            for key in _COUNTERS:
                sums[key] += _whole(context.get(key, 0), key)
    return sums


def _contexts_of(devices: list[Any]) -> list[dict[str, Any]]:
    try:
        return [
            dict(context)
            for device in devices
            for partition in device.get("aie_partitions", {}).get("partitions") or []
            for context in partition.get("hw_contexts") or []
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"the report's partitions read otherwise than known ({error})") from error


def _whole(value: Any, key: str) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{key} is {value!r}, not a count")
    return int(text)


def read_report(data: bytes) -> dict[str, Figure]:
    """`placement_<device>` counts nodes; what AMD adds to a device beside that is kept as text."""
    devices = msgspec.json.decode(data, type=_Report).deviceStat
    raw = msgspec.json.decode(data, type=dict[str, Any])
    figures: dict[str, Figure] = {f"placement_{device.name}": device.nodeNum for device in devices}
    for device, extra in zip(devices, raw["deviceStat"], strict=True):
        for key, value in extra.items():
            if key not in ("name", "nodeNum"):
                figures[f"placement_{device.name}_{key}"] = _text(value)
    others = {key: value for key, value in raw.items() if key not in ("deviceStat", "nodeStat")}
    figures.update({f"placement_report_{key}": _text(value) for key, value in others.items()})
    if isinstance(raw.get("nodeStat"), list):
        figures["placement_report_nodes"] = len(raw["nodeStat"])
    return figures


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""What QNN's profile viewer makes of an optrace: memory traffic and the dominant path of every operator.

The viewer is in Qualcomm's SDK only. It reads the log that the EP writes beside its CSV and the schematic of a graph,
and writes a summary (QHAS); one graph, one schematic, one run of the viewer.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from pytest_winml.execute.process_tree import kill_tree, wait_exit
from pytest_winml.monitors.qnn_qhas import NotQhas, Qhas, read_qhas
from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_winml.monitors.qnn_qhas import QhasOperator
    from pytest_winml.records.trace import OpTrace, TracedOperator

Reason = Literal[
    "qnn_log_missing", "schematic_missing", "sdk_missing", "viewer_failed", "qhas_output_missing", "qhas_parse_failed"
]
_LIMIT_S = 120.0
_KILL_S = 10.0
_TAIL_CHARACTERS = 300
_FEATURES = ("qhas_json", "qhas_schema", "htp_json", "runtrace", "memory_info", "traceback")


class Unavailable(Exception):
    """Reads `<reason>: <what is missing>`."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(f"{reason}: {what}")
        self.reason = reason


class Viewer(Record, frozen=True, kw_only=True):
    """`command` starts it; `reader` is the library of the SDK that can read an optrace."""

    command: tuple[str, ...]
    reader: str
    limit_s: float = _LIMIT_S


def add_details(
    trace: OpTrace,
    csv: Path,
    model_folder: Path,
    viewer: Viewer | None = None,
    environment: Mapping[str, str] = os.environ,
) -> OpTrace:
    """The trace with details for its operators; raises `Unavailable` for what stands in the way."""
    log = csv.with_name(f"{csv.stem}_qnn.log")
    if not log.is_file():
        raise Unavailable("qnn_log_missing", f"QNN wrote no {log.name}")
    # A compiled model was prepared when it was compiled, and its schematics were written then.
    schematics = sorted(csv.parent.glob("*_schematic.bin")) or sorted(model_folder.glob("*_schematic.bin"))
    if not schematics:
        raise Unavailable("schematic_missing", "no *_schematic.bin in the window's folder or beside the model")
    found = viewer or find_viewer(environment)
    outputs = [_view(found, log, schematic, csv.parent) for schematic in schematics]
    summaries = [_read(output) for output in outputs]
    return _with_details(trace, summaries, outputs)


def find_viewer(environment: Mapping[str, str]) -> Viewer:
    root = environment.get("QNN_SDK_ROOT")
    if not root:
        raise Unavailable("sdk_missing", "QNN_SDK_ROOT is not set")
    program, library = "qnn-profile-viewer", "libQnnHtpOptraceProfilingReader.so"
    if sys.platform == "win32":
        program, library = f"{program}.exe", "QnnHtpOptraceProfilingReader.dll"
    for folder in _architectures():
        command, reader = Path(root, "bin", folder, program), Path(root, "lib", folder, library)
        if command.is_file() and reader.is_file():
            return Viewer(command=(str(command),), reader=str(reader))
    raise Unavailable("sdk_missing", f"{program} and {library} for {_architectures()[0]} are not both in {root}")


def _architectures() -> tuple[str, ...]:
    arm = platform.machine().lower() in ("arm64", "aarch64")
    if sys.platform == "win32":
        return ("aarch64-windows-msvc", "arm64x-windows-msvc") if arm else ("x86_64-windows-msvc",)
    return ("aarch64-oe-linux-gcc11.2", "aarch64-ubuntu-gcc9.4") if arm else ("x86_64-linux-clang",)


def _view(viewer: Viewer, log: Path, schematic: Path, folder: Path) -> Path:
    """The summary of one graph, in a folder that is new: what is in it was made now."""
    output = Path(tempfile.mkdtemp(prefix="qhas-", dir=folder))
    config = output / "config.json"
    config.write_text(json.dumps({"features": dict.fromkeys(_FEATURES, True)}), encoding="utf-8")
    prefix = output / "view"
    files = {"input_log": log, "output": prefix, "reader": viewer.reader, "schematic": schematic, "config": config}
    arguments = [part for option, value in files.items() for part in (f"--{option}", str(value))]
    _run([*viewer.command, *arguments], output, viewer.limit_s)
    summaries = sorted(output.glob("*qnn_htp_analysis_summary.json"))
    if not summaries:
        raise Unavailable("qhas_output_missing", f"the viewer wrote no summary of {schematic.name}")
    return summaries[0]


def _run(command: Sequence[str], folder: Path, limit_s: float) -> None:
    """What it prints goes to a file: a pipe would be held open by what it started."""
    said = folder / "viewer.txt"
    try:
        with said.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=sys.platform != "win32",
            )
    except OSError as error:
        raise Unavailable("viewer_failed", f"the viewer does not start ({error})") from error
    try:
        in_time = wait_exit(process, limit_s)
    finally:
        kill_tree(process, _KILL_S)
    if not in_time:
        raise Unavailable("viewer_failed", f"the viewer did not end within {limit_s:g} s")
    if process.wait() != 0:
        tail = " ".join(said.read_text(encoding="utf-8", errors="replace").split())[-_TAIL_CHARACTERS:]
        raise Unavailable("viewer_failed", f"the viewer ended with {process.returncode}: {tail or 'no word'}")


def _read(path: Path) -> Qhas:
    try:
        return read_qhas(path)
    except NotQhas as error:
        raise Unavailable("qhas_parse_failed", f"{path.name}: {error}") from error


def _with_details(trace: OpTrace, summaries: Sequence[Qhas], paths: Sequence[Path]) -> OpTrace:
    """By QNN's names, which are the same in log and schematic; an operator QHAS does not know keeps its cycles."""
    rows: dict[str, list[QhasOperator]] = defaultdict(list)
    for summary in summaries:
        for row in summary.operators:
            rows[row.name].append(row)
    operators = tuple(_detailed(operator, rows.get(operator.ep_name or "", [])) for operator in trace.operators)
    known = {operator.ep_name for operator in trace.operators}
    notes = [f"the viewer names operators that did not run: {name}" for name in sorted(rows.keys() - known)[:5]]
    totals = {key: _total([summary.totals.get(key) for summary in summaries]) for key in summaries[0].totals}
    artifacts = {f"qhas_{index}" if index else "qhas": str(path) for index, path in enumerate(paths)}
    return msgspec.structs.replace(
        trace,
        operators=operators,
        summary={**trace.summary, **totals},
        artifacts={**trace.artifacts, **artifacts},
        notes=(*trace.notes, *notes),
    )


def _detailed(operator: TracedOperator, rows: Sequence[QhasOperator]) -> TracedOperator:
    """A name that several rows have, as two graphs may, tells them not apart: its details would be somebody else's."""
    if len(rows) != 1:
        return operator
    row = rows[0]
    return msgspec.structs.replace(
        operator,
        ep_op_type=operator.ep_op_type or row.op_type,
        details={**operator.details, **row.details},
    )


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None

"""One opening of a graph by ONNX Runtime that writes it down again, with all that the runtime says meanwhile.

The log is on the process's standard error, and native code does not know Python's. Elsewhere a file is put in its place
for a while. On Windows that closes the handle which a runtime with a C library of its own has kept since it was loaded,
and it is mute from then on: there the graph is opened in a process whose standard error is a file from the start.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.execute.log import current_offset, decode_mixed, read_slice, strip_ansi
from pytest_winml.execute.worker import LOG_LIMIT_BYTES, Worker
from pytest_winml.pipeline.optimizations import BASIC, EXTENDED, LAYOUT
from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDERR = 2
_SERVICE = "pytest_winml.pipeline.optimizing.saving:SavingService"
_LONGEST_S = 24 * 3600.0  # the stage that waits has a limit of its own
_LONG_LOG_BYTES = LOG_LIMIT_BYTES // 4


class Saving(Record, frozen=True, kw_only=True):
    source: str
    target: str
    level: int
    config: dict[str, str]
    disabled: tuple[str, ...]


class Saved(Record, frozen=True, kw_only=True):
    """`failure` is what the runtime said against the graph; None when it was taken and written."""

    log: str
    failure: str | None = None


def save(saving: Saving) -> Saved:
    return _save_elsewhere(saving) if sys.platform == "win32" else save_here(saving)


def save_here(saving: Saving) -> Saved:
    with captured_stderr() as captured:
        failure = _open(saving)
    return Saved(log=captured.text, failure=failure)


class SavingService:
    """In a worker, whose log is its standard error."""

    def __init__(self, directory: Path, log_path: Path) -> None:
        del directory
        self._log_path = log_path

    def save(self, saving: Saving) -> Saved:
        start = current_offset(self._log_path)
        failure = _open(saving)
        return Saved(log=read_slice(self._log_path, start), failure=failure)


def _save_elsewhere(saving: Saving) -> Saved:
    worker = _worker()
    if not worker.alive or current_offset(worker.log_path) > _LONG_LOG_BYTES:
        _end(worker)
        _worker.cache_clear()
        worker = _worker()
    return worker.call("save", saving, Saved, timeout_s=_LONGEST_S)


@cache
def _worker() -> Worker:
    """Kept for the next pass: the runtime takes longer to load than most graphs to pass."""
    worker = Worker(_SERVICE, directory=Path(tempfile.mkdtemp(prefix="winml-optimize-")))
    atexit.register(_end, worker)
    return worker


def _end(worker: Worker) -> None:
    worker.close()
    shutil.rmtree(worker.directory, ignore_errors=True)


def _open(saving: Saving) -> str | None:
    import onnxruntime as ort

    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = {
        BASIC: levels.ORT_ENABLE_BASIC,
        EXTENDED: levels.ORT_ENABLE_EXTENDED,
        LAYOUT: levels.ORT_ENABLE_LAYOUT,
    }[saving.level]
    options.log_severity_level = 0
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.optimized_model_filepath = saving.target
    for key, value in saving.config.items():
        options.add_session_config_entry(key, value)
    try:
        ort.InferenceSession(
            saving.source,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=set(saving.disabled),
            enable_fallback=0,
        )
    except Exception as error:  # noqa: BLE001 - the runtime has a class per status, all mean the same here
        return str(error)
    return None


class Captured:
    """`text` is complete when the block has ended, however it ended."""

    def __init__(self) -> None:
        self.text = ""


@contextlib.contextmanager
def captured_stderr() -> Iterator[Captured]:
    captured = Captured()
    with tempfile.TemporaryFile() as file:
        _flush()
        kept = os.dup(_STDERR)
        try:
            os.dup2(file.fileno(), _STDERR)
            yield captured
        finally:
            _flush()
            os.dup2(kept, _STDERR)
            os.close(kept)
            file.seek(0)
            captured.text = strip_ansi(decode_mixed(file.read())).replace("\r\n", "\n")


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError):  # closed, or not a stream at all
        if sys.stderr is not None:
            sys.stderr.flush()

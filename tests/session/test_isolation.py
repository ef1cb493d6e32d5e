"""A worker that dies or hangs costs one call; the machine goes on with a new one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pytest

from pytest_winml.data.digits import model_path
from pytest_winml.errors import WorkerCrashed, WorkerTimedOut
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.records.target import Target
from pytest_winml.session.machine import Machine, OpenSession
from pytest_winml.session.messages import ProviderSettings
from tests.platforms import needs_qnn, needs_runtime, posix_only

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_runtime
FP32 = model_path("digits-cnn", "fp32")
FEEDS = {"image": np.zeros((1, 1, 8, 8), np.float32)}


def _process(session: OpenSession) -> psutil.Process:
    return psutil.Process(session._worker.pid)


def test_a_killed_worker_is_a_crash_and_the_next_session_works(tmp_path: Path) -> None:
    with WorkerPool(tmp_path) as pool:
        machine = Machine(pool, ProviderSettings(), timeout_s=60)
        session = machine.open(Target("cpu"), FP32)
        _process(session).kill()
        with pytest.raises(WorkerCrashed):
            session.run(FEEDS)
        session.close()
        with machine.open(Target("cpu"), FP32) as again:
            assert again.run(FEEDS)["logits"].shape == (1, 10)


def test_a_hanging_worker_is_killed_at_its_limit(tmp_path: Path) -> None:
    with WorkerPool(tmp_path) as pool:
        machine = Machine(pool, ProviderSettings(), timeout_s=60)
        session = machine.open(Target("cpu"), FP32)
        process = _process(session)
        process.suspend()
        session._timeout_s = 1
        with pytest.raises(WorkerTimedOut, match="run"):
            session.run(FEEDS)
        assert not process.is_running()


@needs_qnn
@posix_only
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler to make a library that crashes")
def test_an_ep_library_that_crashes_the_process_is_broken_and_the_signal_is_named(tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#include <signal.h>\n__attribute__((constructor)) static void start(void) { raise(SIGSEGV); }\n")
    library = tmp_path / "crash.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    with WorkerPool(tmp_path / "workers") as pool:
        machine = Machine(pool, ProviderSettings(ep_libraries={"qnn": str(library)}), timeout_s=60)
        answer = machine.availability(Target("qnn:npu"))
        assert answer.mode == "broken"
        assert "SIGSEGV" in answer.reason
        assert machine.availability(Target("cpu")).usable


def test_sessions_drop_their_files_in_the_workers_folder(tmp_path: Path) -> None:
    with WorkerPool(tmp_path) as pool:
        machine = Machine(pool, ProviderSettings(), timeout_s=60)
        with machine.open(Target("cpu"), FP32) as session:
            assert _process(session).cwd().startswith(str(tmp_path)) or sys.platform == "win32"

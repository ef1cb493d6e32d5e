"""With real processes: what one thread of one process promises another is the lesser part."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_winml.errors import InfrastructureError
from pytest_winml.execute import rwlock
from pytest_winml.execute.os_lock import OsLock
from pytest_winml.execute.rwlock import DeviceLocks, default_folder
from tests.execute.processes import wait_until
from tests.platforms import posix_only

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = f"""
import sys
sys.path[:] = {sys.path!r}
from pathlib import Path
from pytest_winml.execute.rwlock import DeviceLocks
folder, kind = Path(sys.argv[1]), sys.argv[2]
say = lambda word: print(word, flush=True)
locks = DeviceLocks(folder)
waiting = lambda: say("waiting")
with locks.building(waiting) if kind == "building" else locks.timing(kind, waiting):
    say("held")
    sys.stdin.readline()
say("released")
"""
COUNTER = f"""
import sys, time
sys.path[:] = {sys.path!r}
from pathlib import Path
from pytest_winml.execute.rwlock import DeviceLocks
folder, device, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
locks, total = DeviceLocks(folder), folder / "total"
for _ in range(rounds):
    with locks.building():
        pass
    with locks.timing(device):
        before = int(total.read_text())
        time.sleep(0.002)
        total.write_text(str(before + 1))
"""


class Holder:
    """A process that takes a lock, says so, and holds it until told."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder), kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.strip())

    def until(self, word: str) -> Holder:
        wait_until(lambda: word in self.said, limit_s=60)
        return self

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.until("released")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()


class Start:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Holder] = []

    def __call__(self, kind: str) -> Holder:
        self.started.append(Holder(self.folder, kind))
        return self.started[-1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    starter = Start(tmp_path / "locks")
    yield starter
    for holder in starter.started:
        holder.end()


def is_free(folder: Path, kind: str) -> bool:
    locks = DeviceLocks(folder, timeout_s=0)
    try:
        with locks.building() if kind == "building" else locks.timing(kind):
            return True
    except InfrastructureError:
        return False


def test_builds_run_beside_each_other_and_keep_timing_out(start: Start) -> None:
    start("building").until("held")
    start("building").until("held")
    assert is_free(start.folder, "building")
    assert not is_free(start.folder, "npu")


@pytest.mark.parametrize("other", ["npu", "gpu", "building"])
def test_timing_keeps_everything_else_out_other_devices_too(start: Start, other: str) -> None:
    timing = start("npu").until("held")
    assert not is_free(start.folder, other)
    timing.let_go()
    assert is_free(start.folder, other)


def test_no_build_starts_while_timing_waits(start: Start) -> None:
    first = start("building").until("held")
    timing = start("npu").until("waiting")
    late = start("building").until("waiting")
    time.sleep(0.5)
    assert "held" not in late.said, "the build that runs would have let it in"
    first.let_go()
    timing.until("held")
    assert "held" not in late.said
    timing.let_go()
    late.until("held")


def test_a_second_timing_goes_before_builds_that_wait(start: Start) -> None:
    first = start("npu").until("held")
    build = start("building").until("waiting")
    second = start("gpu").until("waiting")
    first.let_go()
    second.until("held")
    assert "held" not in build.said
    second.let_go()
    build.until("held")


@posix_only
def test_one_who_waits_to_time_keeps_builds_out_even_while_it_is_not_looking(start: Start) -> None:
    first = start("npu").until("held")
    second = start("gpu").until("waiting")
    psutil.Process(second.process.pid).suspend()
    build = start("building").until("waiting")
    first.let_go()
    time.sleep(0.5)
    assert "held" not in build.said
    psutil.Process(second.process.pid).resume()
    second.until("held")


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_program_that_holds_a_devices_lock_keeps_timing_off_that_device(tmp_path: Path, exclusive: bool) -> None:
    with OsLock(tmp_path / "pytest-winml-device-npu.lock") as foreign:
        assert foreign.attempt(exclusive=exclusive)
        assert not is_free(tmp_path, "npu")
        assert is_free(tmp_path, "gpu")
        assert is_free(tmp_path, "building")
        foreign.release()
        assert is_free(tmp_path, "npu")


@pytest.mark.parametrize("kind", ["npu", "building"])
def test_a_killed_holder_leaves_nothing_locked(start: Start, kind: str) -> None:
    holder = start(kind).until("held")
    assert not is_free(start.folder, "gpu")
    holder.end()
    wait_until(lambda: is_free(start.folder, "gpu"))
    assert is_free(start.folder, "building")


def test_one_killed_while_it_waits_to_time_lets_builds_in_again(start: Start) -> None:
    start("building").until("held")
    waiter = start("npu").until("waiting")
    assert not is_free(start.folder, "building")
    waiter.end()
    wait_until(lambda: is_free(start.folder, "building"))


def test_processes_that_count_under_the_lock_lose_no_count(tmp_path: Path) -> None:
    (tmp_path / "total").write_text("0", encoding="ascii")
    counters = [
        subprocess.Popen([sys.executable, "-c", COUNTER, str(tmp_path), device, "25"])
        for device in ("npu", "npu", "gpu")
    ]
    assert [counter.wait(timeout=120) for counter in counters] == [0, 0, 0]
    assert (tmp_path / "total").read_text(encoding="ascii") == "75"


def test_threads_of_one_process_exclude_each_other_too(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path)
    inside: list[int] = []
    most: list[int] = []

    def count() -> None:
        for _ in range(10):
            with locks.timing("npu"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (30, 1)


def test_waiting_is_told_once_and_only_if_it_happens(tmp_path: Path) -> None:
    told: list[str] = []
    locks = DeviceLocks(tmp_path)
    with locks.building(lambda: told.append("free")):
        pass
    assert told == []
    release = threading.Event()

    def hold() -> None:
        with locks.timing("npu"):
            held.set()
            release.wait()

    held = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    threading.Timer(0.3, release.set).start()
    with locks.building(lambda: told.append("waits")):
        holder.join()
    assert told == ["waits"]


def test_a_build_inside_a_build_is_the_same_build(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path, timeout_s=0)
    with locks.building():
        with locks.building():
            assert not is_free(tmp_path, "npu")
        assert not is_free(tmp_path, "npu"), "the outer one still runs"
    assert is_free(tmp_path, "npu")


def test_what_would_wait_for_itself_says_so(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path)
    with (
        locks.building(),
        pytest.raises(RuntimeError, match="timing inside building would wait for itself"),
        locks.timing("npu"),
    ):
        pass
    with locks.timing("npu"):
        with pytest.raises(RuntimeError, match="building inside timing"), locks.building():
            pass
        with pytest.raises(RuntimeError, match="timing inside timing"), locks.timing("gpu"):
            pass
    assert is_free(tmp_path, "npu")


def test_an_error_inside_frees_the_lock_and_passes(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path)
    for hold in (locks.timing("npu"), locks.building()):
        with pytest.raises(OSError, match="from inside"), hold:
            raise OSError("from inside")
        assert is_free(tmp_path, "npu")


def test_too_long_a_wait_is_trouble_of_the_machine_and_leaves_the_gate_open(start: Start) -> None:
    start("building").until("held")
    with (
        pytest.raises(InfrastructureError, match=r"waited 0\.1 s for the npu to time on"),
        DeviceLocks(start.folder, timeout_s=0.1).timing("npu"),
    ):
        pass
    assert is_free(start.folder, "building")


@pytest.mark.parametrize("device", ["", "../npu", "NPU", "a/b", "n" * 99])
def test_a_device_is_a_plain_word(tmp_path: Path, device: str) -> None:
    with pytest.raises(ValueError, match="is no device"), DeviceLocks(tmp_path).timing(device):
        pass


def test_a_folder_that_cannot_be_made_is_trouble_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"a file")
    with pytest.raises(InfrastructureError, match="cannot be locked"), DeviceLocks(tmp_path / "taken").building():
        pass


@posix_only
def test_a_lock_file_that_was_removed_locks_nobody_out_and_nobody_in(tmp_path: Path) -> None:
    with DeviceLocks(tmp_path).timing("npu"):
        pass
    with OsLock(tmp_path / "pytest-winml-builds.lock") as stale:
        (tmp_path / "pytest-winml-builds.lock").unlink()
        assert not stale.attempt(exclusive=True), "nobody else would meet this lock"
        assert stale.attempt(exclusive=True), "and now it is a new file's"
        assert not is_free(tmp_path, "npu")
        stale.release()
    assert is_free(tmp_path, "npu")


@posix_only
def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "pytest-winml-gate.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(InfrastructureError, match="cannot be locked"), DeviceLocks(tmp_path).building():
        pass
    assert (tmp_path / "victim").read_bytes() == b"precious"


@posix_only
def test_something_else_in_the_place_of_a_lock_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pytest-winml-gate.lock")
    with pytest.raises(InfrastructureError, match="not a regular file"), DeviceLocks(tmp_path).building():
        pass


@posix_only
def test_lock_files_can_be_read_by_all_users_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with DeviceLocks(tmp_path).timing("npu"):
            pass
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o644"}


ANOTHER_USER = f"""
import os, sys
sys.path[:] = {sys.path!r}
from pathlib import Path
from pytest_winml.execute.os_lock import OsLock
os.setgid(65534)
os.setuid(65534)
lock = OsLock(Path(sys.argv[1]))
print(lock.attempt(exclusive=True), lock.attempt(exclusive=False))
"""


@posix_only
def test_another_users_lock_excludes_as_well() -> None:
    """What root made is locked by somebody who may only read it."""
    if sys.platform != "win32" and os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with DeviceLocks(folder).building():
            command = [sys.executable, "-c", ANOTHER_USER, str(folder / "pytest-winml-builds.lock")]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stdout.split() == ["False", "True"], answer.stderr


def test_the_place_of_the_locks_is_the_machines_and_not_the_jobs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = default_folder()
    for variable in ("TMPDIR", "TMP", "TEMP"):
        monkeypatch.setenv(variable, str(tmp_path))
    assert default_folder() == before
    assert before.is_absolute()


@posix_only
def test_without_a_folder_for_all_the_users_own_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(rwlock, "_SHARED_FOLDERS", (tmp_path,))
    assert default_folder() not in (tmp_path, *rwlock._SHARED_FOLDERS)
    with DeviceLocks().timing("npu"):
        assert default_folder().is_dir()


TIMER = f"""
import sys, time
sys.path[:] = {sys.path!r}
from pathlib import Path
from pytest_winml.execute.rwlock import DeviceLocks
locks = DeviceLocks(Path(sys.argv[1]))
print("timing", flush=True)
while not Path(sys.argv[1], "stop").exists():
    with locks.timing("cpu"):
        time.sleep(0.05)
"""


def test_who_times_one_session_after_the_other_lets_builds_in_between(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", TIMER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as timer:
        try:
            assert timer.stdout is not None
            assert timer.stdout.readline() == "timing\n"
            for _ in range(3):
                with DeviceLocks(tmp_path, timeout_s=30).building():
                    pass
        finally:
            (tmp_path / "stop").touch()

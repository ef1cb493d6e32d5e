from __future__ import annotations

import _thread
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_winml import errors
from pytest_winml.execute import log, wire
from tests.execute.processes import is_gone, wait_until
from tests.execute.services import Payload, Text
from tests.platforms import wine_breaks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.execute.conftest import StartWorker

LONG_S = 60.0


class TestDeath:
    def test_an_invalid_access_is_named(self, start: StartWorker) -> None:
        worker = start("Crashing")
        name = "STATUS_ACCESS_VIOLATION" if sys.platform == "win32" else "SIGSEGV"
        with pytest.raises(errors.WorkerCrashed, match=f"died in read_null without an answer: .*{name}"):
            worker.call("read_null", None, type(None), timeout_s=LONG_S)
        assert "in read_null" in log.read_slice(worker.log_path, 0), "faulthandler says where"
        assert not worker.alive

    def test_an_abort_leaves_its_last_words(self, start: StartWorker) -> None:
        with pytest.raises(errors.WorkerCrashed, match="died in abort") as caught:
            start("Crashing").call("abort", None, type(None), timeout_s=LONG_S)
        assert "terminate called after throwing" in (caught.value.log_tail or "")

    @pytest.mark.parametrize(("method", "code"), [("leave", 0), ("stop_python", 7)])
    def test_leaving_without_an_answer_is_a_crash_even_with_code_0(
        self, start: StartWorker, method: str, code: int
    ) -> None:
        worker = start("Crashing")
        with pytest.raises(errors.WorkerCrashed, match=f"died in {method} without an answer: exit code {code}"):
            worker.call(method, None, type(None), timeout_s=LONG_S)
        assert not worker.alive

    def test_a_kill_from_outside_is_noticed_at_once(self, start: StartWorker) -> None:
        worker = start("Hanging")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        threading.Timer(0.3, psutil.Process(worker.pid).kill).start()
        began = time.monotonic()
        with pytest.raises(errors.WorkerCrashed, match="died in hang"):
            worker.call("hang", None, type(None), timeout_s=LONG_S)
        assert time.monotonic() - began < 5

    def test_a_death_between_two_calls_is_told_as_such(self, start: StartWorker) -> None:
        worker = start("Obedient")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        psutil.Process(worker.pid).kill()
        wait_until(lambda: not worker.alive)
        with pytest.raises(errors.WorkerCrashed, match="died before echo"):
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)

    def test_a_crash_leaves_no_grandchild_behind(self, start: StartWorker) -> None:
        worker = start("Crashing")
        grandchild = worker.call("start_grandchild", None, int, timeout_s=LONG_S)
        assert not is_gone(grandchild)
        with pytest.raises(errors.WorkerCrashed):
            worker.call("read_null", None, type(None), timeout_s=LONG_S)
        wait_until(lambda: is_gone(grandchild))


class TestTimeLimit:
    def test_a_hang_is_killed_at_the_limit_with_its_grandchildren(self, start: StartWorker) -> None:
        worker = start("Hanging")
        near = worker.call("start_grandchild", None, int, timeout_s=LONG_S)
        far = worker.call("start_detached_grandchild", None, int, timeout_s=LONG_S)
        assert not is_gone(near)
        assert not is_gone(far)
        began = time.monotonic()
        with pytest.raises(errors.WorkerTimedOut, match=r"did not answer hang within 0\.70 s"):
            worker.call("hang", None, type(None), timeout_s=0.7)
        assert 0.7 <= time.monotonic() - began < 4
        assert not worker.alive
        assert [pid for pid in (worker.pid, near, far) if not is_gone(pid)] == []

    def test_the_log_tail_tells_what_it_was_doing(self, start: StartWorker) -> None:
        worker = start("Hanging")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        with pytest.raises(errors.WorkerTimedOut) as caught:
            worker.call("hang", None, type(None), timeout_s=0.5)
        assert caught.value.log_tail == "about to hang"
        assert "time limit" in (caught.value.remedy or "")

    def test_deaf_to_signals_is_killed_too(self, start: StartWorker) -> None:
        worker = start("Hanging")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        with pytest.raises(errors.WorkerTimedOut):
            worker.call("ignore_everything", None, type(None), timeout_s=0.3)
        assert is_gone(worker.pid)

    def test_a_child_that_does_not_read_cannot_stop_the_parents_clock(self, start: StartWorker) -> None:
        worker = start("Obedient")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        psutil.Process(worker.pid).suspend()
        with pytest.raises(errors.WorkerTimedOut):
            worker.call("reverse", Payload(bytes(20_000_000)), Payload, timeout_s=0.5)
        assert is_gone(worker.pid)

    def test_an_interrupt_kills_the_worker_and_goes_on(self, start: StartWorker) -> None:
        worker = start("Hanging")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        threading.Timer(0.3, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            worker.call("hang", None, type(None), timeout_s=10)
        assert not worker.alive
        assert is_gone(worker.pid)


class TestNoise:
    def test_a_modest_flood_goes_to_the_log_and_harms_nobody(self, start: StartWorker) -> None:
        worker = start("Noisy")
        assert worker.call("flood", Payload(b"x" * 999 + b"\n"), str, timeout_s=LONG_S) == "done"
        assert log.current_offset(worker.log_path) == 5_000_000
        assert worker.alive

    def test_a_flood_without_end_is_stopped_at_the_limit(self, start: StartWorker) -> None:
        worker = start("Noisy", log_limit_bytes=3_000_000)
        with pytest.raises(
            errors.WorkerFlooded, match=r"in flood_for_ever and was killed; the limit is 3\.0 MB"
        ) as caught:
            worker.call("flood_for_ever", None, type(None), timeout_s=LONG_S)
        assert "all work and no play" in (caught.value.log_tail or "")
        assert is_gone(worker.pid)

    def test_a_flood_counts_even_if_the_call_is_quick(self, start: StartWorker) -> None:
        worker = start("Noisy", log_limit_bytes=5_000)
        with pytest.raises(errors.WorkerFlooded):
            worker.call("flood", Payload(b"xy"), str, timeout_s=LONG_S)

    def test_garbage_on_the_standard_streams_does_not_disturb(self, start: StartWorker) -> None:
        worker = start("Noisy")
        for number in range(3):
            assert worker.call("garbage", Text(f"{number}"), Text, timeout_s=LONG_S) == Text(f"{number}")
        assert "\\ud83d not text" in log.tail(worker.log_path)

    @pytest.mark.parametrize("data", [b"some words", b"\x00" * 20, b"WML\x01\x00\x00\x00\x02\xc1\xc1"])
    def test_garbage_on_every_descriptor_breaks_the_protocol(self, start: StartWorker, data: bytes) -> None:
        worker = start("Noisy")
        with pytest.raises(errors.WorkerGarbled, match="broke the protocol in write_everywhere"):
            worker.call("write_everywhere", Payload(bytes(data)), type(None), timeout_s=LONG_S)
        assert is_gone(worker.pid)

    @wine_breaks("its console host holds the pipes of a child without a window")
    def test_a_closed_channel_without_a_death_breaks_the_protocol(
        self, start: StartWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pytest_winml.execute.worker._GOING_S", 0.3)
        worker = start("Noisy")
        with pytest.raises(errors.WorkerGarbled, match="it closed the channel and went on running"):
            worker.call("close_everything", None, type(None), timeout_s=5)
        assert is_gone(worker.pid)

    def test_an_answer_of_another_type_breaks_the_protocol(self, start: StartWorker) -> None:
        worker = start("Failing")
        with pytest.raises(errors.WorkerGarbled, match="its answer is not int"):
            worker.call("another_type", None, int, timeout_s=LONG_S)
        assert not worker.alive

    def test_an_answer_to_another_question_breaks_the_protocol(self, start: StartWorker) -> None:
        worker = start("Noisy")
        payload = wire.encode(wire.Answer(99, wire.raw(None)))
        data = b"WML\x01" + len(payload).to_bytes(4, "big") + payload
        with pytest.raises(errors.WorkerGarbled, match="answered request 99 instead of 1"):
            worker.call("write_everywhere", Payload(data), type(None), timeout_s=LONG_S)


class TestEnd:
    def test_closing_lets_the_service_finish_and_removes_nothing(self, start: StartWorker, tmp_path: Path) -> None:
        worker = start("Closing", directory=tmp_path / "w")
        worker.call("print_and_read_back", Text("kept"), str, timeout_s=LONG_S)
        worker.close()
        worker.close()
        assert (tmp_path / "w" / "closed").read_text(encoding="utf-8") == "in order"
        assert log.tail(worker.log_path) == "kept"
        assert not worker.alive
        assert is_gone(worker.pid)
        with pytest.raises(errors.WorkerError, match="cannot run echo: it was closed"):
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)

    def test_closing_leaves_no_grandchild_behind(self, start: StartWorker) -> None:
        worker = start("Obedient")
        grandchild = worker.call("start_grandchild", None, int, timeout_s=LONG_S)
        worker.close()
        wait_until(lambda: is_gone(grandchild))

    def test_a_service_that_does_not_finish_is_killed(
        self, start: StartWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pytest_winml.execute.worker._POLITE_S", 0.3)
        worker = start("ClosingForEver")
        worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        began = time.monotonic()
        worker.close()
        assert 0.3 <= time.monotonic() - began < 3
        assert is_gone(worker.pid)

    def test_closing_does_not_wait_for_a_call_in_another_thread(self, start: StartWorker) -> None:
        worker = start("Hanging")
        with ThreadPoolExecutor(1) as threads:
            hanging = threads.submit(worker.call, "hang", None, type(None), timeout_s=LONG_S)
            wait_until(lambda: "about to hang" in log.tail(worker.log_path))
            began = time.monotonic()
            worker.close()
            assert time.monotonic() - began < 3
            with pytest.raises(errors.WorkerError, match="cannot finish hang: it was closed"):
                hanging.result(timeout=5)

    def test_when_the_parent_dies_the_child_and_its_children_go_too(self, tmp_path: Path) -> None:
        code = (
            f"import json, sys; sys.path[:] = json.loads({json.dumps(sys.path)!r})\n"
            "from pathlib import Path\n"
            "from pytest_winml.execute.worker import Worker\n"
            "service = 'tests.execute.services:Hanging'\n"
            "worker = Worker(service, directory=Path(sys.argv[1]), allowed_prefixes=('tests.',))\n"
            "grandchild = worker.call('start_grandchild', None, int, timeout_s=60)\n"
            "print(worker.pid, grandchild, flush=True)\n"
            "worker.call('hang', None, type(None), timeout_s=60)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            child, grandchild = map(int, parent.stdout.readline().split())
            wait_until(lambda: "about to hang" in log.tail(tmp_path / "worker.log"))
            alive = not is_gone(child) and not is_gone(grandchild)
            parent.kill()
        assert alive
        wait_until(lambda: is_gone(child) and is_gone(grandchild))

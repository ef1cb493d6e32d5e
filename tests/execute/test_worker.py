from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_winml import errors
from pytest_winml.execute import wire
from pytest_winml.execute.worker import Worker
from tests.execute.services import Payload, Place, Text

if TYPE_CHECKING:
    from tests.execute.conftest import StartWorker

LONG_S = 60.0


class TestAnswers:
    def test_a_value_goes_there_and_back(self, start: StartWorker) -> None:
        worker = start("Obedient")
        assert worker.call("echo", Text("grüße"), Text, timeout_s=LONG_S) == Text("grüße")
        assert worker.call("nothing", None, type(None), timeout_s=LONG_S) is None
        assert worker.call("pid", None, int, timeout_s=LONG_S) == worker.pid != os.getpid()
        assert worker.alive

    def test_twenty_megabytes_go_there_and_back(self, start: StartWorker) -> None:
        data = os.urandom(1000) * 20_000
        answer = start("Obedient").call("reverse", Payload(data), Payload, timeout_s=LONG_S)
        assert answer.data == data[::-1]

    def test_calls_of_several_threads_wait_for_each_other(self, start: StartWorker) -> None:
        worker = start("Obedient")
        texts = [Text(str(number)) for number in range(40)]
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda text: worker.call("echo", text, Text, timeout_s=LONG_S), texts))
        assert answers == texts

    def test_only_the_type_of_the_argument_must_exist_at_run_time(self, start: StartWorker) -> None:
        assert start("Obedient").call("annotated_for_readers", Text("x"), type(None), timeout_s=LONG_S) is None

    def test_an_argument_that_cannot_be_sent_leaves_the_worker_alive(
        self, start: StartWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = start("Obedient")
        with monkeypatch.context() as patch:
            patch.setattr(wire, "MAX_FRAME_BYTES", 500)
            with pytest.raises(errors.WorkerError, match="over the maximum of 500"):
                worker.call("reverse", Payload(bytes(1000)), Payload, timeout_s=LONG_S)
        assert worker.call("echo", Text("still"), Text, timeout_s=LONG_S) == Text("still")


class TestSurroundings:
    def test_each_worker_works_in_its_own_directory(self, start: StartWorker) -> None:
        places = [start("Obedient").call("place", None, Place, timeout_s=LONG_S) for _ in range(2)]
        assert places[0].cwd != places[1].cwd
        for place in places:
            assert Path(place.cwd) == Path(place.directory)
            assert Path(place.log_path) == Path(place.cwd) / "worker.log"

    def test_files_in_the_directory_do_not_shadow_imports(
        self, start: StartWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory = tmp_path / "planted"
        directory.mkdir()
        for module in ("json", "msgspec", "queue", "sitecustomize"):
            (directory / f"{module}.py").write_text(
                "raise SystemExit('imported from the directory')\n", encoding="utf-8"
            )
        # An empty entry means the current directory, which must stay that of the parent.
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.environ.get("PYTHONPATH", "")]))
        place = start("Obedient", directory=directory).call("place", None, Place, timeout_s=LONG_S)
        assert not [module for module in place.modules if Path(module).is_relative_to(directory)]

    def test_standard_input_is_empty(self, start: StartWorker) -> None:
        assert start("Obedient").call("standard_input", None, bytes, timeout_s=LONG_S) == b""

    def test_the_environment_is_the_parents_and_what_is_added(self, start: StartWorker) -> None:
        worker = start("Obedient", environment={"WINML_TEST_EXTRA": "1"})
        variables = worker.call("inherited_variables", None, dict[str, str], timeout_s=LONG_S)
        assert variables["WINML_TEST_EXTRA"] == "1"
        assert "PYTEST_WINML_WORKER_PATH" not in variables
        assert {name.upper() for name in os.environ} <= {name.upper() for name in variables}

    def test_a_service_reads_its_own_log(self, start: StartWorker) -> None:
        worker = start("Obedient")
        worker.call("print_and_read_back", Text("first"), str, timeout_s=LONG_S)
        assert worker.call("print_and_read_back", Text("größer → ✓"), str, timeout_s=LONG_S) == "größer → ✓\n"

    def test_the_parents_side_is_light_to_import(self) -> None:
        code = (
            f"import json, sys; sys.path[:] = json.loads({json.dumps(sys.path)!r}); before = set(sys.modules); "
            "import pytest_winml.execute.pool; "
            "print(sorted({'psutil', 'ctypes', 'numpy', 'pytest', 'onnx'} & (set(sys.modules) - before)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestErrorsOfTheService:
    def test_an_error_of_ours_crosses_with_its_class(self, start: StartWorker) -> None:
        worker = start("Failing")
        with pytest.raises(errors.BuildError) as caught:
            worker.call("build", None, type(None), timeout_s=LONG_S)
        error = caught.value
        assert type(error) is errors.BuildError
        assert (error.message, error.remedy, error.log_tail) == ("the stage failed", "take another", "line 1\nline 2")
        assert worker.call("echo", Text("alive"), Text, timeout_s=LONG_S) == Text("alive")

    def test_a_class_that_only_the_child_knows_becomes_its_nearest_base(self, start: StartWorker) -> None:
        with pytest.raises(errors.TargetAbsent, match="no device") as caught:
            start("Failing").call("unknown_class", None, type(None), timeout_s=LONG_S)
        assert type(caught.value) is errors.TargetAbsent

    def test_any_other_error_is_told_with_its_traceback_and_the_log_before_it(self, start: StartWorker) -> None:
        worker = start("Failing")
        with pytest.raises(errors.WorkerError, match=r"foreign of .*: ZeroDivisionError: \\udcff by") as caught:
            worker.call("foreign", Text("by password=x"), type(None), timeout_s=LONG_S)
        assert type(caught.value) is errors.WorkerError
        assert caught.value.log_tail is not None
        assert caught.value.log_tail.startswith("native words\nTraceback (most recent call last):")
        assert "services.py" in caught.value.log_tail
        assert "password=x" not in str(caught.value)
        assert worker.alive

    def test_the_log_of_an_earlier_call_is_not_blamed_on_this_one(self, start: StartWorker) -> None:
        worker = start("Failing")
        for text in ("one", "two"):
            with pytest.raises(errors.WorkerError) as caught:
                worker.call("foreign", Text(text), type(None), timeout_s=LONG_S)
        assert str(caught.value).count("native words") == 1

    def test_only_public_methods_can_be_called(self, start: StartWorker) -> None:
        worker = start("Obedient")
        for name in ("no_such", "_hidden", "__init__", "_directory", ""):
            with pytest.raises(errors.WorkerError, match=f"has no method '{name}'"):
                worker.call(name, None, int, timeout_s=LONG_S)
        assert worker.alive

    def test_arguments_must_fit_the_method(self, start: StartWorker) -> None:
        worker = start("Obedient")
        with pytest.raises(errors.WorkerError, match="takes no argument"):
            worker.call("nothing", Text("x"), type(None), timeout_s=LONG_S)
        with pytest.raises(errors.WorkerError, match="takes 2 arguments"):
            worker.call("two", Text("x"), type(None), timeout_s=LONG_S)
        with pytest.raises(errors.WorkerError, match="ValidationError"):
            worker.call("echo", Payload(b"x"), Text, timeout_s=LONG_S)
        assert worker.alive

    def test_a_result_that_cannot_be_sent_is_an_error_not_a_death(self, start: StartWorker) -> None:
        worker = start("Failing")
        with pytest.raises(errors.WorkerError, match=r"unencodable of .*TypeError"):
            worker.call("unencodable", None, int, timeout_s=LONG_S)
        with pytest.raises(errors.WorkerError, match=r"cannot be sent: .* over the maximum of 500"):
            worker.call("too_large", None, bytes, timeout_s=LONG_S)
        assert worker.alive


class TestStart:
    def test_a_service_outside_of_the_package_is_refused(self, tmp_path: Path) -> None:
        worker = Worker("tests.execute.services:Obedient", directory=tmp_path)
        with pytest.raises(errors.WorkerError, match=r"is outside of pytest_winml\."):
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        assert not worker.alive
        worker.close()

    @pytest.mark.parametrize(("service", "reason"), [("Missing", "AttributeError"), ("", "AttributeError")])
    def test_a_service_that_is_not_there_is_told(self, start: StartWorker, service: str, reason: str) -> None:
        with pytest.raises(errors.WorkerError, match=f"did not start: {reason}"):
            start(service).call("echo", Text("x"), Text, timeout_s=LONG_S)

    def test_a_module_that_cannot_be_imported_is_told_with_its_traceback(self, tmp_path: Path) -> None:
        worker = Worker("pytest_winml.no_such_module:X", directory=tmp_path)
        with pytest.raises(errors.WorkerError, match="did not start: ModuleNotFoundError") as caught:
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        assert "Traceback" in (caught.value.log_tail or "")
        assert not worker.alive
        worker.close()

    def test_an_error_of_ours_in_the_constructor_keeps_its_class(self, start: StartWorker) -> None:
        worker = start("Unwilling")
        with pytest.raises(errors.TargetAbsent, match="no such device"):
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        with pytest.raises(errors.WorkerError, match="cannot run echo"):
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)

    def test_a_death_in_the_constructor_is_a_crash(self, start: StartWorker) -> None:
        with pytest.raises(errors.WorkerCrashed, match=r"while it started for echo .*: exit code 3") as caught:
            start("CrashingStart").call("echo", Text("x"), Text, timeout_s=LONG_S)
        assert caught.value.log_tail == "loading the library"

    def test_a_start_without_end_is_within_the_limit_of_the_first_call(self, start: StartWorker) -> None:
        with pytest.raises(errors.WorkerTimedOut, match=r"did not finish its start for echo within 0\.80 s"):
            start("SlowStart").call("echo", Text("x"), Text, timeout_s=0.8)

    def test_an_interpreter_that_cannot_start_is_told_with_its_words(
        self, start: StartWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "path", [])
        with pytest.raises(errors.WorkerCrashed, match="exit code 1") as caught:
            start("Obedient").call("echo", Text("x"), Text, timeout_s=LONG_S)
        assert "ModuleNotFoundError" in (caught.value.log_tail or "")

    def test_a_python_that_is_not_there_is_no_verdict_about_a_model(self, tmp_path: Path) -> None:
        with pytest.raises(errors.InfrastructureError, match=r"no worker for pytest_winml\.x:X"):
            Worker("pytest_winml.x:X", directory=tmp_path, python=str(tmp_path / "no-python"))

    @pytest.mark.skipif(bool(sys.flags.ignore_environment), reason="this interpreter reads no PYTHONPATH")
    def test_what_a_sitecustomize_prints_does_not_disturb(self, start: StartWorker, tmp_path: Path) -> None:
        code = "import os; os.write(1, b'WML' * 1000); print('hello')\n"
        (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
        worker = start("Obedient", environment={"PYTHONPATH": str(tmp_path)})
        assert worker.call("echo", Text("x"), Text, timeout_s=LONG_S) == Text("x")

    @pytest.mark.skipif(bool(sys.flags.ignore_environment), reason="this interpreter reads no PYTHONPATH")
    def test_a_start_that_prints_without_end_is_garbled(self, start: StartWorker, tmp_path: Path) -> None:
        code = "import os\nwhile True: os.write(1, b'noise ' * 1000)\n"
        (tmp_path / "sitecustomize.py").write_text(code, encoding="utf-8")
        worker = start("Obedient", environment={"PYTHONPATH": str(tmp_path)})
        with pytest.raises(errors.WorkerGarbled, match="before the preamble") as caught:
            worker.call("echo", Text("x"), Text, timeout_s=LONG_S)
        assert "noise noise" in (caught.value.log_tail or "")

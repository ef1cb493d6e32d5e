"""Whatever keeps a session off its target is an error or a reported fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_winml.data.digits import model_path
from pytest_winml.errors import ModelError, RunFailed, SessionError, TargetBroken, UsageProblem
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.records.target import Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_runtime
W8A16 = model_path("digits-cnn", "w8a16")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[WorkerPool]:
    with WorkerPool(tmp_path / "workers") as pool:
        yield pool


@needs_qnn
def test_a_wrong_backend_path_is_an_error_with_the_loaders_words(machine: Machine) -> None:
    target = Target("qnn:npu", options={"backend_path": "no_such_backend_library"})
    with pytest.raises(TargetBroken, match="QNN backend no_such_backend_library did not load") as caught:
        machine.open(target, W8A16)
    assert "Unable to load backend" in str(caught.value.log_tail)


@needs_qnn
def test_a_backend_that_cannot_start_is_an_error(machine: Machine, tmp_path: Path) -> None:
    broken = tmp_path / "broken_backend.so"
    broken.write_bytes(b"this is no library")
    with pytest.raises(TargetBroken, match="did not load"):
        machine.open(Target("qnn:npu", options={"backend_path": str(broken)}), W8A16)


@needs_qnn
def test_an_ep_that_cannot_be_created_is_an_error_and_not_the_cpu(machine: Machine) -> None:
    """ORT's Python layer would answer a RuntimeError of the EP's factory with a CPU session."""
    both = Target("qnn:npu", options={"backend_path": "one_too_many"}, unchecked_options={"backend_type": "htp"})
    with pytest.raises(TargetBroken, match="is there but opens no session"):
        machine.open(both, W8A16)


@needs_qnn
def test_an_unknown_option_is_refused_before_opening(machine: Machine) -> None:
    with pytest.raises(UsageProblem, match="htp_performance_mod") as caught:
        machine.open(Target("qnn:npu", options={"htp_performance_mod": "burst"}), W8A16)
    assert "htp_performance_mode" in str(caught.value.remedy)


@needs_qnn
def test_an_unchecked_option_is_passed_as_it_is(machine: Machine) -> None:
    with machine.open(Target("qnn:npu", unchecked_options={"of_next_year": "1"}), W8A16) as session:
        assert session.options["of_next_year"] == "1"


@needs_qnn
def test_each_session_has_a_trace_folder_of_its_own(machine: Machine) -> None:
    with machine.open(Target("qnn:npu"), W8A16) as one, machine.open(Target("qnn:npu"), W8A16) as two:
        assert one.options["framework_op_trace_dir"] != two.options["framework_op_trace_dir"]
        assert "disable_cpu_ep_fallback" not in str(one.options)


@needs_qnn
def test_two_socs_live_side_by_side_in_processes_of_their_own(machine: Machine) -> None:
    elite, phone = Target("qnn:npu"), Target("qnn:npu", soc="sm8650")
    feeds = {"image": np.zeros((1, 1, 8, 8), np.float32)}
    with machine.open(elite, W8A16) as first:
        before = first.run(feeds)["logits"]
        with machine.open(phone, W8A16) as second:
            assert second._worker.pid != first._worker.pid
            second.run(feeds)
        assert (first.run(feeds)["logits"] == before).all()


@needs_qnn
def test_a_library_that_does_not_register_is_broken_and_tried_again(fresh: WorkerPool, tmp_path: Path) -> None:
    library = tmp_path / "ep.so"
    library.write_bytes(b"not a library")
    machine = Machine(fresh, ProviderSettings(ep_libraries={"qnn": str(library)}), timeout_s=60)
    first = machine.availability(Target("qnn:npu"))
    assert (first.mode, "not a library for this architecture" in first.reason) == ("broken", True)
    library.unlink()
    assert "does not exist" in machine.availability(Target("qnn:npu")).reason


def test_a_session_that_is_closed_says_so(machine: Machine) -> None:
    session = machine.open(Target("cpu"), model_path("digits-cnn", "fp32"))
    session.close()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        session.run({})


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({}, "image"),
        ({"image": np.zeros((1, 1, 9, 9), np.float32)}, "Got: 9 Expected: 8"),
        ({"image": np.zeros((1, 1, 8, 8), np.float64)}, "double"),
        ({"picture": np.zeros((1, 1, 8, 8), np.float32)}, "picture"),
    ],
)
def test_wrong_feeds_fail_one_run_and_the_session_lives_on(
    machine: Machine, feeds: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]], said: str
) -> None:
    with machine.open(Target("cpu"), model_path("digits-cnn", "fp32")) as session:
        with pytest.raises(RunFailed, match=said):
            session.run(feeds)
        good = session.run({"image": np.zeros((1, 1, 8, 8), np.float32)})
    assert good["logits"].shape == (1, 10)


@pytest.mark.parametrize("content", [b"", b"\x08\x07garbage", b"\xff" * 64], ids=["empty", "garbage", "not protobuf"])
def test_a_file_that_is_no_model_is_a_model_error_that_names_it(
    machine: Machine, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.onnx"):
        machine.open(Target("cpu"), path)


def test_a_bare_npu_never_resolves_to_the_cpu(machine: Machine) -> None:
    answer = machine.availability(Target("npu"))
    assert answer.resolved in ("qnn:npu", "openvino:npu", "vitisai:npu", None)
    assert answer.usable == (answer.resolved is not None)


def test_an_absent_target_says_what_would_make_it_run(machine: Machine) -> None:
    answer = machine.availability(Target("vitisai:npu"))
    assert answer.mode == "absent"
    assert "VitisAIExecutionProvider" in answer.reason
    assert answer.remedy

"""Timed sessions in processes of their own. No time is judged here, but where it is another order of magnitude."""

from __future__ import annotations

import sys
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import psutil
import pytest

from pytest_winml.data.digits import model_path
from pytest_winml.errors import (
    MeasurementError,
    ModelError,
    NotOnTarget,
    RunFailed,
    WorkerCrashed,
    WorkerError,
    WorkerTimedOut,
)
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.records.target import Target
from pytest_winml.session import timing_service
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.session.opening import open_session
from pytest_winml.session.process import ProcessProviders
from pytest_winml.session.tensors import to_message
from pytest_winml.session.timed import can_share_a_process, run_timed_session
from pytest_winml.session.timing_conditions import Scheduling
from pytest_winml.session.timing_messages import TimedArm, TimedRequest, TimedSession, WarmUp
from pytest_winml.session.timing_service import TimingService
from tests.platforms import needs_qnn, needs_runtime, under_wine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_runtime

SETTINGS = ProviderSettings(offline=True)
BRIEF = WarmUp(min_iterations=4, min_s=0.0, max_s=0.5, window=2)
TIMEOUT_S = 120


def arm(name: str, precision: str = "fp32", target: str = "cpu", shape: tuple[int, ...] = (1, 1, 8, 8)) -> TimedArm:
    return TimedArm(
        name=name,
        target=Target(target),
        model_path=str(model_path("digits-cnn", precision)),
        feeds={"image": to_message("image", np.zeros(shape, np.float32))},
    )


def request(*blocks: tuple[str, int], arms: tuple[TimedArm, ...] = (), **fields: Any) -> TimedRequest:
    arms = arms or tuple(arm(name) for name in dict.fromkeys(name for name, _ in blocks))
    return TimedRequest(settings=SETTINGS, arms=arms, blocks=blocks, warm_up=BRIEF, **fields)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    with WorkerPool(tmp_path / "workers") as pool:
        yield pool


def timed(pool: WorkerPool, asked: TimedRequest) -> TimedSession:
    session = run_timed_session(pool, asked, TIMEOUT_S)
    assert not pool._workers
    return session


def test_blocks_come_back_in_the_planned_order_with_the_planned_sizes(pool: WorkerPool) -> None:
    planned = (("A", 5), ("B", 3), ("B", 4), ("A", 1))
    session = timed(pool, request(*planned, arms=(arm("B", "w8a8"), arm("A"))))
    assert session.block_sizes == planned
    assert min(time for block in session.blocks for time in block.times_ns) > 0
    assert [load.name for load in session.arms] == ["B", "A"]


def test_an_arm_tells_how_it_came_up(pool: WorkerPool) -> None:
    session = timed(pool, request(("A", 3)))
    (load,) = session.arms
    assert load.placement.on_target
    assert not load.placement.emulated
    assert min(load.create_ns, load.first_run_ns, load.warm_up_ns) > 0
    assert load.warm_up_iterations >= 1
    assert load.warm_up_median_ns > 0
    assert (load.load_memory_bytes or 0) < (load.peak_memory_bytes or 0)
    assert load.threads is not None


def test_the_worker_is_quiet_while_it_times(pool: WorkerPool) -> None:
    conditions = timed(pool, request(("A", 3))).conditions
    assert conditions.gc_disabled
    assert conditions.python_threads == 2  # the one that times, and the one that waits for the parent to speak
    assert conditions.power_before == conditions.power_after
    if sys.platform == "win32":
        assert conditions.priority == "high"
        assert conditions.eco_qos_off or under_wine()
    else:
        assert (conditions.priority, conditions.eco_qos_off) == (None, None)


def test_arms_that_share_a_process_have_no_peak_of_their_own(pool: WorkerPool) -> None:
    session = timed(pool, request(("A", 1), ("B", 1)))
    assert [load.peak_memory_bytes for load in session.arms] == [None, None]


def test_open_blocks_are_sized_alike_for_both_arms_and_planned_ones_kept(pool: WorkerPool) -> None:
    session = timed(pool, request(("A", 0), ("B", 0), ("B", 2), ("A", 0), block_ns=2_000_000, max_block_iterations=40))
    sizes = [size for _, size in session.block_sizes]
    assert sizes[0] == sizes[1] == sizes[3]
    assert 10 <= sizes[0] <= 40
    assert sizes[2] == 2


def test_a_slowed_arm_is_slower(pool: WorkerPool) -> None:
    planned = (("A", 30), ("B", 30), ("B", 30), ("A", 30))
    session = timed(pool, request(*planned, slow_down={"B": 5.0}))
    of = {name: [t for block in session.blocks if block.arm == name for t in block.times_ns] for name in "AB"}
    assert median(of["B"]) > 2 * median(of["A"])


def test_every_session_has_a_fresh_process_and_leaves_none(pool: WorkerPool, tmp_path: Path) -> None:
    children = set(psutil.Process().children())
    for _ in range(2):
        timed(pool, request(("A", 1)))
    assert len(list((tmp_path / "workers").iterdir())) == 2
    assert {child for child in set(psutil.Process().children()) - children if child.is_running()} == set()


@needs_qnn
def test_an_emulated_target_refuses(pool: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="an emulated run can never produce a latency"):
        timed(pool, request(("A", 1), arms=(arm("A", "w8a16", "qnn:npu"),)))
    assert not list(tmp_path.rglob("arm-*"))  # nothing was opened


def test_arms_that_need_two_sets_of_options_do_not_share_a_process(pool: WorkerPool) -> None:
    elite, phone = Target("qnn:npu"), Target("qnn:npu", soc="sm8650")
    assert not can_share_a_process((elite, phone), SETTINGS)
    assert can_share_a_process((elite, elite), SETTINGS)
    arms = (msgspec.structs.replace(arm("A"), target=elite), msgspec.structs.replace(arm("B"), target=phone))
    with pytest.raises(MeasurementError, match="cannot be timed in one process"):
        timed(pool, request(("A", 1), ("B", 1), arms=arms))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingService:
    """The service in this process, whose priority stays as it is."""
    monkeypatch.setattr(timing_service, "schedule_for_timing", Scheduling)
    return TimingService(tmp_path, tmp_path / "worker.log")


def test_a_session_with_nothing_on_its_target_is_not_timed(
    here: TimingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_elsewhere(*arguments: Any, **options: Any) -> Any:
        opened = open_session(*arguments, **options)
        return msgspec.structs.replace(opened, placement=msgspec.structs.replace(opened.placement, target_nodes=()))

    monkeypatch.setattr(timing_service, "open_session", open_elsewhere)
    with pytest.raises(NotOnTarget, match="cpu took none"):
        here.measure(request(("A", 1)))


def test_a_profiled_target_is_not_timed(here: TimingService, monkeypatch: pytest.MonkeyPatch) -> None:
    bind = ProcessProviders.bind

    def bind_profiled(self: ProcessProviders, target: Target) -> Any:
        binding, device = bind(self, target)
        return msgspec.structs.replace(binding, options={"profiling_level": "detailed"}), device

    monkeypatch.setattr(ProcessProviders, "bind", bind_profiled)
    with pytest.raises(MeasurementError, match="profiling_level=detailed would time the profiler too"):
        here.measure(request(("A", 1)))


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({}, "image"),
        ({"image": np.zeros((1, 1, 9, 9), np.float32)}, "Got: 9 Expected: 8"),
        ({"image": np.zeros((1, 1, 8, 8), np.float64)}, "double"),
        ({"picture": np.zeros((1, 1, 8, 8), np.float32)}, "picture"),
    ],
    ids=["none", "shape", "dtype", "name"],
)
def test_an_inference_that_fails_names_its_arm(
    here: TimingService, feeds: dict[str, np.ndarray[Any, Any]], said: str
) -> None:
    wrong = msgspec.structs.replace(arm("B"), feeds={name: to_message(name, one) for name, one in feeds.items()})
    with pytest.raises(RunFailed, match="arm B cannot be timed, an inference failed") as caught:
        here.measure(request(("A", 1), ("B", 1), arms=(arm("A"), wrong)))
    assert said in caught.value.message


def test_a_missing_model_is_the_models_error(pool: WorkerPool, tmp_path: Path) -> None:
    gone = msgspec.structs.replace(arm("A"), model_path=str(tmp_path / "gone.onnx"))
    with pytest.raises(ModelError, match=r"gone\.onnx"):
        timed(pool, request(("A", 1), arms=(gone,)))


def test_a_killed_worker_is_a_crash_that_names_the_arms(pool: WorkerPool) -> None:
    killer = threading.Thread(target=_kill_the_worker, args=(pool,))
    killer.start()
    with pytest.raises(WorkerCrashed, match=r"timing arm A \(.*onnx on cpu\) and arm B .* died") as caught:
        run_timed_session(pool, request(("A", 1), ("B", 1), cool_down_s=60.0), TIMEOUT_S)
    killer.join()
    assert isinstance(caught.value.__cause__, WorkerCrashed)
    assert not pool._workers


def test_a_session_that_takes_too_long_names_the_arms(pool: WorkerPool) -> None:
    with pytest.raises(WorkerTimedOut, match="timing arm A") as caught:
        run_timed_session(pool, request(("A", 1), cool_down_s=60.0), 2.0)
    assert "raise the time limit" in str(caught.value.remedy)
    assert not pool._workers


def _kill_the_worker(pool: WorkerPool) -> None:
    while not (workers := list(pool._workers.values())) or not workers[0]._started:
        time.sleep(0.01)
    psutil.Process(workers[0].pid).kill()


@pytest.mark.parametrize(
    ("blocks", "fields", "said"),
    [
        ((), {"arms": (arm("A"),)}, "at least one arm and one block"),
        ((("A", 1),), {"arms": (arm("A"), arm("A"))}, "have one name"),
        ((("A", 1), ("C", 1)), {"arms": (arm("A"),)}, "no arm 'C'"),
        ((("A", 1),), {"slow_down": {"B": 0.1}}, "no arm 'B'"),
        ((("A", 1),), {"slow_down": {"A": -0.1}}, "slow_down is a share"),
        ((("A", 1),), {"slow_down": {"A": float("nan")}}, "slow_down is a share"),
        ((("A", 0),), {}, "a block_ns to size it by"),
        ((("A", -1),), {"block_ns": 1000}, "a block has iterations"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(
    blocks: tuple[tuple[str, int], ...], fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(MeasurementError, match=said):
        request(*blocks, **fields)


def test_messages_travel_unchanged(pool: WorkerPool) -> None:
    asked = request(("A", 0), block_ns=1000, slow_down={"A": 0.1})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=TimedRequest) == asked
    answer = timed(pool, request(("A", 2)))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=TimedSession) == answer


def test_a_foreign_failure_of_the_worker_is_a_worker_error_that_names_the_arms(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_winml.session.timed.SERVICE", "pytest_winml.session.timing_service:NoSuchService")
    with pytest.raises(WorkerError, match=r"timing arm A .*NoSuchService"):
        timed(pool, request(("A", 1)))
    assert not pool._workers

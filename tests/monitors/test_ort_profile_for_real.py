"""ORT's profile of real sessions: the CPU EP, the HTP emulator, and OpenVINO where the classic wheel is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_winml.data.digits import model_path
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.graph.reading import load_structure, read_io
from pytest_winml.monitors.combined import Monitors
from pytest_winml.monitors.hardware import HardwareMonitor
from pytest_winml.monitors.openvino import OpenVinoMonitor
from pytest_winml.monitors.ort_profile import OrtProfileMonitor
from pytest_winml.records.target import EP_BY_NAME, Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.session.window import Windows
from tests.models import conv_relu_matmul, only, save
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_winml.records.trace import OpTrace
    from pytest_winml.session.monitoring import Monitor

pytestmark = needs_runtime
CPU, QNN = "CPUExecutionProvider", "QNNExecutionProvider"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        yield Machine(pool, ProviderSettings(offline=True), timeout_s=120)


def traced(
    machine: Machine, spec: str, path: Path, folder: Path, monitor: Monitor | None = None, *, runs: int = 3
) -> OpTrace:
    """After two warm-up runs."""
    target = Target(spec)
    inputs = read_io(load_structure(path)).inputs
    feeds = {one.name: np.ones([int(size) for size in one.shape or ()], np.float32) for one in inputs}
    with Windows().observe(
        monitor or OrtProfileMonitor(),
        lambda options: machine.open(target, path, options),
        provider=EP_BY_NAME[str(target.ep)].provider,
        model_path=path,
        folder=folder,
    ) as observed:
        for number in range(2 + runs):
            observed.run(feeds, warm_up=number < 2)
    trace: OpTrace = observed.result
    return trace


def test_each_node_of_the_cpu_has_its_time(machine: Machine, tmp_path: Path) -> None:
    path = save(conv_relu_matmul(middle="Hardmax"), tmp_path / "m.onnx")
    trace = traced(machine, "cpu", path, tmp_path)
    assert trace.status == "ok"
    behind = [node.name for one in trace.operators for node in one.onnx_nodes]
    assert sorted(behind) == ["conv", "flat", "matmul", "middle", "pool", "relu"]
    assert {one.ep for one in trace.operators} == {CPU}
    assert {one.calls for one in trace.operators} == {3}
    assert sum(one.share or 0 for one in trace.operators) == pytest.approx(1)
    assert [one.warm_up for one in trace.inferences] == [True, True, False, False, False]
    (pool,) = [one for one in trace.operators if one.name == "pool"]
    assert str(pool.shapes).endswith("-> float[1,8,1,1]")
    assert float(str(trace.summary["cpu_nodes_us"])) <= float(str(trace.summary["model_run_us"]))


@pytest.mark.parametrize(
    ("name", "precision"), [("digits-cnn", "w8a8"), ("digits-vit", "fp32"), ("digits-vit", "w8a8")]
)
def test_every_node_that_ran_is_in_an_operator_of_the_cpu(
    machine: Machine, tmp_path: Path, name: str, precision: str
) -> None:
    trace = traced(machine, "cpu", model_path(name, precision), tmp_path)
    assert trace.notes == ()


def test_names_are_the_same_in_another_process(machine: Machine, tmp_path: Path) -> None:
    path = model_path("digits-vit", "w8a8")
    first = traced(machine, "cpu", path, tmp_path)
    with WorkerPool(tmp_path / "others") as pool:
        other = Machine(pool, ProviderSettings(offline=True), timeout_s=120)
        second = traced(other, "cpu", path, tmp_path)
    assert sorted(one.name for one in first.operators) == sorted(one.name for one in second.operators)


@needs_qnn
def test_a_hybrid_graph_has_one_event_a_partition_and_one_a_node_of_the_cpu(machine: Machine, tmp_path: Path) -> None:
    path = save(conv_relu_matmul(middle="Hardmax"), tmp_path / "m.onnx")
    trace = traced(machine, "qnn:npu", path, tmp_path)
    assert trace.status == "ok"
    assert sorted((one.name, one.ep, one.meaning, one.calls) for one in trace.operators) == [
        ("middle", CPU, "kernel wall time", 3),
        ("partition 0", QNN, "partition wall time", 3),
        ("partition 1", QNN, "partition wall time", 3),
    ]
    assert [len(one.partitions) for one in trace.inferences] == [2] * 5
    assert [node.op_type for node in trace.fallback_nodes] == ["Hardmax"]


@needs_qnn
def test_a_single_partition_names_its_nodes(machine: Machine, tmp_path: Path) -> None:
    path = save(conv_relu_matmul(), tmp_path / "m.onnx")
    (partition,) = traced(machine, "qnn:npu", path, tmp_path).operators
    assert sorted(node.name for node in partition.onnx_nodes) == ["conv", "flat", "matmul", "middle", "pool", "relu"]


@needs_qnn
def test_a_graph_that_the_target_refused_is_a_fallback(machine: Machine, tmp_path: Path) -> None:
    trace = traced(machine, "qnn:npu", save(only("Hardmax"), tmp_path / "m.onnx"), tmp_path)
    assert trace.status == "cpu_fallback"
    assert [one.ep for one in trace.operators] == [CPU]


def test_the_hardware_is_watched_in_the_same_window(machine: Machine, tmp_path: Path) -> None:
    path = save(conv_relu_matmul(), tmp_path / "m.onnx")
    monitor = Monitors(OrtProfileMonitor(), HardwareMonitor("cpu", interval_s=0.01))
    trace = traced(machine, "cpu", path, tmp_path, monitor)
    assert trace.status == "ok"
    assert trace.hardware is not None
    assert trace.hardware.samples[-1].memory_bytes
    assert "the target is the CPU" in trace.hardware.missing["device_percent"]


def test_openvino_shows_a_time_for_each_partition(machine: Machine, tmp_path: Path) -> None:
    if not machine.availability(Target("openvino:cpu")).usable:
        pytest.skip("needs a CPU of OpenVINO: install [openvino-classic] in an environment of its own")
    path = save(conv_relu_matmul(middle="Hardmax"), tmp_path / "m.onnx")
    trace = traced(machine, "openvino:cpu", path, tmp_path, OpenVinoMonitor())
    assert trace.status == "ok"
    assert len(trace.partitions) == trace.summary["partitions"] == 2
    assert all(one.time_us for one in trace.partitions)
    assert [(one.name, one.ep) for one in trace.operators if one.ep == CPU] == [("middle", CPU)]

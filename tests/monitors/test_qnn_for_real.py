"""QNN's operators on the HTP emulator, through the session worker as a test would trace them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_winml.data.digits import model_path
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.graph.reading import load_structure, read_io
from pytest_winml.monitors.accounting import unaccounted_nodes
from pytest_winml.monitors.qnn import QnnMonitor
from pytest_winml.monitors.source_nodes import executed_nodes
from pytest_winml.records.target import Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.session.window import Windows
from tests.models import only, save
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_winml.records.placement import Placement
    from pytest_winml.records.trace import OpTrace

pytestmark = [needs_runtime, needs_qnn]
QNN = "QNNExecutionProvider"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        yield Machine(pool, ProviderSettings(offline=True), timeout_s=120)


def traced(
    machine: Machine, path: Path, folder: Path, monitor: QnnMonitor | None = None, *, warm_up: int = 1, runs: int = 2
) -> tuple[OpTrace, Placement]:
    feeds = {
        one.name: np.ones([int(size) for size in one.shape or ()], np.float32)
        for one in read_io(load_structure(path)).inputs
    }
    folder.mkdir(exist_ok=True)
    with Windows().observe(
        monitor or QnnMonitor(),
        lambda options: machine.open(Target("qnn:npu"), path, options),
        provider=QNN,
        model_path=path,
        folder=folder,
    ) as observed:
        for number in range(warm_up + runs):
            observed.run(feeds, warm_up=number < warm_up)
    return observed.result, observed.session.placement


def three_partitions() -> onnx.ModelProto:
    """Two Hardmax that the HTP refuses; names that a careless reader of CSV would trip over, and none at all."""
    weights = np.random.default_rng(1).standard_normal((4, 4, 3, 3)).astype(np.float32)
    matrix = np.random.default_rng(2).standard_normal((8, 8)).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["1"], name='conv, the "first"', pads=[1] * 4),
        node("Relu", ["1"], ["2"], name="relu; é"),
        node("Hardmax", ["2"], ["3"], name="first hardmax"),
        node("Softmax", ["3"], ["4"], name="softmax:OpId_7 (cycles),x", axis=1),
        node("Conv", ["4", "w"], ["5"], name="Transpose", pads=[1] * 4),
        node("Hardmax", ["5"], ["6"], name="second hardmax"),
        node("Conv", ["6", "w"], ["7"], name="conv_token_3", pads=[1] * 4),
        node("MatMul", ["7", "m"], ["8"], name="/enc/matmul"),
        node("Add", ["8", "b"], ["9"], name="/enc/add"),
        node("Identity", ["9"], ["10"], name="identity"),
        node("Sigmoid", ["10"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in ("x", "y")]
    tensors = {"w": weights, "m": matrix, "b": matrix[0]}
    graph = helper.make_graph(
        nodes,
        "three",
        values[:1],
        values[1:],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_every_inference_has_its_three_partitions(machine: Machine, tmp_path: Path) -> None:
    path = save(three_partitions(), tmp_path / "m.onnx")
    trace, _ = traced(machine, path, tmp_path / "w", warm_up=2, runs=5)
    assert (trace.status, trace.error, trace.notes) == ("ok", None, ())
    assert [one.warm_up for one in trace.inferences] == [True] * 2 + [False] * 5
    assert all([run.partition for run in one.partitions] == [0, 1, 2] for one in trace.inferences)
    assert (trace.metadata.runs, trace.metadata.warm_up, len(trace.partitions)) == (5, 2, 3)
    assert {operator.calls for operator in trace.operators} == {5}
    assert trace.metadata.emulated
    assert all(operator.time_us is None for operator in trace.operators)


def test_names_are_the_models_own_and_the_cycles_add_up(machine: Machine, tmp_path: Path) -> None:
    path = save(three_partitions(), tmp_path / "m.onnx")
    trace, placement = traced(machine, path, tmp_path / "w")
    by_name = {operator.name: operator for operator in trace.operators}
    for node in load_structure(path).graph.node:
        if node.op_type in ("Conv", "Relu", "Softmax"):
            assert by_name[node.name].op_type == node.op_type
    assert [node.name for node in by_name["/enc/matmul"].onnx_nodes] == ["/enc/matmul", "/enc/add", "identity"]
    assert by_name["Sigmoid (unnamed 1)"].op_type == "Sigmoid"
    assert [by_name[f"Input of partition {number}"].partition for number in range(3)] == [0, 1, 2]
    inserted = {name for name, operator in by_name.items() if not operator.onnx_nodes and " of " not in name}
    assert 'Transpose before conv, the "first"' in inserted
    assert not any("token" in name and name != "conv_token_3" for name in by_name)
    total = sum(operator.cycles or 0 for operator in trace.operators)
    assert total == pytest.approx(sum(one.cycles or 0 for one in trace.partitions))
    assert sum(operator.share or 0 for operator in trace.operators) == pytest.approx(1)
    assert [node.name for node in trace.fallback_nodes] == ["first hardmax", "second hardmax"]
    assert unaccounted_nodes(trace, executed_nodes(load_structure(path)), placement.boundary_nodes) == ()


@pytest.mark.parametrize(
    ("model", "precision"),
    [(model, precision) for model in ("digits-cnn", "digits-vit") for precision in ("fp32", "w8a16", "w8a8")],
)
def test_every_executed_node_is_accounted_for(machine: Machine, tmp_path: Path, model: str, precision: str) -> None:
    path = model_path(model, precision)
    trace, placement = traced(machine, path, tmp_path / "w", warm_up=0, runs=1)
    assert (trace.status, trace.notes) == ("ok", ())
    assert unaccounted_nodes(trace, executed_nodes(load_structure(path)), placement.boundary_nodes) == ()
    # Nor does an operator claim what is on the CPU.
    on_cpu = {node.name for node in placement.boundary_nodes}
    assert not on_cpu & {node.name for operator in trace.operators for node in operator.onnx_nodes}


def test_names_last_from_one_process_to_another_and_across_compile(
    machine: Machine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = model_path("digits-cnn", "w8a16")
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        other = Machine(pool, ProviderSettings(offline=True), timeout_s=120)
        traced(other, model_path("digits-cnn", "fp32"), tmp_path / "before", runs=1)  # operator ids grow in a process
        first, _ = traced(other, source, tmp_path / "first")
    second, _ = traced(machine, source, tmp_path / "second")
    compiled = _compile(source, tmp_path)
    monitor = QnnMonitor(source_model=source)
    third, placement = traced(machine, compiled, tmp_path / "third", monitor)
    assert placement.ep_context
    assert (third.status, third.notes) == ("ok", ())
    accounts = [{one.name: (one.op_type, set(one.onnx_nodes)) for one in t.operators} for t in (first, second, third)]
    assert accounts[0] == accounts[1] == accounts[2]
    assert unaccounted_nodes(third, executed_nodes(load_structure(source)), placement.boundary_nodes) == ()


def test_a_compiled_model_of_unknown_source_keeps_qnns_names(machine: Machine, tmp_path: Path) -> None:
    compiled = _compile(model_path("digits-cnn", "w8a16"), tmp_path)
    trace, _ = traced(machine, compiled, tmp_path / "w", runs=1)
    assert trace.status == "ok"
    assert any("not known" in note for note in trace.notes)
    assert {operator.ep_op_type for operator in trace.operators} >= {"Conv2d", "PoolMax2d"}
    assert all(operator.name == operator.ep_name for operator in trace.operators if operator.ep_op_type == "Conv2d")


def test_two_windows_at_once_read_their_own_files_only(
    machine: Machine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In one folder, with two sessions of one model writing at the same time."""
    path = save(three_partitions(), tmp_path / "m.onnx")
    folder = tmp_path / "shared"
    folder.mkdir()
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        other = Machine(pool, ProviderSettings(offline=True), timeout_s=120)
        with ThreadPoolExecutor(2) as threads:
            futures = [threads.submit(traced, one, path, folder, runs=4) for one in (machine, other)]
            traces = [future.result()[0] for future in futures]
    assert len({trace.artifacts["csv"] for trace in traces}) == 2
    for trace in traces:
        assert (trace.status, trace.metadata.runs, trace.notes) == ("ok", 4, ())
        assert all(len(one.partitions) == 3 for one in trace.inferences)


def test_a_graph_that_qnn_refuses_whole_is_a_cpu_fallback(machine: Machine, tmp_path: Path) -> None:
    trace, _ = traced(machine, save(only("Hardmax"), tmp_path / "m.onnx"), tmp_path / "w", runs=1)
    assert trace.status == "cpu_fallback"
    assert [node.name for node in trace.fallback_nodes] == ["the_hardmax"]


def test_detail_without_the_sdk_falls_back_and_leaves_nothing_elsewhere(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    folder = tmp_path / "w"
    trace, _ = traced(machine, model_path("digits-cnn", "w8a16"), folder, QnnMonitor("detail"), runs=1)
    assert trace.status == "basic_fallback"
    assert trace.reason == "sdk_missing: QNN_SDK_ROOT is not set"
    assert trace.metadata.options["profiling_level"] == "optrace"
    assert len(list(folder.glob("*_schematic.bin"))) == 1
    assert trace.operators


def _compile(source: Path, folder: Path) -> Path:
    """In a process of its own: the emulator holds process-wide state."""
    target = folder / "compiled.onnx"
    script = (
        "import os, sys, onnxruntime as ort, onnxruntime_qnn as qnn\n"
        "ort.register_execution_provider_library('QNNExecutionProvider', qnn.get_library_path())\n"
        "device = next(d for d in ort.get_ep_devices() if d.ep_name == 'QNNExecutionProvider')\n"
        "options = ort.SessionOptions()\n"
        "trace = {'enable_framework_op_trace': '1', 'framework_op_trace_dir': os.path.dirname(sys.argv[2])}\n"
        "htp = {'backend_type': 'htp', 'soc_model': '60', 'htp_arch': '73'}\n"
        "options.add_provider_for_devices([device], {**htp, **trace})\n"
        "ort.ModelCompiler(options, sys.argv[1]).compile_to_file(sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", script, str(source), str(target)], check=True, capture_output=True)
    return target

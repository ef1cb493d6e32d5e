"""Placement as the runtime records it, on the CPU EP and on the HTP emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.data.digits import held_out, model_path
from pytest_winml.errors import NotOnTarget
from pytest_winml.records.target import Target
from tests.models import conv_relu_matmul, extended_by_ort, only, save
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_winml.session.machine import Machine

pytestmark = needs_runtime
CPU, HTP = Target("cpu"), Target("qnn:npu")


def test_the_cpu_ep_takes_every_node(machine: Machine, tmp_path: Path) -> None:
    path = save(conv_relu_matmul(middle="Hardmax"), tmp_path / "m.onnx")
    with machine.open(CPU, path) as session:
        assert session.placement.fallback_nodes == ()
        assert {node.op_type for node in session.placement.target_nodes} >= {"Conv", "Hardmax", "MatMul"}
        assert not session.placement.emulated


@needs_qnn
def test_a_node_that_qnn_cannot_take_is_named_with_the_eps_own_reason(machine: Machine, tmp_path: Path) -> None:
    path = save(conv_relu_matmul(middle="Hardmax", name="the hardmax, with a comma"), tmp_path / "m.onnx")
    with machine.open(HTP, path) as session:
        (node,) = session.placement.fallback_nodes
    assert (node.name, node.op_type, node.ep) == ("the hardmax, with a comma", "Hardmax", "CPUExecutionProvider")
    assert node.reason is not None
    assert "`Hardmax` are not supported by QNN EP" in node.reason
    assert node.reason_source == "qnn_op_trace"
    assert session.placement.partitions == 2
    assert session.placement.emulated


@needs_qnn
def test_fused_conv_is_reported_as_fallback(machine: Machine, tmp_path: Path) -> None:
    plain = save(conv_relu_matmul(), tmp_path / "plain.onnx")
    fused = extended_by_ort(plain, tmp_path / "fused.onnx")
    with machine.open(HTP, plain) as session:
        assert session.placement.fallback_nodes == ()
    with machine.open(HTP, fused) as session:
        assert [(node.op_type, node.name) for node in session.placement.fallback_nodes] == [("FusedConv", "conv")]
        assert "FusedConv" in str(session.placement.fallback_nodes[0].reason)


@needs_qnn
def test_boundary_quantizers_are_counted_apart(machine: Machine) -> None:
    with machine.open(HTP, model_path("digits-cnn", "w8a16")) as session:
        placement = session.placement
    assert placement.fallback_nodes == ()
    assert {node.op_type for node in placement.boundary_nodes} == {"QuantizeLinear", "DequantizeLinear"}
    assert placement.partitions == 1
    assert placement.coverage == 1


@needs_qnn
def test_unnamed_nodes_are_told_apart_by_their_order(machine: Machine, tmp_path: Path) -> None:
    model = conv_relu_matmul(middle="Hardmax")
    for node in model.graph.node:
        node.name = ""
    with machine.open(HTP, save(model, tmp_path / "m.onnx")) as session:
        (node,) = session.placement.fallback_nodes
    assert (node.name, node.op_type) == ("", "Hardmax")
    assert "Hardmax" in str(node.reason)


@needs_qnn
def test_a_graph_refused_whole_is_a_reported_fallback_and_no_session(machine: Machine, tmp_path: Path) -> None:
    path = save(only("Hardmax"), tmp_path / "m.onnx")
    with machine.open(HTP, path) as session:
        assert not session.placement.on_target
        assert session.placement.coverage == 0
        with pytest.raises(NotOnTarget, match=r"took none of the 1 nodes.*the_hardmax.*not supported"):
            session.require_target()


@needs_qnn
def test_the_emulator_computes_what_the_cpu_computes(machine: Machine) -> None:
    images = held_out()
    with (
        machine.open(HTP, model_path("digits-cnn", "w8a16")) as npu,
        machine.open(CPU, model_path("digits-cnn", "fp32")) as cpu,
    ):
        for image in images.images[:20]:
            feeds = {"image": image[None]}
            assert npu.run(feeds)["logits"].argmax() == cpu.run(feeds)["logits"].argmax()


@needs_qnn
def test_an_epcontext_model_is_one_node_on_the_target(machine: Machine, tmp_path: Path) -> None:
    compiled = _compile_for_htp(model_path("digits-cnn", "w8a16"), tmp_path)
    with machine.open(HTP, compiled) as session:
        placement = session.placement
        assert placement.ep_context
        assert [node.op_type for node in placement.target_nodes] == ["EPContext"]
        assert placement.fallback_nodes == ()
        assert len(placement.boundary_nodes) == 2
        image = held_out().images[0]
        assert session.run({"image": image[None]})["logits"].argmax() == held_out().labels[0]


def _compile_for_htp(source: Path, folder: Path) -> Path:
    """In a process of its own: the emulator holds process-wide state."""
    import subprocess
    import sys

    target = folder / "compiled.onnx"
    script = (
        "import sys, onnxruntime as ort, onnxruntime_qnn as qnn\n"
        "ort.register_execution_provider_library('QNNExecutionProvider', qnn.get_library_path())\n"
        "device = next(d for d in ort.get_ep_devices() if d.ep_name == 'QNNExecutionProvider')\n"
        "options = ort.SessionOptions()\n"
        "options.add_provider_for_devices([device], {'backend_type': 'htp', 'soc_model': '60', 'htp_arch': '73'})\n"
        "ort.ModelCompiler(options, sys.argv[1]).compile_to_file(sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", script, str(source), str(target)], check=True, capture_output=True)
    return target

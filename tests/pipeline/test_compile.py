"""EPContext for the HTP, made offline: the same bytes everywhere, the same outputs as the uncompiled model."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import onnx
import pytest

from pytest_winml.data import digits
from pytest_winml.errors import BuildError, TargetAbsent
from pytest_winml.execute.log import tail
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.execute.worker import Worker
from pytest_winml.pipeline.compile import compile_model
from pytest_winml.records.stages import MODEL_FILE, CompileRequest, StageAnswer
from pytest_winml.records.target import Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from tests.models import conv_relu_matmul, only, save
from tests.pipeline.test_quantize import Quantized, feeds_for
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

X_ELITE = Target("qnn:npu")
TRACE = "qnn_op_trace.json"
FEEDS: dict[str, Any] = {"image": digits.held_out().images[:1]}


class Compiler:
    """The stage in a process of its own, as the pipeline runs it."""

    def __init__(self, directory: Path, log_path: Path) -> None:
        self._log_path = log_path

    def compile(self, request: CompileRequest) -> StageAnswer:
        return compile_model(request, read_log=lambda: tail(self._log_path))


class Compiled:
    def __init__(self, source: Path, folder: Path, target: Target = X_ELITE, *, embed: bool = False) -> None:
        folder.mkdir(parents=True)
        request = asked(source, folder, target, embed=embed)
        service = f"{Compiler.__module__}:{Compiler.__name__}"
        worker = Worker(service, directory=folder.parent / f"worker of {folder.name}", allowed_prefixes=("tests.",))
        try:
            self.answer = worker.call("compile", request, StageAnswer, timeout_s=120)
        finally:
            worker.close()
        self.facts = self.answer.facts
        self.folder = folder
        self.path = folder / MODEL_FILE
        self.nodes = [node.op_type for node in onnx.load(self.path).graph.node]

    def digests(self) -> dict[str, str]:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(self.folder.iterdir())}


def asked(source: Path, folder: Path, target: Target, *, embed: bool = False, **settings: Any) -> CompileRequest:
    return CompileRequest(
        model_path=str(source),
        target=target,
        settings=msgspec.json.encode(ProviderSettings(offline=True, **settings)),
        embed=embed,
        output_folder=str(folder),
    )


def outputs(machine: Machine, path: Path, target: Target = X_ELITE, feeds: Any = None) -> dict[str, NDArray[Any]]:
    with machine.open(target, path) as session:
        assert session.placement.on_target
        return session.run(feeds or FEEDS)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        yield Machine(pool, ProviderSettings(offline=True), timeout_s=120)


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled(digits.model_path("digits-cnn", "w8a16"), tmp_path_factory.mktemp("cnn") / "out")


@needs_qnn
def test_a_compiled_model_is_one_context_with_its_binary_and_the_eps_trace(cnn: Compiled) -> None:
    assert sorted(cnn.digests()) == [MODEL_FILE, "model_qnn.bin", TRACE]
    assert cnn.nodes == ["QuantizeLinear", "EPContext", "DequantizeLinear"]
    assert cnn.facts["ep_context_nodes"] == 1
    assert cnn.facts["nodes_left"] == 2
    assert cnn.facts["nodes_left_by_type"] == {"DequantizeLinear": 1, "QuantizeLinear": 1}
    assert cnn.facts["soc"] == "sc8380xp"
    assert cnn.facts["provider_options"] == {"backend_type": "htp", "htp_arch": "73", "soc_model": "60"}
    assert cnn.facts["binaries"] == ["model_qnn.bin"]


@needs_qnn
@pytest.mark.parametrize("name", digits.EMBEDDED_MODELS)
def test_compiled_and_uncompiled_outputs_agree_to_the_bit(
    name: str, cnn: Compiled, machine: Machine, tmp_path: Path
) -> None:
    source = digits.model_path(name, "w8a16")
    made = cnn if name == "digits-cnn" else Compiled(source, tmp_path / "out")
    expected, got = outputs(machine, source), outputs(machine, made.path)
    assert got.keys() == expected.keys()
    assert all(np.array_equal(got[key], expected[key]) for key in expected)


@needs_qnn
def test_the_trace_beside_a_compiled_model_explains_its_placement(cnn: Compiled, machine: Machine) -> None:
    with machine.open(X_ELITE, cnn.path) as session:
        assert session.placement.ep_context
        assert session.placement.fallback_nodes == ()
        assert len(session.placement.boundary_nodes) == 2


@needs_qnn
def test_the_bytes_do_not_depend_on_where_the_model_lies_or_how_it_keeps_its_weights(
    cnn: Compiled, tmp_path: Path
) -> None:
    source = digits.model_path("digits-cnn", "w8a16")
    moved = tmp_path / "another folder" / "under another name.onnx"
    moved.parent.mkdir()
    shutil.copy(source, moved)
    assert Compiled(moved, tmp_path / "deeper" / "out").digests() == cnn.digests()
    onnx.save(
        onnx.load(source),
        str(tmp_path / "split.onnx"),
        save_as_external_data=True,
        location="split.weights",
        size_threshold=0,
    )
    assert Compiled(tmp_path / "split.onnx", tmp_path / "split").digests() == cnn.digests()


@needs_qnn
def test_each_soc_gets_a_context_of_its_own(cnn: Compiled, machine: Machine, tmp_path: Path) -> None:
    phone = Target("qnn:npu", soc="sm8650")
    source = digits.model_path("digits-cnn", "w8a16")
    made = Compiled(source, tmp_path / "out", phone)
    assert made.facts["soc"] == "sm8650"
    assert made.digests()["model_qnn.bin"] != cnn.digests()["model_qnn.bin"]
    expected, got = outputs(machine, source, phone), outputs(machine, made.path, phone)
    assert np.array_equal(got["logits"], expected["logits"])


@needs_qnn
def test_a_context_can_be_inside_the_model(cnn: Compiled, machine: Machine, tmp_path: Path) -> None:
    made = Compiled(digits.model_path("digits-cnn", "w8a16"), tmp_path / "out", embed=True)
    assert sorted(made.digests()) == [MODEL_FILE, TRACE]
    assert made.facts["embedded"] is True
    assert made.facts["binaries"] == []
    assert np.array_equal(outputs(machine, made.path)["logits"], outputs(machine, cnn.path)["logits"])


@needs_qnn
def test_what_the_ep_refuses_is_left_between_the_contexts_and_counted(machine: Machine, tmp_path: Path) -> None:
    source = save(conv_relu_matmul(middle="Hardmax"), tmp_path / "m.onnx")
    quantized = Quantized(source, tmp_path / "q", "w8a8", feeds_path=feeds_for(source, tmp_path / "feeds.npz"))
    made = Compiled(quantized.path, tmp_path / "out")
    assert made.facts["ep_context_nodes"] == 2
    assert made.facts["nodes_left_by_type"] == {"DequantizeLinear": 1, "Hardmax": 1, "QuantizeLinear": 1}
    feeds = {"x": np.random.default_rng(1).random((1, 3, 8, 8), dtype=np.float32)}
    expected = outputs(machine, quantized.path, feeds=feeds)
    assert np.array_equal(outputs(machine, made.path, feeds=feeds)["y"], expected["y"])
    with machine.open(X_ELITE, made.path) as session:
        assert [node.op_type for node in session.placement.fallback_nodes] == ["Hardmax"]
        assert "not supported by QNN" in str(session.placement.fallback_nodes[0].reason)


@needs_qnn
def test_a_compile_that_fails_fails_with_the_eps_reason(tmp_path: Path) -> None:
    source = save(only("Hardmax"), tmp_path / "m.onnx")
    with pytest.raises(BuildError, match=r"does not compile for qnn:npu: .*Unable to compile any nodes") as caught:
        Compiled(source, tmp_path / "out")
    assert "The EP refuses Hardmax 'the_hardmax': Operators of type `Hardmax`" in caught.value.message
    assert not (tmp_path / "out" / MODEL_FILE).exists()


@needs_qnn
def test_a_backend_that_does_not_start_shows_in_the_log(tmp_path: Path) -> None:
    target = Target("qnn:npu", unchecked_options={"backend_type": "gpu"})
    with pytest.raises(BuildError, match="does not compile") as caught:
        Compiled(digits.model_path("digits-cnn", "w8a16"), tmp_path / "out", target)
    assert "QNN SetupBackend failed" in str(caught.value.log_tail)


@needs_qnn
def test_a_compiled_model_is_not_compiled_again(cnn: Compiled, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is compiled already"):
        compile_model(asked(cnn.path, tmp_path, X_ELITE))


@needs_runtime
@pytest.mark.parametrize("spec", ["cpu", "dml:gpu"])
def test_an_ep_without_epcontext_is_refused(spec: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"{spec} has no EPContext"):
        compile_model(asked(digits.model_path("digits-cnn", "fp32"), tmp_path, Target(spec)))


@needs_runtime
def test_an_ep_that_is_not_there_is_absent_and_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(TargetAbsent, match="VitisAIExecutionProvider"):
        compile_model(asked(digits.model_path("digits-cnn", "fp32"), tmp_path, Target("vitisai:npu")))


def test_a_binary_that_is_missing_or_lies_elsewhere_is_not_shipped(tmp_path: Path) -> None:
    from onnx import helper

    from pytest_winml.pipeline.compile import _binaries

    def context(name: str) -> onnx.NodeProto:
        return helper.make_node("EPContext", ["x"], ["y"], embed_mode=0, main_context=1, ep_cache_context=name)

    (tmp_path / "model_qnn.bin").write_bytes(b"binary")
    (tmp_path / "empty.bin").touch()
    inner = tmp_path / "inner"
    inner.mkdir()
    assert _binaries([context("model_qnn.bin"), context("model_qnn.bin")], tmp_path) == [tmp_path / "model_qnn.bin"]
    for folder, name in ((tmp_path, "gone.bin"), (tmp_path, "empty.bin"), (inner, "../model_qnn.bin")):
        with pytest.raises(BuildError, match="which the EP did not write beside it"):
            _binaries([context(name)], folder)
    with pytest.raises(BuildError, match="did not write beside it"):
        _binaries([context(str(tmp_path / "model_qnn.bin"))], inner)

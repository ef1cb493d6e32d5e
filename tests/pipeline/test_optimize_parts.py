"""What the optimize stage is made of, where it can be asked alone."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from pytest_winml.execute.worker import Worker
from pytest_winml.pipeline.optimizations import BASIC
from pytest_winml.pipeline.optimizing.files import names_in, tidy
from pytest_winml.pipeline.optimizing.ort import contrib_defaults
from pytest_winml.pipeline.optimizing.rewrites import simpler
from pytest_winml.pipeline.optimizing.saving import Saved, Saving, captured_stderr, save
from tests.pipeline.patterns import made, optimized, reshape_transpose_reshape
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_runtime

# The log


def test_what_native_code_prints_is_captured_and_the_stream_given_back(capfd: pytest.CaptureFixture[str]) -> None:
    with captured_stderr() as inside:
        os.write(2, b"\x1b[0;93mnative\x1b[m\r\n")
    os.write(2, b"after\n")
    assert inside.text == "native\n"
    assert capfd.readouterr().err == "after\n"


def test_the_log_is_whole_when_the_block_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(ValueError), captured_stderr() as inside:
        os.write(2, b"last words")
        raise ValueError
    os.write(2, b"after")
    assert inside.text == "last words"
    assert capfd.readouterr().err == "after"


def test_the_log_of_windows_is_read() -> None:
    line = "GraphTransformer ConstantFolding modified: 1 with status: OK\r\n"
    with captured_stderr() as inside:
        os.write(2, line.encode("utf-16-le"))
    assert inside.text == line.replace("\r\n", "\n")


def saving_of(tmp_path: Path, name: str) -> Saving:
    onnx.save(made("(float[4] x) => (float[4] y)", "y = Relu(x)"), tmp_path / "model.onnx")
    return Saving(source=str(tmp_path / "model.onnx"), target=str(tmp_path / name), level=BASIC, config={}, disabled=())


def test_a_process_of_its_own_tells_the_same_of_a_graph(tmp_path: Path) -> None:
    here = save(saving_of(tmp_path, "here.onnx"))
    worker = Worker("pytest_winml.pipeline.optimizing.saving:SavingService", directory=tmp_path / "worker")
    try:
        there = worker.call("save", saving_of(tmp_path, "there.onnx"), Saved, timeout_s=120)
        again = worker.call("save", saving_of(tmp_path, "again.onnx"), Saved, timeout_s=120)
    finally:
        worker.close()
    assert here.log.count("GraphTransformer") == there.log.count("GraphTransformer") > 0
    assert again.log.count("GraphTransformer") == there.log.count("GraphTransformer")
    assert (tmp_path / "here.onnx").read_bytes() == (tmp_path / "there.onnx").read_bytes()


def test_a_graph_that_is_refused_is_an_answer_with_the_reason(tmp_path: Path) -> None:
    saving = saving_of(tmp_path, "out.onnx")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    assert "protobuf" in str(save(saving).failure).lower()


# Names


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [4])
    return helper.make_graph(list(nodes), name, [], [value])


def test_made_up_names_are_changed_everywhere_and_given_ones_nowhere(tmp_path: Path) -> None:
    model = made("(bool c, float[4] x) => (float[4] y)", "a_token_7 = Relu(x) y = Identity(x)")
    del model.graph.node[1:]
    model.graph.node.append(
        helper.make_node(
            "If", ["c"], ["y"], name="choice",
            then_branch=branch("then", helper.make_node("Abs", ["a_token_7"], ["given"], name="abs_token_3")),
            else_branch=branch("else", helper.make_node("Neg", ["a_token_7"], ["a"])),
        )
    )  # fmt: skip
    onnx.save(model, tmp_path / "model.onnx")
    tidy(tmp_path / "model.onnx", frozenset({"x", "c", "y", "given", "relu_0", "choice"}))
    tidied = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(tidied)
    assert names_in(tidied) == {"x", "c", "y", "given", "relu_0", "choice", "a.1", "a.2", "abs.1"}
    assert tidied.graph.node[1].attribute[0].g.node[0].input == ["a.1"]


# Defaults of the runtime's own operators


def test_the_defaults_of_contrib_operators_are_the_runtimes() -> None:
    defaults = contrib_defaults("com.microsoft", "FusedMatMul", 1)
    assert defaults["alpha"].f == 1.0
    assert contrib_defaults("com.microsoft", "NoSuchOperator", 1) == {}


# Reshape, Transpose, Reshape


@st.composite
def turns(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    return tuple(shape), tuple(draw(st.permutations(range(len(shape)))))


@given(turns())
@example(((1, 1, 1), (2, 0, 1)))
@example(((2, 1, 3, 4, 5), (3, 4, 0, 1, 2)))
def test_fewer_axes_move_the_elements_just_so(turn: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = turn
    fewer, new_order = simpler(shape, order)
    elements = np.arange(np.prod(shape))
    wanted = elements.reshape(shape).transpose(order).ravel()
    assert elements.reshape(fewer).transpose(new_order).ravel().tolist() == wanted.tolist()
    assert len(fewer) <= len(shape)


@given(turns())
def test_no_two_axes_that_move_together_are_left(turn: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    fewer, order = simpler(*turn)
    assert all(after != before + 1 for before, after in itertools.pairwise(order))
    assert len(fewer) == 1 or 1 not in fewer


@given(turns(), st.data())
def test_a_size_that_is_inferred_stays_inferable(
    turn: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    shape, order = turn
    written = list(shape)
    written[data.draw(st.integers(0, len(shape) - 1))] = -1
    fewer, new_order = simpler(written, order)
    elements = np.arange(np.prod(shape))
    wanted = elements.reshape(shape).transpose(order).ravel()
    assert fewer.count(-1) == 1
    assert elements.reshape(fewer).transpose(new_order).ravel().tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("shape", "order", "last", "removed"),
    [
        ((2, 4, 4, 3, 4), (0, 1, 2, 3, 4), (2, 192), {"Reshape": 1, "Transpose": 1}),
        ((2, 4, 4, 3, 4), (3, 4, 0, 1, 2), (12, 32), {}),
        ((2, -1, 4, 3, 4), (0, 3, 4, 1, 2), (2, 12, -1), {}),
    ],
    ids=["no move at all", "two groups", "inferred sizes"],
)
def test_graphs_that_lose_axes(
    shape: tuple[int, ...], order: tuple[int, ...], last: tuple[int, ...], removed: dict[str, int], tmp_path: Path
) -> None:
    answer = optimized(reshape_transpose_reshape(shape, order, last), tmp_path, "highdimRTR_lowdimRTR")
    assert not answer.no_op
    assert answer.facts["removed"] == removed


@pytest.mark.parametrize(
    ("shape", "order", "last"),
    [
        ((0, 4, 4, 3, 4), (0, 3, 4, 1, 2), (2, 12, 16)),
        ((2, 4, 4, 3, 4), (0, 3, 4, 1, 2), (0, 12, 16)),
        ((2, 4, 4, 3, 4), (4, 3, 2, 1, 0), (12, 32)),
    ],
    ids=["a copied size in front", "a copied size behind", "nothing to join"],
)
def test_graphs_that_keep_their_axes(
    shape: tuple[int, ...], order: tuple[int, ...], last: tuple[int, ...], tmp_path: Path
) -> None:
    assert optimized(reshape_transpose_reshape(shape, order, last), tmp_path, "highdimRTR_lowdimRTR").no_op


def test_a_middle_that_is_used_elsewhere_keeps_its_axes(tmp_path: Path) -> None:
    model = reshape_transpose_reshape((2, 4, 4, 3, 4), (0, 3, 4, 1, 2), (2, 12, 16))
    model.graph.output.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 3, 4, 4, 4]))
    assert optimized(model, tmp_path, "highdimRTR_lowdimRTR").no_op

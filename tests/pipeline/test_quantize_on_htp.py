"""Where the quantized digit networks run, and how well, on the HTP (here: its emulator)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_winml.data import digits
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.records.target import Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from tests.pipeline.test_quantize import Quantized, feeds_for, prepared
from tests.platforms import needs_qnn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_winml.session.machine import OpenSession

pytestmark = needs_qnn

NPU = Target("qnn:npu")
IMAGES = 24


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with WorkerPool(tmp_path_factory.mktemp("workers")) as pool:
        yield Machine(pool, ProviderSettings(offline=True), timeout_s=120)


def right(session: OpenSession) -> int:
    images = digits.held_out()
    logits = [session.run({"image": image[None]})["logits"] for image in images.images[:IMAGES]]
    return int(np.sum([values.argmax() for values in logits] == images.labels[:IMAGES]))


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("precision", ["w8a16", "w8a8"])
@pytest.mark.parametrize("name", digits.EMBEDDED_MODELS)
def test_a_static_precision_runs_whole_on_the_htp(
    name: str, precision: str, by_channel: bool, machine: Machine, tmp_path: Path
) -> None:
    source = prepared(name, tmp_path)
    feeds = feeds_for(source, tmp_path / "feeds.npz", 64, name)
    made = Quantized(source, tmp_path / "out", precision, feeds_path=feeds, per_channel=by_channel)
    with machine.open(NPU, made.path) as session:
        assert session.placement.fallback_nodes == ()
        assert len(session.placement.boundary_nodes) == 2
        assert right(session) >= IMAGES - 2


def test_half_precision_runs_whole_on_the_htp(machine: Machine, tmp_path: Path) -> None:
    made = Quantized(prepared("digits-vit", tmp_path), tmp_path / "out", "fp16")
    with machine.open(NPU, made.path) as session:
        assert session.placement.fallback_nodes == ()
        assert right(session) >= IMAGES - 2


def test_four_bits_run_whole_on_the_htp_in_the_form_that_qnn_takes(machine: Machine, tmp_path: Path) -> None:
    source = prepared("digits-vit", tmp_path)
    made = Quantized(source, tmp_path / "qnn", "w4a16")
    with machine.open(NPU, made.path) as session:
        assert session.placement.fallback_nodes == ()
        assert sum(node.op_type == "MatMulNBits" for node in session.placement.target_nodes) == 19
        assert right(session) >= IMAGES - 2
    generic = Quantized(source, tmp_path / "generic", "w4a16", family="generic")
    with machine.open(NPU, generic.path) as session:
        assert {node.op_type for node in session.placement.fallback_nodes} == {"MatMulNBits"}
        assert "3D" in str(session.placement.fallback_nodes[0].reason)

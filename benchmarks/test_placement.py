"""Does every node of the model run on the target? Known before the first timed run, with the EP's own reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml import Model, Recipe

if TYPE_CHECKING:
    from pytest_winml import Winml

DIGITS = [Model.embedded("digits-cnn"), Model.embedded("digits-vit")]


@pytest.mark.winml(models=DIGITS, targets=["cpu", "qnn:npu"])
def test_every_node_runs_on_the_target(winml: Winml) -> None:
    assert winml.placement().fallback_nodes == ()


@pytest.mark.winml(models=DIGITS, recipes=[Recipe(precision="w8a8")], targets=["qnn:npu"])
def test_the_npu_takes_the_8_bit_model_in_one_piece(winml: Winml) -> None:
    assert winml.placement().partitions == 1

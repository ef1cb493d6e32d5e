from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from pytest_winml.graph.powers import means_of_other_powers
from tests.graph.graphs import model

if TYPE_CHECKING:
    from pathlib import Path


def mean_of_power(*before: onnx.NodeProto, weights: tuple[onnx.TensorProto, ...] = ()) -> onnx.ModelProto:
    power = helper.make_node("Pow", ["x", "e"], ["p"], name="power")
    cast = helper.make_node("Cast", ["p"], ["c"], to=1)
    return model([*before, power, cast, helper.make_node("ReduceMean", ["c"], ["y"], axes=[-1])], weights=weights)


def weight(value: float, dtype: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), "e")


@pytest.mark.parametrize(("value", "found"), [(2.0, ()), (4.0, ("power",)), (3.0, ("power",)), (1.0, ("power",))])
def test_a_power_whose_mean_is_taken_is_a_square_or_is_named(
    tmp_path: Path, value: float, found: tuple[str, ...]
) -> None:
    assert means_of_other_powers(mean_of_power(weights=(weight(value),)), tmp_path) == found
    assert means_of_other_powers(mean_of_power(weights=(weight(value, np.int64),)), tmp_path) == found
    constant = helper.make_node("Constant", [], ["e"], value=weight(value))
    assert means_of_other_powers(mean_of_power(constant), tmp_path) == found
    plain = helper.make_node("Constant", [], ["f"], value_float=value)
    passed_on = helper.make_node("Identity", ["f"], ["e"])
    assert means_of_other_powers(mean_of_power(plain, passed_on), tmp_path) == found


def test_an_exponent_that_is_not_known_is_not_taken_for_two(tmp_path: Path) -> None:
    assert means_of_other_powers(mean_of_power(helper.make_node("Neg", ["x"], ["e"])), tmp_path) == ("power",)


def test_an_exponent_in_another_file_is_read_from_there(tmp_path: Path) -> None:
    for value, found in ((2.0, ()), (4.0, ("power",))):
        path = tmp_path / f"{value}.onnx"
        made = mean_of_power(weights=(weight(value),))
        onnx.save(made, path, save_as_external_data=True, location=f"{value}.data", size_threshold=0)
        assert means_of_other_powers(onnx.load(path, load_external_data=False), tmp_path) == found


def test_a_power_whose_mean_nobody_takes_is_nobodys_business(tmp_path: Path) -> None:
    alone = model([helper.make_node("Pow", ["x", "e"], ["y"])], weights=(weight(4.0),))
    assert means_of_other_powers(alone, tmp_path) == ()

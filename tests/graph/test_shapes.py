from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.errors import ModelError
from pytest_winml.graph.reading import read_io
from pytest_winml.graph.shapes import fix_shapes
from tests.graph.graphs import relu, value

if TYPE_CHECKING:
    import onnx


def two_inputs() -> onnx.ModelProto:
    made = relu(
        inputs=[value("image", ["batch", 3, "side", "side"]), value("mask", ["batch", None])],
        outputs=[value("y", ["batch", "other"])],
    )
    made.graph.value_info.append(value("inside", ["batch", "side"]))
    return made


def refusal(shapes: dict[str, tuple[int, ...]], made: onnx.ModelProto | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        fix_shapes(made or two_inputs(), shapes)
    return caught.value


def shapes_of(made: onnx.ModelProto) -> dict[str, tuple[int | str, ...] | None]:
    io = read_io(made)
    return {spec.name: spec.shape for spec in (*io.inputs, *io.outputs)}


def test_a_named_size_gets_its_value_wherever_the_graph_declares_it() -> None:
    fixed = fix_shapes(two_inputs(), {"image": (2, 3, 8, 8)})
    assert shapes_of(fixed) == {"image": (2, 3, 8, 8), "mask": (2, "unknown_1"), "y": (2, "other")}
    (inside,) = fixed.graph.value_info
    assert [dim.dim_value for dim in inside.type.tensor_type.shape.dim] == [2, 8]


def test_a_size_without_a_name_is_fixed_for_its_input_alone() -> None:
    fixed = fix_shapes(two_inputs(), {"mask": (2, 5)})
    assert shapes_of(fixed)["mask"] == (2, 5)
    assert shapes_of(fixed)["image"] == (2, 3, "side", "side")


def test_two_inputs_that_agree_are_fixed_together() -> None:
    fixed = fix_shapes(two_inputs(), {"image": (2, 3, 8, 8), "mask": (2, 5)})
    assert all(spec.is_static for spec in read_io(fixed).inputs)


def test_saying_what_the_file_says_changes_nothing() -> None:
    made = relu()
    before = made.SerializeToString()
    assert fix_shapes(made, {"x": (1, 4)}).SerializeToString() == before


def test_no_shapes_change_nothing() -> None:
    before = two_inputs().SerializeToString()
    assert fix_shapes(two_inputs(), {}).SerializeToString() == before


def test_an_unknown_input_suggests_the_nearest() -> None:
    problem = refusal({"images": (2, 3, 8, 8)})
    assert (problem.message, problem.remedy) == ("unknown input 'images' in shapes=", "did you mean 'image'?")


def test_another_number_of_dimensions_is_refused_with_both_numbers() -> None:
    assert refusal({"image": (3, 8, 8)}).message == "input 'image' has 4 dimensions, shapes= gives 3"


def test_an_input_whose_rank_the_file_does_not_say_is_refused() -> None:
    made = relu(inputs=[value("x", None)])
    assert refusal({"x": (1, 4)}, made).message == "input 'x' has no shape in the file, so shapes= cannot fix it"


def test_a_size_the_file_fixes_otherwise_is_a_contradiction_that_quotes_the_file() -> None:
    assert refusal({"image": (2, 4, 8, 8)}).message == (
        "input 'image' has shape ('batch', 3, 'side', 'side') in the file, which (2, 4, 8, 8) contradicts"
    )


def test_one_name_cannot_have_two_values_in_one_input() -> None:
    assert refusal({"image": (2, 3, 8, 9)}).message == "shapes= gives the size 'side' two values, 8 and 9"


def test_one_name_cannot_have_two_values_in_two_inputs() -> None:
    problem = refusal({"image": (2, 3, 8, 8), "mask": (4, 5)})
    assert problem.message == "shapes= gives the size 'batch' two values, 2 and 4"

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.records.model import Model


def make_nothing() -> onnx.ModelProto:
    return onnx.ModelProto()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("models/detector.onnx", "detector"),
        (Path("models") / "detector.onnx", "detector"),
        ("C:\\models\\detector v2.onnx", "detector_v2"),
        ("models/été.onnx", "_t_"),
        ("a[1]::b.onnx", "a_1_b"),
        ("resnet-18.fp16.onnx", "resnet-18.fp16"),
    ],
)
def test_a_file_is_called_by_its_stem_made_safe_for_test_ids(path: str | Path, name: str) -> None:
    model = Model.onnx(path)
    assert (model.id, model.kind, model.source) == (name, "onnx", str(path))


@given(st.text(min_size=1, max_size=100))
def test_any_path_gives_a_name_that_can_stand_in_an_id(path: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.+-]+", Model.onnx(path).name)


def test_a_name_can_be_given() -> None:
    assert Model.onnx("models/detector.onnx", name="yolo").id == "yolo"


@pytest.mark.parametrize("name", ["two words", "a/b", "a[0]", "a::b", "naïve", "a\n"])
def test_a_name_that_cannot_stand_in_a_test_id_is_refused_with_what_can(name: str) -> None:
    with pytest.raises(UsageProblem, match="cannot stand in a test id") as caught:
        Model.onnx("m.onnx", name=name)
    assert caught.value.remedy == "use letters, digits and . _ + - in name=."
    with pytest.raises(UsageProblem, match="cannot stand in a test id"):
        Model.build(name, make_nothing)


def test_a_name_may_be_long_and_no_longer() -> None:
    assert Model.build("m" * 100, make_nothing).name == "m" * 100
    with pytest.raises(UsageProblem, match="has 300 characters, and 100 are the most") as caught:
        Model.build("m" * 300, make_nothing)
    assert caught.value.remedy == "give the model a shorter name=."
    with pytest.raises(UsageProblem, match="has 101 characters, and 100 are the most"):
        Model.onnx(f"models/{'m' * 101}.onnx")
    assert Model.onnx(f"models/{'m' * 101}.onnx", name="short").name == "short"


def test_a_built_or_embedded_model_needs_a_name() -> None:
    with pytest.raises(UsageProblem, match="model name ''"):
        Model.build("", make_nothing)
    with pytest.raises(UsageProblem, match="model name ''"):
        Model.embedded("")


def test_shapes_are_kept_as_tuples() -> None:
    as_lists: dict[str, Any] = {"images": [1, 3, 320, 320]}
    assert Model.onnx("m.onnx", shapes=as_lists).shapes == {"images": (1, 3, 320, 320)}


@pytest.mark.parametrize("shape", [(0,), (1, -3), (1, 3.0), ("batch", 3), (None,), 5, "13", None])
def test_a_shape_is_positive_whole_numbers(shape: Any) -> None:
    with pytest.raises(UsageProblem, match="must be positive whole numbers") as caught:
        Model.onnx("detector.onnx", shapes={"images": shape})
    assert "'detector'" in caught.value.message
    assert "'images'" in caught.value.message


@pytest.mark.parametrize("limits", [(0, 1), (-1.5, 1.5), (3, 3)])
def test_a_range_is_low_and_high(limits: tuple[float, float]) -> None:
    assert Model.onnx("m.onnx", inputs={"x": limits}).ranges == {"x": limits}


@pytest.mark.parametrize(
    "limits", [(1, 0), (0,), (0, 1, 2), (0, math.nan), (0, math.inf), (-math.inf, 0), ("a", "b"), (None, 1), 5, None]
)
def test_a_range_that_is_none_is_refused(limits: Any) -> None:
    with pytest.raises(UsageProblem, match=r"of 'x' must be \(low, high\), two finite numbers"):
        Model.onnx("m.onnx", inputs={"x": limits})


def test_a_model_from_a_function_says_where_the_function_is() -> None:
    model = Model.build("made", make_nothing)
    assert (model.id, model.kind) == ("made", "build")
    assert model.source == f"{__name__}.make_nothing"
    assert model.function is make_nothing


def test_an_embedded_model_is_called_what_it_is() -> None:
    model = Model.embedded("digits-cnn")
    assert (model.id, model.kind, model.source) == ("digits-cnn", "embedded", "digits-cnn")

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_winml.errors import RunFailed, UsageProblem
from pytest_winml.records.artifact import TensorSpec
from pytest_winml.session.feeding import checked_feeds
from pytest_winml.session.tensors import to_message

INPUTS = (TensorSpec(name="x", dtype="float32", shape=(1, 2)), TensorSpec(name="ids", dtype="int64", shape=None))


def refusal(feeds: Any) -> UsageProblem:
    with pytest.raises(UsageProblem) as caught:
        checked_feeds(feeds, INPUTS)
    return caught.value


def test_arrays_of_the_right_type_go_through_as_they_are() -> None:
    feeds = {"x": np.zeros((1, 2), np.float32), "ids": np.int64(3), "a weight that can be fed": np.zeros(1)}
    assert checked_feeds(feeds, INPUTS) == feeds


@pytest.mark.parametrize(("value", "kind"), [([1, 2], "a list"), (1.5, "a float"), (None, "None"), ((), "a tuple")])
def test_what_is_no_array_is_refused_by_the_name_of_its_input(value: object, kind: str) -> None:
    problem = refusal({"x": value})
    assert problem.message == f"input 'x' is {kind}, not a NumPy array"
    assert problem.remedy == "pass numpy.asarray(..., dtype='float32')."


def test_a_wrong_type_of_numbers_is_refused_by_the_name_of_its_input() -> None:
    problem = refusal({"ids": np.zeros(3, np.int32)})
    assert problem.message == "input 'ids' is int32, the model takes int64"
    assert problem.remedy == "convert it with .astype('int64')."


@pytest.mark.parametrize("feeds", [[1, 2], np.zeros(2), "x"])
def test_feeds_without_names_are_refused_with_the_form(feeds: object) -> None:
    assert refusal(feeds).remedy == "write run({'x': array, 'ids': array})."


def test_a_name_that_is_no_text_is_refused() -> None:
    assert refusal({1: np.zeros(1)}).message == "run(): 1 is no name of an input"


def test_a_tensor_that_is_no_array_cannot_be_passed_between_processes() -> None:
    with pytest.raises(RunFailed, match="'y' is a list"):
        to_message("y", [1, 2])  # type: ignore[arg-type]

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import ModelError
from pytest_winml.records.artifact import TensorSpec

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def tensor(
    dtype: str, shape: tuple[int | str, ...] = (64, 16), low: float | None = None, high: float | None = None
) -> TensorSpec:
    return TensorSpec(name="x", dtype=dtype, shape=shape, low=low, high=high)


def made(spec: TensorSpec, seed: int = 0) -> Any:
    return random_feeds([spec], seed)["x"]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_an_input_has_the_type_and_shape_that_were_asked_for(dtype: str) -> None:
    array = made(tensor(dtype))
    assert (array.dtype, array.shape) == (np.dtype(dtype), (64, 16))


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_spread_over_zero_to_one_when_no_range_is_given(dtype: str) -> None:
    array = made(tensor(dtype))
    assert 0 <= array.min() < 0.1
    assert 0.9 < array.max() <= 1


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_whole_numbers_are_zero_and_one_when_no_range_is_given(dtype: str) -> None:
    assert set(made(tensor(dtype)).ravel().tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_obey_a_range(dtype: str) -> None:
    array = made(tensor(dtype, low=-3.0, high=-1.0))
    assert -3 <= array.min() < -2.8
    assert -1.2 < array.max() <= -1


@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_numbers_reach_both_ends_of_a_range_and_not_beyond(dtype: str) -> None:
    assert set(made(tensor(dtype, low=2, high=5)).ravel().tolist()) == {2, 3, 4, 5}


def test_a_range_of_one_value_gives_that_value() -> None:
    assert set(made(tensor("int64", low=7, high=7)).ravel().tolist()) == {7}
    assert set(made(tensor("float32", low=0.5, high=0.5)).ravel().tolist()) == {0.5}


def test_one_end_of_a_range_can_be_left_out() -> None:
    assert made(tensor("float32", low=-1.0)).min() < -0.8
    assert made(tensor("float32", high=4.0)).max() > 3.5


def test_a_scalar_is_an_array_without_dimensions() -> None:
    assert made(tensor("float32", shape=())).shape == ()


def test_an_empty_tensor_is_empty() -> None:
    assert made(tensor("float32", shape=(0, 4))).shape == (0, 4)


@given(seed=st.integers(0, 2**32 - 1))
def test_one_seed_gives_one_set_of_inputs_and_the_next_another(seed: int) -> None:
    spec = tensor("float32")
    assert np.array_equal(made(spec, seed), made(spec, seed))
    assert not np.array_equal(made(spec, seed), made(spec, seed + 1))


def test_inputs_of_one_feed_differ_from_each_other() -> None:
    specs = [TensorSpec(name=name, dtype="float32", shape=(8,)) for name in ("a", "b")]
    feeds = random_feeds(specs)
    assert list(feeds) == ["a", "b"]
    assert not np.array_equal(feeds["a"], feeds["b"])


def test_no_inputs_are_no_feeds() -> None:
    assert random_feeds([]) == {}


@pytest.mark.parametrize("shape", [("batch", 3), (1, "unknown_1")])
def test_a_shape_that_is_not_fixed_is_refused_with_the_words_that_fix_it(shape: tuple[int | str, ...]) -> None:
    with pytest.raises(ModelError, match=r"input 'x' has shape .* which is not fixed") as caught:
        made(tensor("float32", shape))
    assert caught.value.remedy == "give it one: Model.onnx(..., shapes={'x': (...)})."


def test_an_input_of_unknown_rank_is_refused_with_what_to_do() -> None:
    with pytest.raises(ModelError, match="input 'x' has no shape in the file") as caught:
        made(TensorSpec(name="x", dtype="float32", shape=None))
    assert "pass feeds to run()" in str(caught.value.remedy)


def test_text_cannot_be_made_up() -> None:
    with pytest.raises(ModelError, match="input 'x' takes text") as caught:
        made(tensor("string", (1,)))
    assert caught.value.remedy == "pass feeds to run()."

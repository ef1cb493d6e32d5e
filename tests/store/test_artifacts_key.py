"""The key of a stage's result: the same for the same ingredients, however they are written, and for no others."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.records.store import StageIngredients, StoredFile
from pytest_winml.store.artifacts import stage_key
from pytest_winml.store.digests import content_digest
from tests.store.stages import ingredients

if TYPE_CHECKING:
    from collections.abc import Callable

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))
tables = st.dictionaries(text, text, max_size=4)
recipes = st.builds(
    StageIngredients,
    stage=text,
    stage_version=st.integers(0, 9),
    input_digest=text,
    options=st.dictionaries(text, values, max_size=4),
    tools=tables,
    ep_identity=st.none() | tables,
)


def shuffled(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    match value:
        case dict():
            return {key: shuffled(value[key], draw) for key in draw(st.permutations(list(value)))}
        case list():
            return [shuffled(one, draw) for one in value]
    return value


@given(recipe=recipes, data=st.data())
def test_the_order_of_keys_and_the_spaces_between_them_do_not_matter(
    recipe: StageIngredients, data: st.DataObject
) -> None:
    fields = shuffled(msgspec.to_builtins(recipe), data.draw)
    spaced = json.dumps(fields, indent=data.draw(st.integers(0, 4)))
    assert stage_key(msgspec.json.decode(spaced, type=StageIngredients)) == stage_key(recipe)


@given(one=recipes, other=recipes)
@example(one=ingredients(options={"a": 1}), other=ingredients(options={"a": True}))
@example(one=ingredients(options={"a": 1}), other=ingredients(options={"a": "1"}))
@example(one=ingredients(options={"a": [["b"], []]}), other=ingredients(options={"a": [[], ["b"]]}))
@example(one=ingredients(tools={"onnx": "1"}), other=ingredients(options={"onnx": "1"}))
@example(one=ingredients(ep_identity={}), other=ingredients(ep_identity=None))
@example(one=ingredients(options={'a":1,"b': 2}), other=ingredients(options={"a": 1, "b": 2}))
def test_different_ingredients_have_different_keys(one: StageIngredients, other: StageIngredients) -> None:
    assert (stage_key(one) == stage_key(other)) is (repr_of(one) == repr_of(other))


def repr_of(recipe: StageIngredients) -> str:
    """An oracle that tells 1 from True and from 1.0, which Python calls equal."""
    return repr(ordered(msgspec.to_builtins(recipe)))


def ordered(value: Any) -> Any:
    match value:
        case dict():
            return {key: ordered(value[key]) for key in sorted(value)}
        case list():
            return [ordered(one) for one in value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "optimize"},
        {"stage_version": 2},
        {"input_digest": "cd" * 32},
        {"options": {"opset": 17}},
        {"tools": {"onnx": "1.19.0"}},
        {"ep_identity": {"soc": "60"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_ingredient_counts(change: dict[str, Any]) -> None:
    base = ingredients()
    assert stage_key(msgspec.structs.replace(base, **change)) != stage_key(base)
    assert len(change) == 1


def test_no_ingredient_was_forgotten_above() -> None:
    assert len(msgspec.structs.fields(StageIngredients)) == 6


def test_a_key_is_a_name_that_every_file_system_takes() -> None:
    assert re.fullmatch("[0-9a-f]{64}", stage_key(ingredients(options={"a/b": "..\\ü"})))


def test_keys_stay_what_they_are_from_version_to_version() -> None:
    """Stores outlive the program: whoever changes this makes every store build everything again."""
    known = ingredients(options={"opset": 17, "names": ["gélu"]}, tools={"onnx": "1.19.0"}, ep_identity={"soc": "60"})
    canonical = (
        '{"ep_identity":{"soc":"60"},"input_digest":"' + "ab" * 32 + '","options":{"names":["gélu"],"opset":17},'
        '"schema":1,"stage":"export","stage_version":1,"tools":{"onnx":"1.19.0"}}'
    )
    assert stage_key(known) == hashlib.sha256(canonical.encode("utf-8")).hexdigest()


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", object()], ids=["nan", "inf", "half", "object"]
)
def test_what_json_cannot_say_is_refused_with_the_stage(value: object) -> None:
    with pytest.raises(UsageProblem, match="options of stage 'export' cannot be written as JSON"):
        stage_key(ingredients(options={"a": value}))


def test_the_digest_of_a_result_is_about_names_and_contents_in_any_order() -> None:
    one = StoredFile(name="a", sha256="1" * 64, size_bytes=1)
    two = StoredFile(name="b", sha256="2" * 64, size_bytes=2)
    swapped = (StoredFile(name="b", sha256="1" * 64, size_bytes=1), StoredFile(name="a", sha256="2" * 64, size_bytes=2))
    assert content_digest([one, two]) == content_digest([two, one])
    assert content_digest([one, two]) != content_digest(swapped)
    assert content_digest([one, two]) != content_digest([one])

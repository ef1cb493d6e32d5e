from __future__ import annotations

from typing import Any

import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.records.recipe import PRECISIONS, Recipe


@pytest.mark.parametrize(
    ("recipe", "shown"),
    [
        (Recipe(), "default"),
        (Recipe(precision="w8a16"), "w8a16"),
        (Recipe(optimize="none", precision="fp32"), "unoptimized-fp32"),
        (Recipe(opset=21, exporter="dynamo"), "opset21-dynamo"),
        (Recipe(compile=True), "compiled"),
        (Recipe(compile=False), "uncompiled"),
        (Recipe(optimize=("gelu_fusion", "layer_norm")), "gelu_fusion+layer_norm"),
        (
            Recipe(opset=17, exporter="dynamo", optimize=("gelu_fusion",), precision="w8a8", compile=True),
            "opset17-dynamo-gelu_fusion-w8a8-compiled",
        ),
        (Recipe(precision="w8a16", name="shipping"), "shipping"),
    ],
)
def test_an_id_says_what_differs_from_the_default(recipe: Recipe, shown: str) -> None:
    assert recipe.id == shown


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_of_the_contract_is_accepted(precision: str) -> None:
    assert Recipe(precision=precision).precision == precision


def test_dash_and_underscore_are_the_same_in_optimization_names() -> None:
    assert Recipe(optimize=("gelu-fusion",)) == Recipe(optimize=("gelu_fusion",))
    assert Recipe(optimize=("gelu-fusion",)).id == "gelu_fusion"


@pytest.mark.parametrize(
    ("fields", "message", "remedy"),
    [
        ({"precision": "w8a61"}, "unknown precision 'w8a61'", "did you mean 'w8a16'?"),
        ({"exporter": "dinamo"}, "unknown exporter 'dinamo'", "did you mean 'dynamo'?"),
        (
            {"optimize": "gelu_fusion"},
            "optimize='gelu_fusion' is neither 'default' nor 'none'",
            "name single optimizations as a tuple: optimize=('gelu_fusion',).",
        ),
        ({"optimize": ()}, "optimize=() names no optimization", 'write optimize="none".'),
        ({"optimize": 3}, "optimize=3 is neither a word nor a tuple of names", None),
        ({"optimize": ("gelu", 3)}, "optimize=('gelu', 3) is neither a word nor a tuple of names", None),
        ({"compile": "yes"}, "compile='yes': expected \"auto\", True or False", None),
        ({"opset": 0}, "opset=0 is no opset", "write a whole number such as 17."),
        ({"opset": "17"}, "opset='17' is no opset", "write a whole number such as 17."),
        ({"opset": True}, "opset=True is no opset", "write a whole number such as 17."),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], message: str, remedy: str | None) -> None:
    with pytest.raises(UsageProblem) as caught:
        Recipe(**fields)
    assert (caught.value.message, caught.value.remedy) == (message, remedy)


def test_a_misspelt_field_is_an_error_and_not_ignored() -> None:
    wrong: dict[str, Any] = {"precison": "w8a16"}
    with pytest.raises(TypeError, match="precison"):
        Recipe(**wrong)


def test_different_choices_have_different_ids() -> None:
    recipes = [
        Recipe(),
        *(Recipe(precision=precision) for precision in PRECISIONS if precision != "auto"),
        Recipe(optimize="none"),
        Recipe(optimize=("none_such",)),
        Recipe(opset=17),
        Recipe(exporter="dynamo"),
        Recipe(compile=True),
        Recipe(compile=False),
    ]
    assert len({recipe.id for recipe in recipes}) == len(recipes)

from __future__ import annotations

from typing import Any

import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.marks import as_parameter, cases_of
from pytest_winml.records.case import Case
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.target import Target

A = Model.onnx("a.onnx")
B = Model.onnx("b.onnx")
FAST = Recipe(name="fast")
SLOW = Recipe(name="slow")


def mark(*args: Any, **keywords: Any) -> pytest.Mark:
    made: pytest.Mark = pytest.mark.winml(*args, **keywords).mark
    return made


def ids(*markers: pytest.Mark) -> list[str]:
    return [case.id for case in cases_of(markers)]


def refusal(*markers: pytest.Mark) -> UsageProblem:
    with pytest.raises(UsageProblem) as caught:
        cases_of(markers)
    return caught.value


def test_cases_are_the_product_in_the_order_written() -> None:
    assert ids(mark(models=[B, A], recipes=[SLOW, FAST], targets=["qnn:npu", "cpu"])) == [
        "b-slow-qnn:npu", "b-slow-cpu", "b-fast-qnn:npu", "b-fast-cpu",
        "a-slow-qnn:npu", "a-slow-cpu", "a-fast-qnn:npu", "a-fast-cpu",
    ]  # fmt: skip


def test_without_recipes_there_is_the_default_one() -> None:
    (case,) = cases_of([mark(models=[A], targets=["cpu"])])
    assert case == Case(model=A, recipe=Recipe(), target=Target("cpu"))


def test_singular_forms_mean_one() -> None:
    assert ids(mark(model=A, recipe=FAST, target="cpu")) == ["a-fast-cpu"]


def test_one_value_may_stand_where_a_list_is_meant() -> None:
    assert ids(mark(models=A, recipes=FAST, targets="qnn:npu")) == ["a-fast-qnn:npu"]
    assert ids(mark(models=A, targets=Target("cpu"))) == ["a-default-cpu"]


@pytest.mark.parametrize("kind", [list, tuple, dict.fromkeys])
def test_any_collection_is_a_list(kind: Any) -> None:
    assert ids(mark(models=[A], targets=kind(["cpu", "qnn:npu"]))) == ["a-default-cpu", "a-default-qnn:npu"]


def test_targets_may_be_text_or_targets_in_one_list() -> None:
    assert ids(mark(models=[A], targets=["CPU", Target("qnn:npu", soc="sm8750")])) == [
        "a-default-cpu",
        "a-default-qnn:npu@sm8750",
    ]


def test_the_nearest_mark_wins_for_each_keyword_alone() -> None:
    function = mark(targets=["qnn:npu"])
    of_class = mark(recipes=[FAST], targets=["cpu"])
    module = mark(models=[A], recipes=[SLOW], targets=["dml:gpu"])
    assert ids(function, of_class, module) == ["a-fast-qnn:npu"]


def test_a_singular_nearby_wins_over_a_plural_far_away() -> None:
    assert ids(mark(model=B), mark(models=[A], targets=["cpu"])) == ["b-default-cpu"]
    assert ids(mark(models=[B]), mark(model=A, target="cpu")) == ["b-default-cpu"]


@pytest.mark.parametrize(
    ("keywords", "missing"),
    [({"models": [A]}, "targets"), ({"targets": ["cpu"]}, "models"), ({}, "models")],
)
def test_what_no_mark_says_is_named(keywords: dict[str, Any], missing: str) -> None:
    problem = refusal(mark(**keywords))
    assert problem.message == f"@pytest.mark.winml says no {missing}"
    assert problem.remedy == f"add {missing}=[...]."


@pytest.mark.parametrize(("typo", "nearest"), [("modles", "models"), ("targts", "targets"), ("recipies", "recipes")])
def test_an_unknown_keyword_suggests_the_nearest(typo: str, nearest: str) -> None:
    problem = refusal(mark(**{typo: []}))
    assert problem.message == f"unknown keyword of @pytest.mark.winml {typo!r}"
    assert problem.remedy == f"did you mean {nearest!r}?"


@pytest.mark.parametrize("plural", ["models", "recipes", "targets"])
def test_both_forms_in_one_mark_are_refused(plural: str) -> None:
    values: dict[str, Any] = {"models": A, "recipes": FAST, "targets": "cpu"}
    value = values[plural]
    for keywords in ({plural: [value], plural[:-1]: value}, {plural[:-1]: value, plural: [value]}):
        assert refusal(mark(**keywords)).message == f"@pytest.mark.winml says both {plural} and its singular"


def test_arguments_without_a_keyword_are_refused() -> None:
    assert refusal(mark([A], ["cpu"])).message == "@pytest.mark.winml takes keywords only"


@pytest.mark.parametrize("keyword", ["models", "recipes", "targets"])
def test_an_empty_list_is_refused_and_is_not_no_test(keyword: str) -> None:
    keywords: dict[str, Any] = {"models": [A], "targets": ["cpu"], keyword: []}
    assert refusal(mark(**keywords)).message == f"@pytest.mark.winml({keyword}=...) is empty"


@pytest.mark.parametrize(
    ("keyword", "value", "shown", "expected"),
    [
        ("models", ["a.onnx"], "'a.onnx'", "Model"),
        ("model", "a.onnx", "'a.onnx'", "Model"),
        ("model", [A], "[Model(", "Model"),
        ("recipes", ["w8a16"], "'w8a16'", "Recipe"),
        ("targets", [None], "None", "str or Target"),
        ("targets", ["cpu", 3], "3", "str or Target"),
    ],
)
def test_a_value_of_the_wrong_kind_is_shown_with_the_kind_that_is_meant(
    keyword: str, value: Any, shown: str, expected: str
) -> None:
    message = refusal(mark(**{keyword: value})).message
    assert message.startswith(f"@pytest.mark.winml({keyword}=...) holds {shown}")
    assert message.endswith(f"which is no {expected}")


@pytest.mark.parametrize(
    ("keyword", "value", "kind"),
    [("models", 3, "int"), ("models", None, "NoneType"), ("models", "a.onnx", "str"), ("recipes", "w8a16", "str")],
)
def test_something_that_is_no_list_is_refused_by_its_type(keyword: str, value: Any, kind: str) -> None:
    assert refusal(mark(**{keyword: value})).message == f"@pytest.mark.winml({keyword}=...) takes a list, not {kind}"


def test_a_generator_is_refused_since_the_first_test_would_use_it_up() -> None:
    assert "takes a list, not generator" in refusal(mark(models=(model for model in [A]), targets=["cpu"])).message


def test_a_target_that_is_misspelt_suggests_the_nearest() -> None:
    assert refusal(mark(models=[A], targets=["qnn:npx"])).remedy == "did you mean 'qnn:npu'?"


@pytest.mark.parametrize(
    "twins",
    [
        {"models": [A, Model.onnx("other/a.onnx")]},
        {"targets": ["qnn:npu", "QNNExecutionProvider:npu"]},
        {"recipes": [Recipe(), Recipe(name="default")]},
    ],
    ids=["models", "targets", "recipes"],
)
def test_two_cases_of_one_id_are_refused_and_not_renamed(twins: dict[str, Any]) -> None:
    problem = refusal(mark(**{"models": [A], "targets": ["cpu"], **twins}))
    assert problem.message.startswith("two cases have the id 'a-default-")
    assert problem.remedy == "tell them apart with name=."


@pytest.mark.parametrize(
    ("target", "device"), [("cpu", "cpu"), ("openvino:cpu", "cpu"), ("dml:gpu", "gpu"), ("npu", "npu")]
)
def test_a_parameter_carries_its_id_and_the_mark_of_its_device(target: str, device: str) -> None:
    (case,) = cases_of([mark(model=A, target=target)])
    parameter = as_parameter(case)
    assert parameter.values == (case,)
    assert parameter.id == case.id
    assert [one.name for one in parameter.marks] == [device]

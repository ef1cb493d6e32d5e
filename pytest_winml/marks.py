"""The `winml` marker: what it may say, and the cases it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.errors import UsageProblem, unknown_name
from pytest_winml.records.case import Case
from pytest_winml.records.gate import Gate, parse_limits
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.target import Target, as_target

if TYPE_CHECKING:
    from collections.abc import Mapping

_SINGULAR = {"model": "models", "recipe": "recipes", "target": "targets"}
_KEYWORDS = (*_SINGULAR, *_SINGULAR.values())
_KINDS: dict[str, tuple[type, ...]] = {"models": (Model,), "recipes": (Recipe,), "targets": (str, Target)}


def cases_of(markers: Iterable[pytest.Mark]) -> tuple[Case, ...]:
    """The product of models, recipes and targets; `markers` come nearest first, and the nearest wins per keyword."""
    merged: dict[str, tuple[Any, ...]] = {}
    for marker in markers:
        for keyword, values in _read(marker).items():
            merged.setdefault(keyword, values)
    for keyword in ("models", "targets"):
        if keyword not in merged:
            raise UsageProblem(f"@pytest.mark.winml says no {keyword}", remedy=f"add {keyword}=[...].")
    cases = tuple(
        Case(model=model, recipe=recipe, target=as_target(target))
        for model in merged["models"]
        for recipe in merged.get("recipes", (Recipe(),))
        for target in merged["targets"]
    )
    _refuse_twins(cases)
    return cases


def gate_of(markers: Iterable[pytest.Mark]) -> Gate:
    """The limits of `winml_gate` marks, which come nearest first: the nearest wins, metric by metric."""
    gate = Gate()
    for marker in markers:
        if marker.args:
            raise UsageProblem("@pytest.mark.winml_gate takes keywords only", remedy='write latency="5%".')
        if not marker.kwargs:
            raise UsageProblem("@pytest.mark.winml_gate limits nothing", remedy='write latency="5%".')
        gate = parse_limits(marker.kwargs.items(), "@pytest.mark.winml_gate").overridden_by(gate)
    return gate


def _read(marker: pytest.Mark) -> Mapping[str, tuple[Any, ...]]:
    if marker.args:
        raise UsageProblem("@pytest.mark.winml takes keywords only", remedy="write models=[...], targets=[...].")
    read: dict[str, tuple[Any, ...]] = {}
    for keyword, value in marker.kwargs.items():
        if keyword not in _KEYWORDS:
            raise unknown_name("keyword of @pytest.mark.winml", keyword, _KEYWORDS)
        plural = _SINGULAR.get(keyword, keyword)
        if plural in read:
            raise UsageProblem(f"@pytest.mark.winml says both {plural} and its singular")
        read[plural] = _values(keyword, value)
    return read


def _values(keyword: str, value: Any) -> tuple[Any, ...]:
    plural = _SINGULAR.get(keyword, keyword)
    kinds = _KINDS[plural]
    alone = keyword in _SINGULAR or isinstance(value, kinds)
    if not alone and (isinstance(value, str | Iterator) or not isinstance(value, Iterable)):
        # An iterator would be used up by the first of the tests that share the mark.
        raise UsageProblem(f"@pytest.mark.winml({keyword}=...) takes a list, not {type(value).__name__}")
    values = (value,) if alone else tuple(value)
    if not values:
        raise UsageProblem(f"@pytest.mark.winml({keyword}=...) is empty")
    for one in values:
        if not isinstance(one, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise UsageProblem(f"@pytest.mark.winml({keyword}=...) holds {one!r}, which is no {expected}")
    return values


def _refuse_twins(cases: tuple[Case, ...]) -> None:
    seen: dict[str, Case] = {}
    for case in cases:
        if case.id in seen:
            raise UsageProblem(f"two cases have the id {case.id!r}", remedy="tell them apart with name=.")
        seen[case.id] = case


def for_targets(cases: Iterable[Case], specs: Iterable[str]) -> tuple[Case, ...]:
    """Each model and recipe of the cases once for each of these targets, with the user's SoC and options there."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.model.id, case.recipe.id), []).append(case)
    return tuple(
        Case(model=group[0].model, recipe=group[0].recipe, target=target)
        for group in groups.values()
        for spec in specs
        for target in ([case.target for case in group if case.target.spec == spec] or [Target(spec)])
    )


def as_parameter(case: Case) -> Any:
    """The case with its id and the mark of its device, so that `-m npu` selects it."""
    return pytest.param(case, id=case.id, marks=getattr(pytest.mark, case.target.device))

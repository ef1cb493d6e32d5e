"""From markers on test functions to parametrized items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.errors import WinmlError
from pytest_winml.marks import as_parameter, cases_of, for_targets, gate_of
from pytest_winml.providers.options import check_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from pytest_winml.records.case import Case


def parametrize(
    metafunc: pytest.Metafunc, markers: list[pytest.Mark], *, uses_us: bool, instead: tuple[str, ...] | None = None
) -> str | None:
    """Gives the test its cases, or answers with the usage problem that prevents it.

    `instead` are the targets of a build-only run, which take the place of the marker's.
    """
    where = metafunc.definition.nodeid
    if not uses_us:
        return f"{where} is marked winml and uses none of its fixtures: take `winml`, or remove the mark."
    if not markers:
        return f"{where} uses a winml fixture and has no @pytest.mark.winml(models=..., targets=...)."
    try:
        cases = cases_of(markers) if instead is None else for_targets(cases_of(markers), instead)
    except WinmlError as error:
        return f"{where}: {error.message}" + (f": {error.remedy}" if error.remedy else "")
    metafunc.parametrize("winml_case", [as_parameter(case) for case in cases], indirect=True)
    return None


def gate_problem(metafunc: pytest.Metafunc, markers: list[pytest.Mark]) -> str | None:
    """What is wrong with the limits of a test, or that nothing in it is timed."""
    where = metafunc.definition.nodeid
    try:
        gate_of(markers)
    except WinmlError as error:
        return f"{where}: {error.message}" + (f": {error.remedy}" if error.remedy else "")
    if "winml_latency" not in metafunc.fixturenames:
        return f"{where} is marked winml_gate and times nothing: take `winml_latency`, or remove the mark."
    return None


def collection_problems(items: Iterable[tuple[str, Case | None]]) -> list[str]:
    """What only shows over all items: options an EP does not know, and one id for two different models."""
    problems: dict[str, None] = {}
    seen: dict[str, Case] = {}
    for nodeid, case in items:
        if case is None:
            continue
        try:
            if case.target.ep is not None:
                check_options(case.target.ep, None, case.target.options)
        except WinmlError as error:
            problems[f"{nodeid}: {error}"] = None
        twin = seen.setdefault(case.id, case)
        if twin.model != case.model:
            problems[
                f"{nodeid}: another model has the id {case.id!r} ({twin.model.source}): give one of them name=."
            ] = None
    return list(problems)

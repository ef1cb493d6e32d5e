"""The pytest11 entry point. Every pytest run in the environment pays for it, so it wires and imports nothing heavy.

The run object is made when there is a winml item, or, on an xdist controller, when a worker reports one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.fixtures import winml, winml_artifact, winml_case, winml_latency, winml_monitor, winml_session
from pytest_winml.keys import BENCHMARK_PLUGIN, PROBLEMS, RUN_PLUGIN
from pytest_winml.options import add_options, any_given, build_only

if TYPE_CHECKING:
    from pytest_winml.run import WinmlRun

__all__ = ["winml", "winml_artifact", "winml_case", "winml_latency", "winml_monitor", "winml_session"]

_MARKERS = (
    "winml(models, recipes, targets): run this test for every model, recipe and target",
    "winml_gate(latency, p90, p99, size, memory): limits of a timed test, as latency='5%' or latency='<8ms'",
    "npu: put on winml items whose target is an NPU",
    "gpu: put on winml items whose target is a GPU",
    "cpu: put on winml items whose target is the CPU",
)
# By its entry point, or by its module where plugins are named one by one.
_PYTEST_BENCHMARK = ("benchmark", "pytest_benchmark.plugin")


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    for line in _MARKERS:
        config.addinivalue_line("markers", line)
    if any_given(config):
        _run(config)  # a mistyped option is a usage error even where no item uses it
    if any(map(config.pluginmanager.hasplugin, _PYTEST_BENCHMARK)):
        from pytest_winml import benchmark_bridge

        config.pluginmanager.register(benchmark_bridge, BENCHMARK_PLUGIN)
    if _is_controller(config):
        from pytest_winml.xdist import Controller

        config.pluginmanager.register(Controller(config, _run), "winml-xdist")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    markers = list(metafunc.definition.iter_markers("winml"))
    gates = list(metafunc.definition.iter_markers("winml_gate"))
    uses_us = "winml_case" in metafunc.fixturenames
    if gates:
        from pytest_winml.collection import gate_problem

        problem = gate_problem(metafunc, gates)
        if problem:
            metafunc.config.stash.setdefault(PROBLEMS, []).append(problem)
    if markers or uses_us:
        from pytest_winml.collection import parametrize

        targets = _run(metafunc.config).build_targets if build_only(metafunc.config) else None
        problem = parametrize(metafunc, markers, uses_us=uses_us, instead=targets)
        if problem:
            metafunc.config.stash.setdefault(PROBLEMS, []).append(problem)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    problems = [*config.stash.get(PROBLEMS, []), *(_marked_in_vain(item) for item in items if _is_marked_in_vain(item))]
    if not problems and any("winml_case" in getattr(item, "fixturenames", ()) for item in items):
        problems = _run(config).select(items)
    if problems and hasattr(config, "workerinput"):
        from pytest_winml.xdist import tell_controller

        tell_controller(config, items, problems)
    elif problems:
        raise pytest.UsageError(*problems)


def _is_marked_in_vain(item: pytest.Item) -> bool:
    """A method of a unittest class is never parametrized, so the mark would be passed over."""
    return type(item).__name__ == "TestCaseFunction" and item.get_closest_marker("winml") is not None


def _marked_in_vain(item: pytest.Item) -> str:
    return f"{item.nodeid} is marked winml and is a unittest method, which takes no fixtures: write a function."


def _run(config: pytest.Config) -> WinmlRun:
    """The run object, made and registered on first need."""
    run: WinmlRun | None = config.pluginmanager.get_plugin(RUN_PLUGIN)
    if run is None:
        from pytest_winml.run import start

        run = start(config)
        config.pluginmanager.register(run, RUN_PLUGIN)
    return run


def _is_controller(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput") and config.getoption("dist", "no") != "no"

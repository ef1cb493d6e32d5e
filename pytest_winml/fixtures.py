"""The fixtures. They hand out what the run object makes; nothing heavy is imported before a test asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.keys import RUN_PLUGIN, RUNNER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_winml.facade import Session, Winml, WinmlMonitor
    from pytest_winml.latency import WinmlLatency
    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case
    from pytest_winml.run import WinmlRun


@pytest.fixture
def winml_case(request: pytest.FixtureRequest) -> Case:
    """The model, recipe and target of this test."""
    case: Case = request.param
    return case


@pytest.fixture
def winml(winml_case: Case, request: pytest.FixtureRequest) -> Winml:  # noqa: ARG001 - brings the parameter along
    """The case as an object: artifact, placement, session, trace, memory."""
    from pytest_winml.facade import Winml

    run, item = _run(request), request.node
    return Winml(item.stash[RUNNER], lambda: run.tracer(item), lambda: run.memory(item))


@pytest.fixture
def winml_artifact(winml: Winml) -> Artifact:
    """The built file of this case."""
    return winml.artifact()


@pytest.fixture
def winml_session(winml: Winml) -> Iterator[Session]:
    """An open session on the target."""
    with winml.session() as session:
        yield session


@pytest.fixture
def winml_latency(winml_case: Case, request: pytest.FixtureRequest) -> Iterator[WinmlLatency]:  # noqa: ARG001 - as above
    """The case's time: measure, check against the gate, compare. A test that takes it is a timed one."""
    run = _run(request)
    yield run.begin_timing(request.node)
    run.end_timing(request.node)


@pytest.fixture
def winml_monitor(winml_case: Case, request: pytest.FixtureRequest) -> WinmlMonitor:  # noqa: ARG001 - as above
    """The monitor for the case's EP, for `winml.session(monitor=winml_monitor)`; its `result` is the trace."""
    from pytest_winml.facade import WinmlMonitor
    from pytest_winml.monitors.choice import monitor_for

    return WinmlMonitor(monitor_for(request.node.stash[RUNNER].resolved_target()))


def _run(request: pytest.FixtureRequest) -> WinmlRun:
    run: WinmlRun | None = request.config.pluginmanager.get_plugin(RUN_PLUGIN)
    assert run is not None  # noqa: S101 - there since the item was collected
    return run

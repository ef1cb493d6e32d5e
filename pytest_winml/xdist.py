"""Under xdist the controller sees no items: results and usage problems come to it from the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.keys import RUN_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.run import WinmlRun

_PROBLEMS = "winml_problems"


def tell_controller(config: pytest.Config, items: list[pytest.Item], problems: list[str]) -> None:
    """A worker that raised a usage error would look like a crash: it runs nothing, and says why when it ends."""
    items.clear()
    config.workeroutput[_PROBLEMS] = problems  # type: ignore[attr-defined]


class Controller:
    """Starts the run with the first report that carries a winml result; turns workers' problems into a usage error."""

    def __init__(self, config: pytest.Config, run: Callable[[pytest.Config], WinmlRun]) -> None:
        self._config = config
        self._run = run
        self._problems: dict[str, None] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "winml") and not self._config.pluginmanager.has_plugin(RUN_PLUGIN):
            self._run(self._config).pytest_runtest_logreport(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", None) or {}
        self._problems.update(dict.fromkeys(output.get(_PROBLEMS, ())))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._problems:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for problem in self._problems:
            terminalreporter.write_line(f"ERROR: {problem}", red=True)

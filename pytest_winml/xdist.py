"""Under xdist the controller sees no items: the first report that carries a winml result starts the run there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.keys import RUN

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.run import WinmlRun


class Collector:
    def __init__(self, config: pytest.Config, run: Callable[[pytest.Config], WinmlRun]) -> None:
        self._config = config
        self._run = run

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "winml") and RUN not in self._config.stash:
            self._run(self._config).pytest_runtest_logreport(report)

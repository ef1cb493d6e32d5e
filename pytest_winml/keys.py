"""Where per-run and per-item state lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_winml.run import WinmlRun
    from pytest_winml.runner import CaseRunner

RUN: pytest.StashKey[WinmlRun] = pytest.StashKey()
PROBLEMS: pytest.StashKey[list[str]] = pytest.StashKey()
RUNNER: pytest.StashKey[CaseRunner] = pytest.StashKey()
PHASES: pytest.StashKey[list[pytest.TestReport]] = pytest.StashKey()
FAILURE: pytest.StashKey[BaseException] = pytest.StashKey()

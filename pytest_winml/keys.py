"""Where per-run and per-item state lives; the run object itself is a plugin, found by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_winml.latency import WinmlLatency
    from pytest_winml.runner.case import CaseRunner
    from pytest_winml.runner.tracing import CaseTracer

RUN_PLUGIN = "winml-run"
BENCHMARK_PLUGIN = "winml-benchmark"
PROBLEMS: pytest.StashKey[list[str]] = pytest.StashKey()
RUNNER: pytest.StashKey[CaseRunner] = pytest.StashKey()
LATENCY: pytest.StashKey[WinmlLatency] = pytest.StashKey()
TRACER: pytest.StashKey[CaseTracer] = pytest.StashKey()
PHASES: pytest.StashKey[list[pytest.TestReport]] = pytest.StashKey()
FAILURE: pytest.StashKey[BaseException] = pytest.StashKey()

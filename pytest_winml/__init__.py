"""ONNX models on Windows ML execution providers, as ordinary tests.

    import pytest
    from pytest_winml import Model

    @pytest.mark.winml(models=[Model.embedded("digits-cnn")], targets=["cpu", "qnn:npu"])
    def test_placement(winml):
        assert winml.placement().fallback_nodes == ()

What is named here is imported when it is used: the plugin is paid for by every pytest run in the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_winml.errors import (
        BuildError,
        GateFailed,
        InvalidSamples,
        MeasurementError,
        ModelError,
        MonitorError,
        NotOnTarget,
        ProviderUnavailable,
        RunFailed,
        SessionError,
        TargetAbsent,
        TargetBroken,
        TraceFailed,
        UsageProblem,
        WinmlError,
        WorkerError,
    )
    from pytest_winml.facade import Session, Winml, WinmlMonitor
    from pytest_winml.latency import WinmlLatency
    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case
    from pytest_winml.records.latency import Latency, Verdict
    from pytest_winml.records.model import Model
    from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
    from pytest_winml.records.recipe import Calibration, Overrides, Recipe
    from pytest_winml.records.target import Target
    from pytest_winml.records.trace import OpTrace
    from pytest_winml.simulator.device import SimulatedDevice
    from pytest_winml.stats.paired import PairedTest

_HOMES = {
    "pytest_winml.errors": (
        "BuildError", "GateFailed", "InvalidSamples", "MeasurementError", "ModelError", "MonitorError", "NotOnTarget",
        "ProviderUnavailable", "RunFailed", "SessionError", "TargetAbsent", "TargetBroken", "TraceFailed",
        "UsageProblem", "WinmlError", "WorkerError",
    ),
    "pytest_winml.facade": ("Session", "Winml", "WinmlMonitor"),
    "pytest_winml.latency": ("WinmlLatency",),
    "pytest_winml.records.artifact": ("Artifact",),
    "pytest_winml.records.case": ("Case",),
    "pytest_winml.records.latency": ("Latency", "Verdict"),
    "pytest_winml.records.model": ("Model",),
    "pytest_winml.records.placement": ("FallbackNode", "PlacedNode", "Placement"),
    "pytest_winml.records.recipe": ("Calibration", "Overrides", "Recipe"),
    "pytest_winml.records.target": ("Target",),
    "pytest_winml.records.trace": ("OpTrace",),
    "pytest_winml.simulator.device": ("SimulatedDevice",),
    "pytest_winml.stats.paired": ("PairedTest",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Artifact", "BuildError", "Calibration", "Case", "FallbackNode", "GateFailed", "InvalidSamples", "Latency",
    "MeasurementError", "Model", "ModelError", "MonitorError", "NotOnTarget", "OpTrace", "Overrides", "PairedTest",
    "PlacedNode", "Placement", "ProviderUnavailable", "Recipe", "RunFailed", "Session", "SessionError",
    "SimulatedDevice", "Target", "TargetAbsent", "TargetBroken", "TraceFailed", "UsageProblem", "Verdict", "Winml",
    "WinmlError", "WinmlLatency", "WinmlMonitor", "WorkerError",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Which monitor is for which EP. A new one is one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_winml.records.target import Target
    from pytest_winml.records.trace import TraceLevel
    from pytest_winml.session.monitoring import Monitor


def monitor_for(target: Target, level: TraceLevel = "basic", *, source_model: Path | None = None) -> Monitor:
    """The best account of operators that the target's EP gives, with the hardware's beside it.

    `source_model` is what a compiled model was made from: its nodes have the names that people know.
    """
    from pytest_winml.monitors.combined import Monitors
    from pytest_winml.monitors.hardware import HardwareMonitor

    return Monitors(*_operators(target, level, source_model), HardwareMonitor(target.device))


def _operators(target: Target, level: TraceLevel, source_model: Path | None) -> tuple[Monitor, ...]:
    from pytest_winml.monitors.openvino import OpenVinoMonitor
    from pytest_winml.monitors.ort_profile import OrtProfileMonitor
    from pytest_winml.monitors.qnn import QnnMonitor
    from pytest_winml.monitors.vitisai import VitisAiMonitor

    match target.ep:
        case "qnn":
            return QnnMonitor(level=level, source_model=source_model), OrtProfileMonitor()
        case "openvino":
            return (OpenVinoMonitor(),)
        case "vitisai":
            return (VitisAiMonitor(),)
        case _:
            return (OrtProfileMonitor(),)

"""What a run stands on: host, packages that matter, power state. Unknown is None, never a guess."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from pytest_winml.providers.distributions import runtime_install
from pytest_winml.providers.power import or_none, read_power
from pytest_winml.records.machine import Environment

PACKAGES_THAT_MATTER = (
    "pytest-winml", "pytest", "pytest-xdist", "pytest-benchmark", "msgspec", "numpy", "onnx", "onnxruntime",
    "onnxruntime-windowsml", "onnxruntime-qnn", "onnxruntime-openvino", "onnxruntime-ep-openvino",
    "onnxruntime-directml", "windowsml", "torch", "transformers", "optimum-onnx", "onnxscript", "onnx-ir",
)  # fmt: skip
_CPU_INFO = Path("/proc/cpuinfo")
_DEVICE_TREE = Path("/proc/device-tree/model")
_WINDOWS_CPU = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"


def read_environment() -> Environment:
    import psutil

    runtime = runtime_install()
    return Environment(
        os=platform.system(),
        os_version=platform.version(),
        machine=platform.machine(),
        cpu=cpu_name(),
        logical_cpus=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        runtime=" + ".join(map(str, runtime.distributions)) or None,
        packages=_versions(),
        power=read_power(),
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES_THAT_MATTER:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    if sys.platform == "win32":
        from pytest_winml.providers.windows_system import registry_value

        return or_none(lambda: registry_value(_WINDOWS_CPU, "ProcessorNameString")) or platform.processor()
    else:  # noqa: RET505 - mypy checks one branch per platform
        return or_none(_model_name) or or_none(_device_tree_model) or platform.processor() or platform.machine()


def _model_name() -> str | None:
    for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _device_tree_model() -> str:
    """The board's name: Linux on Arm names cores by numbers only."""
    return _DEVICE_TREE.read_text(encoding="utf-8", errors="replace").strip("\0 \n")

"""What a run stands on: host, packages that matter, power state. Unknown is None, never a guess."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Literal

from pytest_winml.providers.distributions import runtime_install
from pytest_winml.records.machine import Environment, PowerState

PACKAGES_THAT_MATTER = (
    "pytest-winml", "pytest", "pytest-xdist", "pytest-benchmark", "msgspec", "numpy", "onnx", "onnxruntime",
    "onnxruntime-windowsml", "onnxruntime-qnn", "onnxruntime-openvino", "onnxruntime-ep-openvino",
    "onnxruntime-directml", "windowsml", "torch", "transformers", "optimum-onnx", "onnxscript", "onnx-ir",
)  # fmt: skip
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_CPU_INFO = Path("/proc/cpuinfo")
# psutil answers None where the machine does not tell.
_POWER_SOURCES: dict[bool | None, Literal["mains", "battery"]] = {True: "mains", False: "battery"}


def read_environment() -> Environment:
    import psutil

    runtime = runtime_install()
    return Environment(
        os=platform.system(),
        os_version=platform.version(),
        machine=platform.machine(),
        cpu=_cpu_name(),
        logical_cpus=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        runtime=" + ".join(map(str, runtime.distributions)) or None,
        packages=_versions(),
        power=_power(),
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES_THAT_MATTER:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
        except OSError:
            return platform.processor()
    else:
        if _CPU_INFO.is_file():
            for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.lower().startswith("model name"):
                    return line.partition(":")[2].strip()
        return platform.processor() or platform.machine()


def _power() -> PowerState:
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    governor = _GOVERNOR.read_text(encoding="ascii").strip() if _GOVERNOR.is_file() else None
    if battery is None:
        return PowerState(governor=governor)
    return PowerState(
        source=_POWER_SOURCES.get(battery.power_plugged),
        battery_percent=float(battery.percent),
        governor=governor,
    )

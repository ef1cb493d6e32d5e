"""Versions of the tools that decide what a stage produces; they are part of its key."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from pytest_winml.providers.distributions import runtime_install
from pytest_winml.providers.host import this_host

_TOOLS: dict[str, tuple[str, ...]] = {
    "import": ("onnx",),
    "export": ("onnx", "onnxscript", "torch", "transformers", "optimum", "optimum-onnx"),
    "optimize": ("onnx", "onnx-ir", "onnxruntime", "onnxscript"),
    "quantize": ("onnx", "onnxruntime"),
    "compile": ("onnxruntime",),
}


def tool_versions(stage: str) -> dict[str, str]:
    """Distribution and version of each tool of a stage; one that is missing is recorded as such."""
    return {tool: runtime_version() if tool == "onnxruntime" else _version(tool) for tool in _TOOLS[stage]}


def cpu_identity() -> dict[str, str]:
    """What a result stands on that is made for one kind of CPU: its architecture and the instructions it has.

    As numpy finds them, which picks its own kernels by them; where it is told to leave some out, it does so here too.
    """
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    found = config["SIMD Extensions"]
    return {
        "architecture": this_host().architecture,
        "instructions": " ".join([*found.get("baseline", ()), *found.get("found", ())]),
    }


def runtime_version() -> str:
    """The distribution matters as well as the version: four of them install the same module."""
    return " + ".join(map(str, runtime_install().distributions)) or "missing"


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "missing"

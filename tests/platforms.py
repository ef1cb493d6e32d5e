"""What a test needs of the machine it runs on. A skip says which package or system would run it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import pytest

needs_runtime = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs ONNX Runtime: install one extra")
needs_qnn = pytest.mark.skipif(find_spec("onnxruntime_qnn") is None, reason="needs onnxruntime-qnn: install [qnn]")
posix_only = pytest.mark.skipif(os.name != "posix", reason="is about POSIX")


def under_wine() -> bool:
    if sys.platform == "win32":
        import ctypes

        return hasattr(ctypes.windll.ntdll, "wine_get_version")
    else:  # noqa: RET505 - mypy checks one branch per platform
        return False


def wine_breaks(what: str) -> pytest.MarkDecorator:
    """For what works on Windows and not under Wine; docs/windows.md lists every use."""
    return pytest.mark.skipif(under_wine(), reason=f"Wine: {what}")

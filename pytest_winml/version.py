"""The installed version of this package."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    try:
        return importlib.metadata.version("pytest-winml")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"

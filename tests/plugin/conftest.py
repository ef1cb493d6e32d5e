from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

# A run inside this process forgets the modules it imported, and numpy cannot be imported twice: load it before.
import numpy as np  # noqa: F401
import onnx  # noqa: F401
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

DIGITS = """
import pytest
from pytest_winml import Model, Recipe, Target

CNN = Model.embedded("digits-cnn")
VIT = Model.embedded("digits-vit")
"""


@pytest.fixture(autouse=True)
def _runs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may run under xdist, and pytest-benchmark would take the runs that they start for workers.

    pytester reads what those write as UTF-8, which is not what Windows writes.
    """
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Callable[[str], pytest.Pytester]:
    """A project whose only test file is the digits models and the given text."""

    def make(text: str) -> pytest.Pytester:
        pytester.makepyfile(test_it=DIGITS + text)
        return pytester

    return make


@pytest.fixture
def report(pytester: pytest.Pytester) -> Callable[[], dict[str, Any]]:
    def read() -> dict[str, Any]:
        content: dict[str, Any] = json.loads((pytester.path / "reports" / "report.json").read_text(encoding="utf-8"))
        return content

    return read

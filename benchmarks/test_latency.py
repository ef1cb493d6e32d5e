"""How long an inference takes, and that it takes no longer than it did: `pytest benchmarks --winml-save=main`, later
`--winml-baseline=main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml import Model

if TYPE_CHECKING:
    from pytest_winml import WinmlLatency

DIGITS = Model.embedded("digits-cnn")


@pytest.mark.winml(models=[DIGITS], targets=["cpu", "qnn:npu"])
@pytest.mark.winml_gate(latency="10%", size="2%")
def test_it_is_no_slower_than_it_was(winml_latency: WinmlLatency) -> None:
    winml_latency.check()

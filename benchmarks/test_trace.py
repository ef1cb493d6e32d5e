"""Where the work of an inference is done: every operator on its target, and what is timed is what is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml import Model

if TYPE_CHECKING:
    from pytest_winml import Winml, WinmlLatency

DIGITS = Model.embedded("digits-cnn")


@pytest.mark.winml(models=[DIGITS], targets=["cpu", "qnn:npu"])
def test_convolutions_do_most_of_the_work_and_none_of_it_elsewhere(winml: Winml) -> None:
    trace = winml.trace(runs=3)
    trace.require_no_fallback()
    assert trace.share(op_type="Conv") > 0.3


@pytest.mark.winml(model=DIGITS, target="qnn:npu")
def test_on_a_device_what_is_traced_is_what_is_timed(winml: Winml, winml_latency: WinmlLatency) -> None:
    """Needs an NPU: times of an emulator mean nothing, and there this skips."""
    assert winml_latency.measure().p50_ms > 0
    trace = winml.trace()
    assert winml_latency.measured is not None
    assert trace.metadata.artifact_key == winml_latency.measured.artifact_key
    assert trace.summary["accelerator_us"] is not None

"""OpenVINO: placement and partition times from ORT's profile, and its own operators where the EP adds them.

The classic wheel shows one fused node for each partition. The plugin EP adds an event for each of its operators
(`op_name` and `node_name` among its arguments) with an ORT that has the API for it, 1.25 or newer. No option of the EP
is needed for either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_winml.monitors.ort_profile import OrtProfileMonitor
from pytest_winml.records.target import EP_BY_NAME

if TYPE_CHECKING:
    from pytest_winml.records.trace import OpTrace
    from pytest_winml.session.monitoring import Window

_NO_OPERATORS = "the OpenVINO EP added no operators of its own to ORT's profile: times are of whole partitions"


class OpenVinoMonitor(OrtProfileMonitor):
    def __init__(self) -> None:
        super().__init__(ep=EP_BY_NAME["openvino"].provider, backend="onnxruntime profile, openvino")

    def collect(self, window: Window) -> OpTrace:
        trace = super().collect(window)
        own = [operator for operator in trace.operators if operator.meaning == "EP's own operator time"]
        placement = window.placement
        summary = {
            **trace.summary,
            "nodes_on_target": len(placement.target_nodes),
            "nodes_elsewhere": len(placement.fallback_nodes) + len(placement.boundary_nodes),
            "partitions": len(trace.partitions),
            "operators_of_the_ep": len(own),
        }
        notes = trace.notes if own or trace.status != "ok" else (*trace.notes, _NO_OPERATORS)
        return msgspec.structs.replace(trace, summary=summary, notes=notes)

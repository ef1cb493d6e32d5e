"""Profiles as ORT writes them, by hand, and windows around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
from pytest_winml.session.monitoring import ObservedRun, Window

if TYPE_CHECKING:
    from pathlib import Path

CPU = "CPUExecutionProvider"
QNN = "QNNExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"


def event(cat: str, name: str, start: int, duration: int, **args: Any) -> dict[str, Any]:
    return {"cat": cat, "pid": 7, "tid": 7, "dur": duration, "ts": start, "ph": "X", "name": name, "args": args}


def run(start: int, duration: int) -> dict[str, Any]:
    return event("Session", "model_run", start, duration)


def node(name: str, start: int, duration: int, op_type: str = "Conv", provider: str = CPU, **args: Any) -> Any:
    known = {"op_name": op_type, "provider": provider, "node_index": "0", **args}
    return event("Node", f"{name}_kernel_time", start, duration, **known)


def fused(number: int, start: int, duration: int, provider: str = QNN) -> Any:
    graph = f"{provider}_123456789_{number}"
    return node(f"{provider}_{graph}_{number}", start, duration, graph, provider)


def text(events: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(one) for one in events) + "\n]\n"


def window(
    profile: Path | None,
    *,
    runs: int = 1,
    warm_up: int = 0,
    provider: str = CPU,
    placement: Placement | None = None,
    model: str = "no model",
    **fields: Any,
) -> Window:
    return Window(
        target="a target",
        provider=provider,
        emulated=fields.pop("emulated", False),
        model_path=model,
        placement=placement or placed({}),
        options=fields.pop("options", {}),
        runs=tuple(ObservedRun(number=n + 1, warm_up=n < warm_up, elapsed_us=1.0) for n in range(runs)),
        profile_path=str(profile) if profile else None,
        **fields,
    )


def placed(target: dict[str, str], fallback: dict[str, str] | None = None, *, ep: str = CPU) -> Placement:
    """Names to op types."""
    return Placement(
        target="a target",
        target_nodes=tuple(PlacedNode(name=name, op_type=op_type, ep=ep) for name, op_type in target.items()),
        fallback_nodes=tuple(
            FallbackNode(name=name, op_type=op_type, ep=CPU) for name, op_type in (fallback or {}).items()
        ),
        boundary_nodes=(),
        partitions=1,
        emulated=False,
    )

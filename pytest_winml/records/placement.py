"""Which node runs where, as the runtime itself recorded it."""

from __future__ import annotations

from typing import Literal

from pytest_winml.records.base import Record

ReasonSource = Literal["qnn_op_trace", "qnn_op_trace_sidecar"]


class PlacedNode(Record, frozen=True, kw_only=True):
    """A node of the graph as the runtime partitioned it; an unnamed node has an empty name."""

    name: str
    op_type: str
    domain: str = ""
    ep: str


class FallbackNode(Record, frozen=True, kw_only=True):
    """A node that did not go to the target. `reason` is the EP's own; None reads "the EP gives no reason"."""

    name: str
    op_type: str
    domain: str = ""
    ep: str
    reason: str | None = None
    reason_source: ReasonSource | None = None

    def __repr__(self) -> str:
        """Short, since pytest shows it where an assertion about placement fails."""
        where = self.ep.removesuffix("ExecutionProvider")
        return f"<{self.op_type} {self.name!r} on {where}: {self.reason or 'the EP gives no reason'}>"


class Placement(Record, frozen=True, kw_only=True):
    """Nodes on the target, nodes elsewhere, and the boundary Q/DQ that an EP leaves to the CPU by design.

    A compiled model shows one EPContext node for all that is inside it; `compiled_nodes` counts those, where the EP
    left an account of the compilation.
    """

    target: str
    target_nodes: tuple[PlacedNode, ...]
    fallback_nodes: tuple[FallbackNode, ...]
    boundary_nodes: tuple[PlacedNode, ...]
    partitions: int
    emulated: bool
    ep_context: bool = False
    compiled_nodes: int | None = None

    @property
    def on_target(self) -> bool:
        """At least one node runs on the target: without that, no number of this session is about it."""
        return bool(self.target_nodes)

    @property
    def total_nodes(self) -> int:
        return len(self.target_nodes) + len(self.fallback_nodes) + len(self.boundary_nodes)

    @property
    def coverage(self) -> float:
        """The share of nodes on the target, boundary Q/DQ left out; 0 for a graph with no node to place."""
        placeable = len(self.target_nodes) + len(self.fallback_nodes)
        return len(self.target_nodes) / placeable if placeable else 0.0

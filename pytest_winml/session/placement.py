"""From ORT's record of who took which node to a `Placement`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_winml.records.base import Record
from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement, ReasonSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.providers.binding import Binding
    from pytest_winml.session.qnn_op_trace import Reasons

# How QNN says that it leaves a Q or DQ at the graph's edge to the CPU by configuration.
_BOUNDARY_REASON = "QNN EP is configured to not take"


class AssignedSubgraph(Record, frozen=True, kw_only=True):
    provider: str
    nodes: tuple[PlacedNode, ...]


def read_assignment(session: Any) -> tuple[AssignedSubgraph, ...]:
    """The runtime's own record; the session was opened with recording on."""
    return tuple(
        AssignedSubgraph(
            provider=subgraph.ep_name,
            nodes=tuple(
                PlacedNode(name=node.name, op_type=node.op_type, domain=node.domain, ep=subgraph.ep_name)
                for node in subgraph.get_nodes()
            ),
        )
        for subgraph in session.get_provider_graph_assignment_info()
    )


def place(
    binding: Binding,
    assignment: Sequence[AssignedSubgraph],
    reasons: Reasons | None,
    boundary: frozenset[str],
    reason_source: ReasonSource = "qnn_op_trace",
) -> Placement:
    """`boundary` holds the names of Q/DQ at the graph's edge, `reasons` what the EP says of nodes it refused."""
    own = [subgraph for subgraph in assignment if subgraph.provider == binding.provider]
    target_nodes = tuple(node for subgraph in own for node in subgraph.nodes)
    fallback: list[FallbackNode] = []
    at_boundary: list[PlacedNode] = []
    for node in (node for subgraph in assignment if subgraph.provider != binding.provider for node in subgraph.nodes):
        reason = reasons.take(node.name, node.op_type) if reasons else None
        if target_nodes and _is_boundary(node, reason, boundary):
            at_boundary.append(node)
        else:
            fallback.append(_fallback(node, reason, reason_source))
    compiled = any(node.op_type == "EPContext" for node in target_nodes)
    return Placement(
        target=binding.target.spec,
        target_nodes=target_nodes,
        fallback_nodes=tuple(fallback),
        boundary_nodes=tuple(at_boundary),
        partitions=len(own) if binding.target.ep != "cpu" else 1,
        emulated=binding.emulated,
        ep_context=compiled,
        compiled_nodes=reasons.supported_nodes if compiled and reasons else None,
    )


def _is_boundary(node: PlacedNode, reason: str | None, boundary: frozenset[str]) -> bool:
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return False
    return node.name in boundary or (reason or "").startswith(_BOUNDARY_REASON)


def _fallback(node: PlacedNode, reason: str | None, source: ReasonSource) -> FallbackNode:
    return FallbackNode(
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        ep=node.ep,
        reason=reason,
        reason_source=source if reason else None,
    )

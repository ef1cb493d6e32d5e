"""Whether a trace tells of every node that an inference executes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_winml.monitors.source_nodes import SourceNode, SourceNodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.records.placement import PlacedNode
    from pytest_winml.records.trace import OnnxNode, OpTrace


def unaccounted_nodes(
    trace: OpTrace, nodes: Iterable[OnnxNode], boundary: Iterable[PlacedNode] = ()
) -> tuple[OnnxNode, ...]:
    """Those of `nodes` that are in no operator of the trace, and not with another EP.

    `boundary` are the Q and DQ at the graph's edge that a placement counts apart. Nodes without a name are counted by
    type: as many as there are.
    """
    wanted = tuple(nodes)
    model = SourceNodes(tuple(SourceNode(name=node.name, op_type=node.op_type) for node in wanted))
    named = {node.name for operator in trace.operators for node in operator.onnx_nodes}
    unnamed = Counter(node.op_type for operator in trace.operators for node in operator.onnx_nodes if not node.name)
    elsewhere = [(node.name, node.op_type) for node in trace.fallback_nodes]
    elsewhere += [(node.name, node.op_type) for node in boundary]
    for name, op_type in elsewhere:
        index = model.find(name)
        if index is not None:
            named.add(wanted[index].name)
        elif not name:
            unnamed[op_type] += 1
    missing = []
    for node in wanted:
        if node.name:
            if node.name not in named:
                missing.append(node)
        elif unnamed[node.op_type] > 0:
            unnamed[node.op_type] -= 1
        else:
            missing.append(node)
    return tuple(missing)

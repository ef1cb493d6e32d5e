"""What changed between two graphs, for a person: nodes by type."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx


class GraphDifference(Record, frozen=True, kw_only=True):
    """Nodes before and after, and by how many each type grew or shrank. Types of other domains carry the domain."""

    nodes_before: int
    nodes_after: int
    added: dict[str, int]
    removed: dict[str, int]

    def __str__(self) -> str:
        """`112 nodes instead of 106: +24 Reshape, +18 Gemm, -18 Add, -18 MatMul`."""
        changes = [f"+{number} {name}" for name, number in _largest_first(self.added)]
        changes += [f"-{number} {name}" for name, number in _largest_first(self.removed)]
        if not changes:
            return f"{self.nodes_after} nodes as before"
        if self.nodes_after == self.nodes_before:
            return f"{self.nodes_after} nodes as before, of other types: {', '.join(changes)}"
        return f"{self.nodes_after} nodes instead of {self.nodes_before}: {', '.join(changes)}"


def difference(before: onnx.ModelProto, after: onnx.ModelProto) -> GraphDifference:
    old, new = nodes_by_type(before), nodes_by_type(after)
    return GraphDifference(
        nodes_before=old.total(),
        nodes_after=new.total(),
        added=dict(sorted((new - old).items())),
        removed=dict(sorted((old - new).items())),
    )


def nodes_by_type(model: onnx.ModelProto) -> Counter[str]:
    """With those inside `If`, `Loop` and functions; without `Constant`, which is a way to write a weight."""
    counted = _count(model.graph.node)
    for function in model.functions:
        counted += _count(function.node)
    return counted


def _count(nodes: Iterable[onnx.NodeProto]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for node in nodes:
        if node.op_type != "Constant":
            counted[f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type] += 1
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                counted += _count(graph.node)
    return counted


def _largest_first(numbers: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))

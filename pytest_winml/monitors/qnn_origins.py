"""From the names that QNN's map gives as an operator's sources to the nodes of the model.

The names are of the graph as ORT had optimised it: some of the model's nodes have got a number, some have no name, and
some nodes are ORT's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_winml.monitors.source_nodes import without_token

if TYPE_CHECKING:
    from pytest_winml.monitors.qnn_op_map import MappedOperator, OpMap
    from pytest_winml.monitors.source_nodes import SourceNodes
    from pytest_winml.records.placement import Placement

# QNN calls the operator of a node without a name after its type and place, and each such source `<type>0`.
UNNAMED = re.compile(r"([A-Za-z]+)\d+")
_UNNAMED_AND_MOVED = "_token_"


class Origins:
    def __init__(self, model: SourceNodes, placement: Placement, op_map: OpMap) -> None:
        self._model = model
        self._placed = {node.name: node.op_type for node in placement.target_nodes}
        self._sources = {
            source for graph in op_map.graphs for operator in graph.operators for source in operator.sources
        }
        self._left = {op_type: list(indices) for op_type, indices in model.unnamed.items()}
        self._taken: dict[str, int] = {}

    def of(self, mapped: MappedOperator | None, ep_name: str | None) -> list[int]:
        """Indices of the nodes; without a map, the operator's own name is all there is to go by."""
        if mapped is None:
            found = self._model.find(ep_name, by_qnn=True) if ep_name else None
            return [] if found is None else [found]
        nodes = (self._find(source, mapped) for source in mapped.sources)
        return list(dict.fromkeys(index for index in nodes if index is not None))

    def _find(self, source: str, mapped: MappedOperator) -> int | None:
        found = self._model.find(source)
        if found is None:
            return self._unnamed(source, mapped)
        return None if self._is_namesake(source, found) else found

    def _is_namesake(self, source: str, found: int) -> bool:
        """`Transpose_token_4` is ORT's own, though the model may have a node that somebody called Transpose."""
        node = self._model.nodes[found]
        if source == node.name or without_token(source) != node.name:
            return False
        placed = self._placed.get(source)
        return (placed is not None and placed != node.op_type) or node.name in self._sources

    def _unnamed(self, source: str, mapped: MappedOperator) -> int | None:
        """The next of its type; an operator that QNN made besides the node's own has no number and takes none."""
        op_type = self._type_of(source, mapped)
        if op_type is None:
            return None
        own = source.startswith(_UNNAMED_AND_MOVED) or UNNAMED.fullmatch(mapped.name) is not None
        if own and self._left[op_type]:
            self._taken[op_type] = self._left[op_type].pop(0)
        elif op_type not in self._taken and self._left[op_type]:
            return self._left[op_type][0]
        return self._taken.get(op_type)

    def _type_of(self, source: str, mapped: MappedOperator) -> str | None:
        if source.startswith(_UNNAMED_AND_MOVED):
            placed = self._placed.get(source)
            return placed if placed in self._left else self._like(mapped.op_type or "")
        match = UNNAMED.fullmatch(source)
        return match[1] if match and match[1] in self._left else None

    def _like(self, qnn_type: str) -> str | None:
        """Conv2d for Conv, PoolMax2d for MaxPool: QNN's types have ONNX's words in them."""
        words = qnn_type.lower()
        for op_type in self._left:
            if op_type.lower() in words or ("pool" in words and "Pool" in op_type):
                return op_type
        return None

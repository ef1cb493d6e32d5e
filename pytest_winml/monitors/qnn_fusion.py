"""Nodes that ORT took out of the graph before QNN saw it: which operator does their work.

ORT leaves no record of that. A node that it removed is in no operator and with no other EP; what it computed is then
computed by a neighbour in the graph, and it is counted there: with the fusion that has no node of its own between the
node's neighbours, or else a Q with what it quantizes, a DQ with what reads it, anything else with what it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from pytest_winml.monitors.source_nodes import SourceNodes

# What ORT and QNN insert by themselves; any other operator without a node is what became of several.
_INSERTED = frozenset({"Transpose", "Reshape", "Cast", "Convert", "Quantize", "Dequantize"})
_QUANTIZING = frozenset({"Cast", "Convert", "Quantize", "Dequantize", None})


class Fusion:
    """`operators` are the nodes of each operator, by index, and are added to in place."""

    def __init__(self, model: SourceNodes, operators: Sequence[list[int]], types: Sequence[str | None]) -> None:
        self._model = model
        self._operators = operators
        self._types = types
        self._owner: dict[int, int] = {}

    def attribute(self, *, elsewhere: AbstractSet[int | None], kept: AbstractSet[int | None]) -> None:
        """Nodes `elsewhere` are with another EP; those `kept` were not removed by ORT, and are not explained away."""
        self._own()
        displaced = self._give_up_quantizers()
        nodes = self._model.nodes
        left = {
            index
            for index, node in enumerate(nodes)
            if index not in self._owner
            and index not in elsewhere
            and not node.constant
            and (index not in kept or index in displaced)
        }
        for group in self._groups({index for index in left if not nodes[index].quantizes}):
            self._give_to_fusion(group)
        self._give_to_neighbours(left - self._owner.keys())

    def _own(self) -> None:
        """A node of several operators is with the first, which is where the others are looked for."""
        for operator, indices in enumerate(self._operators):
            for index in indices:
                self._owner.setdefault(index, operator)

    def _give_up_quantizers(self) -> set[int]:
        """An operator that only has Q and DQ, and is neither, was inserted between them: they belong to others."""
        nodes = self._model.nodes
        displaced = set()
        for operator, indices in enumerate(self._operators):
            if self._types[operator] in _INSERTED - _QUANTIZING and all(nodes[index].quantizes for index in indices):
                displaced |= {index for index in indices if self._owner[index] == operator}
                indices.clear()
        for index in displaced:
            others = [operator for operator, indices in enumerate(self._operators) if index in indices]
            if others:
                self._owner[index] = others[0]
            else:
                del self._owner[index]
        return displaced

    def _groups(self, left: set[int]) -> list[list[int]]:
        """Nodes that hang together."""
        groups = []
        while left:
            group, waiting = [], [min(left)]
            left = left - set(waiting)
            while waiting:
                index = waiting.pop()
                group.append(index)
                near = {*self._model.nodes[index].after, *self._model.nodes[index].before} & left
                waiting += near
                left = left - near
            groups.append(sorted(group))
        return groups

    def _give_to_fusion(self, group: list[int]) -> None:
        nodes = self._model.nodes
        around = {
            owner for index in group for near in nodes[index].after if (owner := self._owner.get(near)) is not None
        }
        beyond = {
            owner for index in group for near in nodes[index].before if (owner := self._owner.get(near)) is not None
        }
        for operator in sorted(beyond):
            if self._works_unnamed(operator):  # its Q is known, and what it quantizes is gone
                self._give(group, operator)
                return
        if not around or not beyond:
            return
        for operator in range(max(around) + 1, min(beyond)):
            if not self._operators[operator] and self._types[operator] not in _INSERTED | {None}:
                self._give(group, operator)
                return

    def _works_unnamed(self, operator: int) -> bool:
        indices = self._operators[operator]
        only_quantizes = bool(indices) and all(self._model.nodes[index].quantizes for index in indices)
        return only_quantizes and self._types[operator] not in _QUANTIZING

    def _give_to_neighbours(self, left: set[int]) -> None:
        """Round after round, since a neighbour may be one that has just been given away."""
        changed = True
        while left and changed:
            changed = False
            for index in sorted(left):
                owner = self._neighbour(index)
                if owner is not None:
                    self._give([index], owner)
                    left.discard(index)
                    changed = True

    def _neighbour(self, index: int) -> int | None:
        node = self._model.nodes[index]
        ways = (node.before, node.after) if node.op_type == "DequantizeLinear" else (node.after, node.before)
        return next((self._owner[near] for way in ways for near in way if near in self._owner), None)

    def _give(self, group: list[int], operator: int) -> None:
        for index in group:
            self._operators[operator].append(index)
            self._owner[index] = operator

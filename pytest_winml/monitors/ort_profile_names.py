"""From the names in ORT's profile to the nodes of the model.

ORT renames what it rewrites: `_token_3` where a name was taken, `/MatMulAddFusion` after the node a fusion began with,
`<tensor>_nchwc` for a convolution in a blocked layout. A suffix is taken off only where what is left is a name of the
model, so a node that is really called `real_token_3` stays that.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_winml.records.trace import OnnxNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx import ModelProto, NodeProto

    from pytest_winml.monitors.ort_profile_reading import Operator

_TOKEN = re.compile(r"_token_\d+$")
_MADE_BY_ORT = (
    re.compile(r"/\w*Fusion\w*/?$"),
    re.compile(r"_nchwc$"),
    re.compile(r"_new_reshape$"),
    re.compile(r"/duplicated$"),
)
# What ORT makes of several nodes under a name of its own, and the node that tells such a group.
_FUSED_FROM = {
    "BiasGelu": ("Erf",),
    "FastGelu": ("Tanh",),
    "Gelu": ("Erf",),
    "LayerNormalization": ("ReduceMean",),
    "QuickGelu": ("Sigmoid",),
    "SimplifiedLayerNormalization": ("ReduceMean",),
    "SkipLayerNormalization": ("LayerNormalization", "ReduceMean"),
}


class ModelNames:
    """The nodes of a model and how they hang together. Without a model nothing is known, and nothing is stripped."""

    def __init__(self, model: ModelProto | None = None) -> None:
        from pytest_winml.graph.reading import graphs_of

        self._nodes: list[NodeProto] = []
        self._main = 0
        if model is not None:
            self._main = len(model.graph.node)
            self._nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
        self._by_name = {node.name: place for place, node in enumerate(self._nodes) if node.name}
        self._makers = {name: place for place, node in enumerate(self._nodes) for name in node.output if name}
        self._users: dict[int, set[int]] = defaultdict(set)
        for place, node in enumerate(self._nodes):
            for name in node.input:
                if name in self._makers:
                    self._users[self._makers[name]].add(place)

    def name_of(self, operator: Operator, nodes: Sequence[OnnxNode]) -> str:
        """That of the node which gave a fused operator its type, or of the first of them."""
        base = self.base(operator.name)
        alike = [node.name for node in nodes if node.op_type == operator.op_type and node.name]
        if len(alike) == 1:
            return alike[0]
        return base if not nodes or any(node.name == base for node in nodes) else nodes[0].name or base

    def base(self, name: str) -> str:
        """The model's own name for it; where it has none, ORT's without the number that other insertions shift."""
        found = self._find(name)
        return self._nodes[found].name if found is not None and self._nodes[found].name else _TOKEN.sub("", name)

    def known(self, names: Iterable[str]) -> tuple[OnnxNode, ...]:
        """The model's nodes behind names of ORT's; what ORT inserted is left out."""
        found = {place for name in names if (place := self._find(name)) is not None}
        return self._records(found)

    def groups(self, operators: Sequence[Operator], placed: Iterable[str]) -> list[tuple[OnnxNode, ...]]:
        """For each operator the nodes it stands for, empty where that is not known.

        `placed` are the names ORT gave to this EP: among them, those without an operator were fused into one.
        """
        groups = [self._first(operator) for operator in operators]
        owners = {place: number for number, group in enumerate(groups) for place in group}
        left = {place for name in placed if (place := self._find(name)) is not None} - owners.keys()
        self._give_patterns(operators, groups, owners, left)
        self._give_neighbours(operators, groups, owners, left)
        return [self._records(group) for group in groups]

    def _records(self, places: Iterable[int]) -> tuple[OnnxNode, ...]:
        nodes = (self._nodes[place] for place in sorted(places))
        return tuple(OnnxNode(name=node.name, op_type=node.op_type) for node in nodes)

    def _find(self, name: str) -> int | None:
        if name in self._by_name:
            return self._by_name[name]
        bare = _TOKEN.sub("", name)
        if bare in self._by_name:
            return self._by_name[bare]
        for pattern in _MADE_BY_ORT:
            base = pattern.sub("", bare)
            if base != bare and (base in self._by_name or pattern.pattern == "_nchwc$"):
                return self._by_name.get(base, self._makers.get(base))
        return None

    def _first(self, operator: Operator) -> set[int]:
        place = self._find(operator.name)
        if place is None:
            place = self._nameless(operator)
        if place is None:
            return set()
        users = self._users[place]
        # This fusion is done before ORT records who gets which node, so the Add is among those of no EP.
        if "/MatMulAddFusion" in operator.name and {self._nodes[user].op_type for user in users} == {"Add"}:
            return {place, *users}
        return {place}

    def _nameless(self, operator: Operator) -> int | None:
        """ORT numbers nodes as the file does, and shows a nameless one as `<type>_<number>`."""
        place = operator.node_index
        if place is None or place >= self._main or operator.name != f"{operator.op_type}_{place}":
            return None
        node = self._nodes[place]
        return place if not node.name and node.op_type == operator.op_type else None

    def _give_patterns(
        self, operators: Sequence[Operator], groups: list[set[int]], owners: dict[int, int], left: set[int]
    ) -> None:
        """Groups of adjacent nodes to operators of ORT's own naming, if there are as many of one as of the other."""
        islands = self._islands(left)
        wanted = Counter(operator.op_type for number, operator in enumerate(operators) if not groups[number])
        for op_type in sorted(wanted.keys() & _FUSED_FROM.keys()):
            marks = _FUSED_FROM[op_type]
            fitting = [island for island in islands if any(self._nodes[place].op_type in marks for place in island)]
            if len(fitting) != wanted[op_type]:
                continue
            numbers = [n for n, one in enumerate(operators) if one.op_type == op_type and not groups[n]]
            for number, island in zip(numbers, fitting, strict=True):
                groups[number] |= island
                owners.update(dict.fromkeys(island, number))
                left -= island
                islands.remove(island)

    def _islands(self, left: set[int]) -> list[set[int]]:
        rest, found = set(left), []
        for first in sorted(left):
            if first not in rest:
                continue
            island, waiting = set(), [first]
            while waiting:
                place = waiting.pop()
                if place in rest:
                    rest.discard(place)
                    island.add(place)
                    waiting += [*self._users[place], *self._sources(place)]
            found.append(island)
        return found

    def _sources(self, place: int) -> list[int]:
        return [self._makers[name] for name in self._nodes[place].input if name in self._makers]

    def _give_neighbours(
        self, operators: Sequence[Operator], groups: list[set[int]], owners: dict[int, int], left: set[int]
    ) -> None:
        """The rest to the one operator beside it that was made of more than its own node."""
        for place in sorted(left):
            op_type = self._nodes[place].op_type
            quantizes = op_type in ("QuantizeLinear", "DequantizeLinear")
            sides = []
            if op_type != "QuantizeLinear":
                sides.append(self._users[place])
            if op_type != "DequantizeLinear":
                sides.append(set(self._sources(place)))
            for side in sides:
                beside = {owners[one] for one in side if one in owners}
                if not quantizes:
                    beside = {number for number in beside if self._is_fused(operators[number], groups[number])}
                # What several read is dequantized in each of them.
                if len(beside) == 1 or (beside and quantizes):
                    for number in beside:
                        groups[number].add(place)
                    owners[place] = min(beside)
                    break

    def _is_fused(self, operator: Operator, group: set[int]) -> bool:
        named = {self._nodes[place].name for place in group}
        types = {self._nodes[place].op_type for place in group}
        return operator.op_type not in types or _TOKEN.sub("", operator.name) not in named

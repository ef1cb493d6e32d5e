"""Which nodes of the user's model an operator of QNN is made of, and a name for it that lasts.

Names come from the model, never from operator ids, graph hashes or the numbers ORT and QNN hand out. Where QNN makes
several operators of one node, the others are named after it with their QNN type; what has no node behind it is named
after the next operator that has.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_winml.monitors.qnn_fusion import Fusion
from pytest_winml.monitors.qnn_origins import UNNAMED, Origins
from pytest_winml.records.base import Record
from pytest_winml.records.trace import OnnxNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.monitors.qnn_csv_rows import Operator
    from pytest_winml.monitors.qnn_op_map import MappedGraph, MappedOperator, OpMap
    from pytest_winml.monitors.source_nodes import SourceNodes
    from pytest_winml.records.placement import Placement

_UNKNOWN_TYPE = "unknown"
_PSEUDO_TYPE = {"input": "Input", "output": "Output"}


class NamedOperator(Record, frozen=True, kw_only=True):
    """`row` is its place among the rows of its partition, or None for an operator that has no row."""

    name: str
    op_type: str
    partition: int | None
    row: int | None
    onnx_nodes: tuple[OnnxNode, ...] = ()
    ep_name: str | None = None
    ep_op_type: str | None = None


class _Draft:
    """An operator while its nodes are being found; `nodes` are indices into the model's."""

    def __init__(
        self, partition: int | None, row: int | None, operator: Operator | None, mapped: MappedOperator | None
    ) -> None:
        self.partition, self.row, self.operator, self.mapped = partition, row, operator, mapped
        self.nodes: list[int] = []
        self.name: str | None = None

    @property
    def ep_name(self) -> str | None:
        if self.mapped is not None:
            return self.mapped.name
        return self.operator.name if self.operator is not None and self.operator.name else None

    @property
    def ep_op_type(self) -> str | None:
        return self.mapped.op_type if self.mapped is not None else None

    @property
    def pseudo(self) -> str | None:
        return _PSEUDO_TYPE.get(self.operator.kind) if self.operator is not None else None


def name_operators(
    partitions: Sequence[Sequence[Operator]], op_map: OpMap, model: SourceNodes, placement: Placement
) -> tuple[NamedOperator, ...]:
    """In the order of partitions and rows; operators of the map that have no row come last."""
    drafts = _drafts(partitions, op_map)
    origins = Origins(model, placement, op_map)
    for draft in drafts:
        draft.nodes = origins.of(draft.mapped, draft.ep_name)
    _fuse(drafts, model, op_map, placement)
    for draft in drafts:
        draft.name = _own_name(draft, model)
    names = _all_named(drafts)
    return tuple(_named(draft, name, model) for draft, name in zip(drafts, names, strict=True))


def graph_of(operators: Sequence[Operator], op_map: OpMap) -> MappedGraph | None:
    """The graph of the map that a block belongs to: rows do not say, so the one that has most of its names."""
    names = {operator.name for operator in operators if operator.kind == "named"}
    shared = [(len(names & {mapped.name for mapped in graph.operators}), graph) for graph in op_map.graphs]
    count, graph = max(shared, key=lambda pair: pair[0], default=(0, None))
    return graph if count else None


def _drafts(partitions: Sequence[Sequence[Operator]], op_map: OpMap) -> list[_Draft]:
    anywhere = {mapped.name: mapped for graph in op_map.graphs for mapped in graph.operators}
    drafts, seen = [], set()
    for index, operators in enumerate(partitions):
        graph = graph_of(operators, op_map)
        here = {mapped.name: mapped for mapped in graph.operators} if graph else {}
        for row, operator in enumerate(operators):
            mapped = (here.get(operator.name) or anywhere.get(operator.name)) if operator.kind == "named" else None
            seen.add(id(mapped))
            drafts.append(_Draft(index, row, operator, mapped))
    drafts += [
        _Draft(None, None, None, mapped)
        for graph in op_map.graphs
        for mapped in graph.operators
        if id(mapped) not in seen
    ]
    return drafts


def _fuse(drafts: list[_Draft], model: SourceNodes, op_map: OpMap, placement: Placement) -> None:
    elsewhere = {model.find(node.name) for node in placement.fallback_nodes}
    elsewhere |= {model.find(node.name) for node in placement.boundary_nodes}
    elsewhere |= {model.find(name) for name, _ in op_map.refused}
    # A node that ORT gave to QNN was there when the map was made: if it is not in it, that is not explained here.
    explained = not op_map.graphs or placement.ep_context
    kept = set() if explained else {model.find(node.name) for node in placement.target_nodes}
    fusion = Fusion(model, [draft.nodes for draft in drafts], [draft.ep_op_type for draft in drafts])
    fusion.attribute(elsewhere=elsewhere - {None}, kept=kept - {None})


def _own_name(draft: _Draft, model: SourceNodes) -> str | None:
    """None for an operator that has no node of the model behind it."""
    if draft.pseudo is not None:
        return f"{draft.pseudo} of partition {draft.partition}"
    if not model.nodes:
        return draft.ep_name  # nothing is known of the model, so QNN's names stand
    if not draft.nodes:
        return None
    by_name = model.find(draft.ep_name, by_qnn=True) if draft.ep_name else None
    if by_name in draft.nodes and by_name is not None:
        return model.nodes[by_name].name
    main = _main(draft, model)
    node = model.nodes[main]
    place = model.unnamed[node.op_type].index(main) + 1 if not node.name else 0
    name = node.name or f"{node.op_type} (unnamed {place})"
    own = draft.ep_name is not None and not node.name and UNNAMED.fullmatch(draft.ep_name) is not None
    own = own or (draft.ep_name or "").startswith("_token_")
    return name if own or draft.ep_op_type is None else f"{name} [{draft.ep_op_type}]"


def _main(draft: _Draft, model: SourceNodes) -> int:
    """The node that does the work: the one the operator is called after, or the first that does not only quantize."""
    by_name = model.find(draft.ep_name, by_qnn=True) if draft.ep_name else None
    if by_name is not None and by_name in draft.nodes:
        return by_name
    return next((index for index in draft.nodes if not model.nodes[index].quantizes), draft.nodes[0])


def _all_named(drafts: list[_Draft]) -> list[str]:
    names = [draft.name or _by_neighbour(drafts, place) for place, draft in enumerate(drafts)]
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique


def _by_neighbour(drafts: list[_Draft], place: int) -> str:
    draft = drafts[place]
    kind = draft.ep_op_type or ("nameless" if draft.ep_name is None else draft.ep_name)
    same = [other for other in drafts if other.partition == draft.partition and other.pseudo is None and other.name]
    row = draft.row if draft.row is not None else len(drafts)
    following = next((other.name for other in same if other.row is not None and other.row > row), None)
    if following is not None:
        return f"{kind} before {following}"
    before = next((other.name for other in reversed(same) if other.row is not None and other.row < row), None)
    return f"{kind} after {before}" if before is not None else f"{kind} of partition {draft.partition}"


def _named(draft: _Draft, name: str, model: SourceNodes) -> NamedOperator:
    return NamedOperator(
        name=name,
        op_type=_op_type(draft, model),
        partition=draft.partition,
        row=draft.row,
        onnx_nodes=tuple(model.nodes[index].onnx for index in draft.nodes),
        ep_name=draft.ep_name or draft.pseudo,
        ep_op_type=draft.ep_op_type or draft.pseudo,
    )


def _op_type(draft: _Draft, model: SourceNodes) -> str:
    """ONNX's; QNN's for what QNN made of several nodes and none of them alone, as a Gelu of Div, Erf, Add and Mul."""
    qnn = draft.ep_op_type
    if not draft.nodes:
        return draft.pseudo or qnn or _UNKNOWN_TYPE
    mapped = () if draft.mapped is None else draft.mapped.sources
    working = {index for source in mapped if (index := model.find(source)) is not None}
    types = {model.nodes[index].op_type for index in working if not model.nodes[index].quantizes}
    if len(types) > 1 and qnn is not None and not any(one.lower() in qnn.lower() for one in types):
        return qnn
    return model.nodes[_main(draft, model)].op_type

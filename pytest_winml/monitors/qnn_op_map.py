"""QNN's own map from operators to the nodes they were made of: its framework op trace, or one beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.records.base import Record
from pytest_winml.session.qnn_op_trace import FILE_NAME

if TYPE_CHECKING:
    from pytest_winml.session.monitoring import Window


class _Source(msgspec.Struct, frozen=True):
    name: str
    type: str = "OP"


class _Mapping(msgspec.Struct, frozen=True):
    dst_name: str
    dst_qnn_op_type: str | None = None
    sources: list[_Source] = msgspec.field(default_factory=list)


class _Subgraph(msgspec.Struct, frozen=True):
    graph_name: str = ""
    op_mappings: list[_Mapping] = msgspec.field(default_factory=list)


class _Refused(msgspec.Struct, frozen=True):
    node_name: str
    op_type: str


class _File(msgspec.Struct, frozen=True):
    subgraph_traces: list[_Subgraph]
    unsupported_nodes: list[_Refused] = msgspec.field(default_factory=list)


class MappedOperator(Record, frozen=True, kw_only=True):
    """`sources` are nodes of the graph as ORT had optimised it."""

    name: str
    op_type: str | None
    sources: tuple[str, ...]


class MappedGraph(Record, frozen=True, kw_only=True):
    name: str
    operators: tuple[MappedOperator, ...]


class OpMap(Record, frozen=True, kw_only=True):
    """`path` is None where there is no map, and `trouble` says why."""

    path: str | None = None
    graphs: tuple[MappedGraph, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    trouble: str | None = None

    @property
    def operator_names(self) -> frozenset[str]:
        return frozenset(operator.name for graph in self.graphs for operator in graph.operators)


def find_op_map(window: Window) -> OpMap:
    """What the session wrote; of a compiled model, what was written beside it when it was compiled."""
    folder = window.options.get("framework_op_trace_dir")
    places = [Path(folder, FILE_NAME)] if folder else []
    if window.placement.ep_context:  # beside any other model, such a file is of something else
        places.append(Path(window.model_path).parent / FILE_NAME)
    for place in places:
        if place.is_file():
            return read_op_map(place)
    return OpMap(trouble="the EP wrote no framework op trace")


def read_op_map(path: Path) -> OpMap:
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.DecodeError) as error:
        return OpMap(trouble=f"{path.name} cannot be read ({error})")
    return OpMap(
        path=str(path),
        graphs=tuple(_graph(subgraph) for subgraph in file.subgraph_traces),
        refused=tuple((node.node_name, node.op_type) for node in file.unsupported_nodes),
    )


def _graph(subgraph: _Subgraph) -> MappedGraph:
    operators = (
        MappedOperator(
            name=mapping.dst_name,
            op_type=mapping.dst_qnn_op_type,
            sources=tuple(source.name for source in mapping.sources if source.type == "OP"),
        )
        for mapping in subgraph.op_mappings
    )
    return MappedGraph(name=subgraph.graph_name, operators=tuple(operators))

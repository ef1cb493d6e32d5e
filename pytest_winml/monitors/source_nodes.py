"""The nodes of the model as its user has it, and the names that ORT makes of theirs."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from pytest_winml.records.base import Record
from pytest_winml.records.trace import OnnxNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")

# ORT's generator of unique names, QNN's, and what ORT's fusions put behind the name of the node they start from.
_TOKEN = re.compile(r"_token_\d+\Z")
_QNN_COUNTER = re.compile(r"_\d+\Z")
_FUSION = re.compile(r"(?:/[^/]+|_new_reshape)\Z")


class SourceNode(Record, frozen=True, kw_only=True):
    """`after` and `before` are indices of nodes: those whose outputs it reads, and those that read its own.

    `constant`: nothing of it depends on an input, so that it runs once at the most, when the session is created.
    """

    name: str
    op_type: str
    after: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    constant: bool = False

    @property
    def onnx(self) -> OnnxNode:
        return OnnxNode(name=self.name, op_type=self.op_type)

    @property
    def quantizes(self) -> bool:
        return self.op_type in QUANTIZERS


class SourceNodes:
    """Nodes by their place in the file, subgraphs in front of nothing; names are looked up as ORT changes them."""

    def __init__(self, nodes: tuple[SourceNode, ...] = ()) -> None:
        self.nodes = nodes
        self._by_name = {node.name: index for index, node in enumerate(nodes) if node.name}
        self.unnamed: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(nodes):
            if not node.name:
                self.unnamed[node.op_type].append(index)

    @classmethod
    def of(cls, model: ModelProto) -> SourceNodes:
        return cls(_nodes_of(model))

    def find(self, name: str, *, by_qnn: bool = False) -> int | None:
        """The node that a name of the optimised graph goes back to; `by_qnn`: QNN may have numbered it, too."""
        return next((self._by_name[base] for base in _bases(name, by_qnn=by_qnn) if base in self._by_name), None)


def without_token(name: str) -> str:
    return _TOKEN.sub("", name)


def executed_nodes(model: ModelProto) -> tuple[OnnxNode, ...]:
    """What an inference has to do something about: all nodes but those that depend on no input."""
    return tuple(node.onnx for node in _nodes_of(model) if not node.constant)


def _bases(name: str, *, by_qnn: bool) -> Iterator[str]:
    """From what is certain to what is likely; a token goes once, and only where the base is a node's name."""
    for form in (name, _QNN_COUNTER.sub("", name)) if by_qnn else (name,):
        yield form
        plain = without_token(form)
        yield plain
        yield _FUSION.sub("", form)
        yield _FUSION.sub("", plain)
        yield without_token(_FUSION.sub("", form))


def _nodes_of(model: ModelProto) -> tuple[SourceNode, ...]:
    from pytest_winml.graph.reading import graphs_of

    graphs = list(graphs_of(model.graph))
    protos = [node for graph in graphs for node in graph.node]
    makers = {output: index for index, node in enumerate(protos) for output in node.output if output}
    fixed = {tensor.name for graph in graphs for tensor in graph.initializer}
    readers: dict[int, list[int]] = defaultdict(list)
    constant: set[int] = set()
    for index, node in enumerate(protos):
        inputs = [name for name in node.input if name]
        for name in inputs:
            if name in makers:
                readers[makers[name]].append(index)
        has_graph = any(attribute.HasField("g") for attribute in node.attribute)
        if not has_graph and all(name in fixed or makers.get(name) in constant for name in inputs):
            constant.add(index)
    return tuple(
        SourceNode(
            name=node.name,
            op_type=node.op_type,
            after=tuple(dict.fromkeys(makers[name] for name in node.input if name in makers)),
            before=tuple(dict.fromkeys(readers[index])),
            constant=index in constant,
        )
        for index, node in enumerate(protos)
    )

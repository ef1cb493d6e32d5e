"""Whether two models are the same graph: a digest of what is computed, blind to how it is written down.

Names of nodes and inner tensors, the order of independent nodes, `Constant` nodes instead of initializers, attributes
that say their default, comments, declared shapes of inner tensors and the file that holds a weight make no difference.
Operators with their versions, attributes, edges, every bit of every weight, and the names, types and order of the
model's inputs and outputs do.

A graph has no canonical order, so its nodes are coloured as in Weisfeiler and Lehman's test. With `in(v)` the operands
of node `v` in order, `out(v)` the places where its results are used, and `H` a hash,

    up(v)     = H(operator of v, [up(u) for u in in(v)])              what v computes
    down(v)   = H(up(v), sorted [(place, down(w)) for w in out(v)])    who uses it, so a copy differs from a shared node
    colour(v) = H(down(v), [colour(u) for u in in(v)])

and the digest is over the sorted colours. Initializers are nodes without operands; the digest of a subgraph is part of
its node's operator. Two graphs that differ can only agree if they are so symmetric that colours cannot tell their
nodes apart, which takes regular graphs of equal nodes.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from pytest_winml.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    # (domain, operator, version of the operator set) → attributes that have a default, by name
    Defaults = Callable[[str, str, int], Mapping[str, AttributeProto]]

_CHUNK_BYTES: Final = 1 << 22
_DEFAULT_DOMAINS: Final = ("", "ai.onnx")
_SINGLE: Final = (
    AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.TENSOR,
    AttributeProto.GRAPH, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO,
)  # fmt: skip


def graph_digest(model: onnx.ModelProto, folder: Path | None = None, *, defaults: Defaults | None = None) -> str:
    """64 hexadecimal digits. `folder` holds the model's external weights, which are read piece by piece.

    `defaults` adds what `onnx` does not know: the attribute defaults of a runtime's own operators.
    """
    writer = _Writer(model, folder, defaults)
    return _hash(writer.versions(), _main_signature(model.graph), writer.graph(model.graph, {}, main=True)).hex()


class _Vertex(NamedTuple):
    """A node or an initializer: what it is, what it reads, and the names it defines (`""` for a result left out)."""

    operator: bytes
    operands: tuple[str, ...]
    captured: tuple[str, ...]
    results: tuple[str, ...]


class _Writer:
    def __init__(self, model: onnx.ModelProto, folder: Path | None, defaults: Defaults | None) -> None:
        self._folder = folder
        self._defaults = defaults
        self._opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
        self._model = model
        self._functions = {(_domain(one.domain), one.name): one for one in model.functions}
        self._function_hashes: dict[tuple[str, str], bytes] = {}

    def versions(self) -> bytes:
        """Of the operator sets in use: files often declare many more."""
        used = {_domain(node.domain) for node in _all_nodes(self._model.graph.node)}
        used.update(_domain(node.domain) for one in self._model.functions for node in _all_nodes(one.node))
        return _hash(*(_text(domain) + _number(self._opsets.get(domain, 0)) for domain in sorted(used | {""})))

    def graph(self, graph: onnx.GraphProto, outer: Mapping[str, bytes], *, main: bool = False, depth: int = 0) -> bytes:
        inputs = {
            value.name: _hash(b"input", _number(depth), _number(place), _text(value.name) if main else b"")
            for place, value in enumerate(graph.input)
        }
        leaves = [self._initializer(tensor) for tensor in graph.initializer]
        leaves += [self._sparse(sparse) for sparse in graph.sparse_initializer]
        outputs = tuple(value.name for value in graph.output)
        return self._body(graph.node, leaves, {**outer, **inputs}, outputs, depth=depth)

    def _function(self, key: tuple[str, str]) -> bytes:
        """The body of a function of the model, which is part of what a call of it computes."""
        if (function := self._functions.get(key)) is None:
            return b""
        if key not in self._function_hashes:
            inputs = {name: _hash(b"formal", _number(place)) for place, name in enumerate(function.input)}
            self._function_hashes[key] = self._body(function.node, [], inputs, tuple(function.output))
        return self._function_hashes[key]

    def _body(
        self,
        nodes: Iterable[onnx.NodeProto],
        leaves: list[_Vertex],
        known: dict[str, bytes],
        outputs: tuple[str, ...],
        *,
        depth: int = 0,
    ) -> bytes:
        """`known` are the hashes of values that come from outside the body, by name."""
        from_outside = frozenset(known)
        inner: list[onnx.NodeProto] = []
        for node in nodes:
            if _is_constant(node):
                leaves.append(self._constant(node))
            else:
                inner.append(node)
        for leaf in leaves:
            (name,) = leaf.results
            # An initializer may be the default of an input: then it is both.
            known[name] = _hash(known.get(name, b"") if depth == 0 else b"", leaf.operator)
        used = {*outputs, *(name for node in inner for name in (*node.input, *_captured(node)))} - from_outside
        vertices = [leaf for leaf in leaves if leaf.results[0] in used]
        for node in _in_order(inner):
            vertex = self._node(node, known, depth)
            vertices.append(vertex)
            up = _hash(vertex.operator, *(known.get(name, b"") for name in vertex.operands))
            known.update((name, _hash(up, _number(place))) for place, name in enumerate(vertex.results) if name)
        ends = _hash(*(known.get(name, b"") for name in outputs))
        return _hash(ends, *sorted(_colours(vertices, known, outputs)))

    def _initializer(self, tensor: TensorProto) -> _Vertex:
        return _Vertex(_hash(b"tensor", self._tensor(tensor)), (), (), (tensor.name,))

    def _sparse(self, sparse: onnx.SparseTensorProto) -> _Vertex:
        operator = _hash(b"sparse", _numbers(sparse.dims), self._tensor(sparse.values), self._tensor(sparse.indices))
        return _Vertex(operator, (), (), (sparse.values.name,))

    def _constant(self, node: onnx.NodeProto) -> _Vertex:
        (attribute,) = node.attribute
        if attribute.name == "sparse_value":
            return self._sparse(attribute.sparse_tensor)._replace(results=tuple(node.output))
        return _Vertex(_hash(b"tensor", self._tensor(_as_tensor(attribute))), (), (), tuple(node.output))

    def _node(self, node: onnx.NodeProto, known: Mapping[str, bytes], depth: int) -> _Vertex:
        domain = _domain(node.domain)
        defaults = self._defaults_of(domain, node.op_type)
        attributes = sorted(
            _text(one.name) + self._attribute(one, known, depth)
            for one in node.attribute
            if not _says_default(one, defaults)
        )
        operator = _hash(
            _text(domain),
            _text(node.op_type),
            _hash(*attributes),
            self._function((domain, node.op_type)),
            _numbers([bool(name) for name in _trimmed(node.output)]),
        )
        return _Vertex(operator, _trimmed(node.input), tuple(_captured(node)), _trimmed(node.output))

    def _defaults_of(self, domain: str, op_type: str) -> Mapping[str, AttributeProto]:
        version = self._opsets.get(domain, 1)
        return _onnx_defaults(domain, op_type, version) or (
            self._defaults(domain, op_type, version) if self._defaults else {}
        )

    def _attribute(self, attribute: AttributeProto, known: Mapping[str, bytes], depth: int) -> bytes:
        kind = _number(attribute.type)
        if attribute.ref_attr_name:
            return _hash(kind, b"refers", _text(attribute.ref_attr_name))
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            return _hash(kind, *(self.graph(graph, known, depth=depth + 1) for graph in graphs))
        if attribute.type in (AttributeProto.TENSOR, AttributeProto.TENSORS):
            tensors = [attribute.t] if attribute.type == AttributeProto.TENSOR else attribute.tensors
            return _hash(kind, *(self._tensor(tensor) for tensor in tensors))
        return _hash(kind, _plain_value(attribute))

    def _tensor(self, tensor: TensorProto) -> bytes:
        digest = hashlib.sha256(_number(tensor.data_type) + _numbers(tensor.dims))
        if tensor.data_location == TensorProto.EXTERNAL:
            for piece in _external(tensor, self._folder):
                digest.update(piece)
        elif tensor.data_type == TensorProto.STRING:
            digest.update(b"".join(map(_text, tensor.string_data)))
        elif tensor.HasField("raw_data"):
            digest.update(tensor.raw_data)
        else:
            digest.update(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)
        return digest.digest()


def _colours(vertices: list[_Vertex], known: Mapping[str, bytes], outputs: tuple[str, ...]) -> list[bytes]:
    """The last two lines of the formula; `known` holds the first. Vertices come in topological order."""
    uses: defaultdict[str, list[bytes]] = defaultdict(list)
    for place, name in enumerate(outputs):
        uses[name].append(_hash(b"output", _number(place)))
    down: list[bytes] = []
    for vertex in reversed(vertices):
        used = (_hash(known[name], *sorted(uses[name])) for name in vertex.results if name)
        colour = _hash(vertex.operator, *used)
        down.append(colour)
        for place, name in enumerate(vertex.operands):
            uses[name].append(_hash(_number(place), colour))
        for name in vertex.captured:
            uses[name].append(_hash(b"captured", colour))
    colours: dict[str, bytes] = {}
    found = []
    for vertex, below in zip(vertices, reversed(down), strict=True):
        captured = sorted(colours.get(name, b"") for name in vertex.captured)
        colour = _hash(below, *(colours.get(name, b"") for name in vertex.operands), *captured)
        found.append(colour)
        colours.update((name, _hash(colour, _number(place))) for place, name in enumerate(vertex.results) if name)
    return found


def _in_order(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Producers first: files keep that order, models that are being edited need not."""
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = {
        index: {producer[name] for name in (*node.input, *_captured(node)) if name in producer}
        for index, node in enumerate(nodes)
    }
    try:
        order = tuple(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ModelError("the graph has a cycle", remedy="export the model again.") from error
    return (nodes[index] for index in order)


def _captured(node: onnx.NodeProto) -> set[str]:
    """Names that the node's subgraphs take from outside."""
    return {name for graph in _subgraphs(node) for name in _free_names(graph)}


def _free_names(graph: onnx.GraphProto) -> set[str]:
    bound = {value.name for value in (*graph.input, *graph.initializer)}
    bound.update(sparse.values.name for sparse in graph.sparse_initializer)
    bound.update(name for node in graph.node for name in node.output)
    read = {value.name for value in graph.output}
    for node in graph.node:
        read.update(node.input)
        read.update(_captured(node))
    return read - bound - {""}


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for graph in _subgraphs(node):
            yield from _all_nodes(graph.node)


def _main_signature(graph: onnx.GraphProto) -> bytes:
    """Inputs with name, type and shape; outputs with name and type, since their shape follows from the graph."""
    inputs = [_text(value.name) + _type(value.type, shape=True) for value in graph.input]
    outputs = [_text(value.name) + _type(value.type, shape=False) for value in graph.output]
    return _hash(_hash(*inputs), _hash(*outputs))


def _type(kind: onnx.TypeProto, *, shape: bool) -> bytes:
    if not kind.HasField("tensor_type"):
        return bytes(kind.SerializeToString(deterministic=True))
    tensor = kind.tensor_type
    sizes = tensor.shape.dim if shape else ()
    known = _number(shape and tensor.HasField("shape"))
    named = (_number(one.dim_value) if one.HasField("dim_value") else _text(one.dim_param) for one in sizes)
    return _hash(_number(tensor.elem_type), known, *named)


def _is_constant(node: onnx.NodeProto) -> bool:
    return (
        node.op_type == "Constant"
        and node.domain in _DEFAULT_DOMAINS
        and len(node.attribute) == 1
        and not node.attribute[0].ref_attr_name
    )


def _as_tensor(attribute: AttributeProto) -> TensorProto:
    match attribute.name:
        case "value":
            return attribute.t
        case "value_float" | "value_floats":
            many, kind = attribute.floats, TensorProto.FLOAT
        case "value_int" | "value_ints":
            many, kind = attribute.ints, TensorProto.INT64
        case _:
            many, kind = attribute.strings, TensorProto.STRING
    value: Any = helper.get_attribute_value(attribute)
    scalar = not attribute.name.endswith("s")
    return helper.make_tensor("", kind, [] if scalar else [len(many)], [value] if scalar else list(value))


def _says_default(attribute: AttributeProto, defaults: Mapping[str, AttributeProto]) -> bool:
    default = defaults.get(attribute.name)
    return (
        default is not None
        and default.type == attribute.type
        and not attribute.ref_attr_name
        and _plain_value(default) == _plain_value(attribute)
    )


@lru_cache(maxsize=4096)
def _onnx_defaults(domain: str, op_type: str, version: int) -> Mapping[str, AttributeProto]:
    if not onnx.defs.has(op_type, version, domain):
        return {}
    attributes = onnx.defs.get_schema(op_type, version, domain).attributes
    return {name: one.default_value for name, one in attributes.items() if one.default_value.type}


def _plain_value(attribute: AttributeProto) -> bytes:
    """Numbers and strings by their bits; whether one or a list is said by the attribute's type."""
    found: Any = helper.get_attribute_value(attribute)
    values = [found] if attribute.type in _SINGLE else found
    if attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        return struct.pack(f"<{len(values)}f", *values)
    if attribute.type in (AttributeProto.INT, AttributeProto.INTS):
        return _numbers(values)
    if attribute.type in (AttributeProto.STRING, AttributeProto.STRINGS):
        return _hash(*map(_text, values))
    return _hash(*(bytes(value.SerializeToString(deterministic=True)) for value in values))


def _external(tensor: TensorProto, folder: Path | None) -> Iterator[bytes]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise ModelError(f"the weights of {tensor.name!r} lie in another file, whose folder was not given")
    path = folder / entries.get("location", "")
    offset, left = int(entries.get("offset", 0)), int(entries.get("length", -1))
    try:
        with path.open("rb") as file:
            file.seek(offset)
            left = left if left >= 0 else path.stat().st_size - offset
            while left > 0:
                piece = file.read(min(left, _CHUNK_BYTES))
                if not piece:
                    raise ModelError(f"external data {path} is cut short", remedy="export or download it again.")
                left -= len(piece)
                yield piece
    except OSError as error:
        raise ModelError(f"external data {path} cannot be read ({error})", remedy="put it beside the model.") from error


def _trimmed(names: Sequence[str]) -> tuple[str, ...]:
    """Without the empty names at the end, which say as much as no names."""
    last = max((place for place, name in enumerate(names, 1) if name), default=0)
    return tuple(names[:last])


def _domain(name: str) -> str:
    return "" if name in _DEFAULT_DOMAINS else name


def _text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    return struct.pack("<q", value)


def _numbers(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values) + 1}q", len(values), *values)


def _hash(*parts: bytes) -> bytes:
    """Of the parts as a list: moving a byte from one part to the next gives another hash."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(_number(len(part)))
        digest.update(part)
    return digest.digest()

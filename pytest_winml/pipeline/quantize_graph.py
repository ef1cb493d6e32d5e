"""Graph work around ORT's quantizers: what they need to be told, and what they leave behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_winml.graph.reading import external_files, load_structure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

EMBED_BELOW_BYTES = 1_500_000_000  # one protobuf holds 2 GB at the most
COMPUTE_OPERATORS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_PAIRS = frozenset({"QuantizeLinear", "DequantizeLinear"})


def load_complete(path: Path) -> ModelProto:
    """The model with all its weights in memory."""
    from onnx.external_data_helper import load_external_data_for_model

    model = load_structure(path)
    if external_files(model, path.parent):
        load_external_data_for_model(model, os.fspath(path.parent))
    return model


def save_model(model: ModelProto, path: Path) -> None:
    """The same model gives the same bytes; weights go beside it when one file cannot hold them."""
    import onnx

    if model.ByteSize() < EMBED_BELOW_BYTES:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # saving moves the weights out of the model it is given
    onnx.save(copy, os.fspath(path), save_as_external_data=True, location=f"{path.name}.data")


def with_inferred_shapes(model: ModelProto, scratch: Path) -> ModelProto:
    import onnx

    if model.ByteSize() < EMBED_BELOW_BYTES:
        return onnx.shape_inference.infer_shapes(model)
    plain, inferred = scratch / "plain.onnx", scratch / "inferred.onnx"
    save_model(model, plain)
    onnx.shape_inference.infer_shapes_path(os.fspath(plain), os.fspath(inferred))
    return onnx.load(os.fspath(inferred))


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def constants(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Initializers and what Constant nodes hold, by the name the graph reads them under."""
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], attribute.t) for attribute in node.attribute if attribute.HasField("t"))
        for inner in subgraphs(node):
            yield from constants(inner)


def name_nodes(graph: GraphProto) -> None:
    """ORT's quantizers tell nodes apart by name, so that unnamed ones would be taken for each other."""
    taken = {node.name for node in graph.node}
    for place, node in enumerate(graph.node):
        if not node.name:
            name = f"{node.op_type}_{place}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)


def constants_to_initializers(graph: GraphProto) -> None:
    """A weight that a Constant node holds would be quantized like an activation."""
    for node in [node for node in graph.node if node.op_type == "Constant"]:
        tensor = next((attribute.t for attribute in node.attribute if attribute.HasField("t")), None)
        if tensor is not None:
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = node.output[0]
            graph.node.remove(node)


def split_gemms(graph: GraphProto) -> None:
    """Gemm with constant weights as MatMul, which keeps its name, and Add.

    The quantizers that know only MatMul do this themselves, but turn a transposed weight over in place, for every other
    node that reads it.
    """
    from onnx import helper, numpy_helper

    weights = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    for node in graph.node:
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA", 0)
        if node.op_type != "Gemm" or not plain or node.input[1] not in weights:
            nodes.append(node)
            continue
        weight = node.input[1]
        if attributes.get("transB", 0):
            turned = f"{weight}_transposed"
            if turned not in weights:
                weights[turned] = numpy_helper.from_array(numpy_helper.to_array(weights[weight]).T, turned)
                graph.initializer.append(weights[turned])
            weight = turned
        bias = node.input[2] if len(node.input) > 2 else ""  # noqa: PLR2004 - A, B, C
        product = f"{node.output[0]}_product" if bias else node.output[0]
        nodes.append(helper.make_node("MatMul", [node.input[0], weight], [product], name=node.name))
        if bias:
            nodes.append(helper.make_node("Add", [product, bias], list(node.output), name=f"{node.name}_bias"))
    del graph.node[:]
    graph.node.extend(nodes)


def drop_unread_pairs(graph: GraphProto) -> None:
    """Q and DQ that nothing reads: ORT leaves them where a subgraph goes on reading the float tensor."""
    while True:
        read = {value.name for value in graph.output}
        read.update(name for node in graph.node for name in reads(node))
        unread = [node for node in graph.node if node.op_type in _PAIRS and not read.intersection(node.output)]
        if not unread:
            return
        for node in unread:
            graph.node.remove(node)


def reads(node: NodeProto) -> Iterator[str]:
    """What a node reads, in its subgraphs too; among them are names that a subgraph makes for itself."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from reads(inner)


def sort_nodes(graph: GraphProto) -> None:
    """Each node after what it reads, also from within a subgraph; otherwise the order stays."""
    nodes = list(graph.node)
    maker = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    before = [
        sorted({maker[name] for name in reads(node) if name in maker} - {place}) for place, node in enumerate(nodes)
    ]
    ordered: list[int] = []
    done: set[int] = set()
    for start in range(len(nodes)):
        waiting = [start]
        while waiting:
            place = waiting[-1]
            needed = [other for other in before[place] if other not in done]
            if place in done or not needed:
                waiting.pop()
                if place not in done:
                    done.add(place)
                    ordered.append(place)
            else:
                waiting.extend(reversed(needed))
    sorted_nodes = [nodes[place] for place in ordered]
    del graph.node[:]
    graph.node.extend(sorted_nodes)


def tidy(model: ModelProto, source: ModelProto) -> None:
    """Ordered, without leftovers, and with what `source` says of itself and its nodes and a quantizer dropped."""
    graph = model.graph
    drop_unread_pairs(graph)
    _keep_used_constants(graph)
    sort_nodes(graph)
    made = {name for node in graph.node for name in node.output}
    known = [value for value in graph.value_info if value.name in made]
    del graph.value_info[:]
    graph.value_info.extend(known)
    domains = {"" if node.domain == "ai.onnx" else node.domain for node in all_nodes(graph)} | {""}
    domains.update(node.domain for function in model.functions for node in function.node)
    used = [entry for entry in model.opset_import if ("" if entry.domain == "ai.onnx" else entry.domain) in domains]
    del model.opset_import[:]
    model.opset_import.extend(used)
    del model.metadata_props[:]
    model.metadata_props.extend(source.metadata_props)
    said = {node.name: node for node in source.graph.node if node.name}
    for node in graph.node:
        if node.name in said and not node.metadata_props:
            node.metadata_props.extend(said[node.name].metadata_props)


def _keep_used_constants(graph: GraphProto) -> None:
    """Each once: the 4-bit quantizer writes a weight again for every node that reads it."""
    read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
    seen: set[str] = set()
    surplus = []
    for place, tensor in enumerate(graph.initializer):
        if tensor.name in seen or tensor.name not in read:
            surplus.append(place)
        seen.add(tensor.name)
    inputs = [value for value in graph.input if value.name in read or value.name not in seen]
    for place in reversed(surplus):
        del graph.initializer[place]
    del graph.input[:]
    graph.input.extend(inputs)

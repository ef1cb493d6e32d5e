"""Operators of QNN back to the nodes of the model: what is certain, what is inferred, and what stays unexplained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_winml.monitors.accounting import unaccounted_nodes
from pytest_winml.monitors.qnn_csv_rows import Operator
from pytest_winml.monitors.qnn_names import NamedOperator, name_operators
from pytest_winml.monitors.qnn_op_map import MappedGraph, MappedOperator, OpMap, find_op_map, read_op_map
from pytest_winml.monitors.source_nodes import SourceNode, SourceNodes
from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
from pytest_winml.records.trace import OnnxNode, OpTrace, TracedOperator, TraceMetadata
from tests.monitors.qnn_profiles import QNN, placement, window

if TYPE_CHECKING:
    from pathlib import Path


def chain(*nodes: str) -> SourceNodes:
    """`name:type`, each reading the one before it."""
    last = len(nodes) - 1
    made = []
    for place, text in enumerate(nodes):
        name, _, op_type = text.rpartition(":")
        after, before = (place - 1,) if place else (), (place + 1,) if place < last else ()
        made.append(SourceNode(name=name, op_type=op_type, after=after, before=before))
    return SourceNodes(tuple(made))


def rows(*names: str) -> tuple[Operator, ...]:
    return tuple(
        Operator(name=name, kind="named" if name else "nameless", op_id=17 + place) for place, name in enumerate(names)
    )


def mapped(*operators: tuple[str, str, list[str]], graph: str = "g_1_0") -> OpMap:
    made = tuple(MappedOperator(name=name, op_type=kind, sources=tuple(sources)) for name, kind, sources in operators)
    return OpMap(path="map", graphs=(MappedGraph(name=graph, operators=made),))


def named(model: SourceNodes, op_map: OpMap, placed: Placement | None = None) -> dict[str, NamedOperator]:
    operators = rows(*(operator.name for graph in op_map.graphs for operator in graph.operators))
    return {one.name: one for one in name_operators([operators], op_map, model, placed or placement())}


def nodes_of(operator: NamedOperator) -> list[str]:
    return [node.name for node in operator.onnx_nodes]


def test_a_token_goes_only_where_its_base_is_a_node() -> None:
    model = chain("conv:Conv", "real_token_3:Conv", "real_token_3_name:Relu")
    assert [model.find(name) for name in ("conv_token_9", "real_token_3", "real_token_3_token_4")] == [0, 1, 1]
    assert model.find("real_token_3_name") == 2
    assert model.find("conv_token_9_token_4") is None, "one token, not two"
    assert model.find("Transpose_token_46") is None


def test_an_ort_fusion_is_named_after_its_first_node() -> None:
    model = chain("/enc/MatMul:MatMul", "/enc/Add:Add")
    found = named(model, mapped(("/enc/MatMul/MatMulAddFusion_2", "FullyConnected", ["/enc/MatMul/MatMulAddFusion"])))
    assert nodes_of(found["/enc/MatMul"]) == ["/enc/MatMul", "/enc/Add"]
    assert found["/enc/MatMul"].op_type == "MatMul"


def test_several_operators_of_one_node_are_told_apart_by_their_types() -> None:
    op_map = mapped(
        ("t_transposeTranspose", "Transpose", ["sm"]), ("sm", "Softmax", ["sm"]), ("tTranspose", "Transpose", ["sm"])
    )
    found = named(chain("sm:Softmax"), op_map)
    assert list(found) == ["sm [Transpose]", "sm", "sm [Transpose]#2"]
    assert {one.op_type for one in found.values()} == {"Softmax"}
    assert [one.ep_op_type for one in found.values()] == ["Transpose", "Softmax", "Transpose"]


def test_one_operator_of_several_nodes_has_all_of_them_and_qnns_type() -> None:
    model = chain("g/Div:Div", "g/Erf:Erf", "g/Add:Add")
    found = named(model, mapped(("g/Div_2", "Gelu", ["g/Div", "g/Erf", "g/Add"])))
    assert nodes_of(found["g/Div"]) == ["g/Div", "g/Erf", "g/Add"]
    assert found["g/Div"].op_type == "Gelu"


def test_what_was_inserted_has_no_node_and_is_named_after_its_neighbour() -> None:
    op_map = mapped(
        ("Transpose_token_46", "Transpose", ["DequantizeLinear", "Transpose_token_46", "QuantizeLinear_token_71"]),
        ("conv_token_1", "Conv2d", ["conv_token_1"]),
        ("Transpose_token_70", "Transpose", ["Transpose_token_70"]),
    )
    found = named(chain("conv:Conv"), op_map)
    assert list(found) == ["Transpose before conv", "conv", "Transpose after conv"]
    assert [nodes_of(one) for one in found.values()] == [[], ["conv"], []]


def test_nameless_rows_are_kept() -> None:
    found = name_operators([rows("", "", "a")], OpMap(), chain("a:Conv"), placement())
    assert [one.name for one in found] == ["nameless before a", "nameless before a#2", "a"]
    assert found[0].op_type == "unknown"


def test_a_node_that_is_called_as_ort_calls_its_own_is_not_mistaken_for_them() -> None:
    model = chain("Transpose:Relu", "conv:Conv")
    op_map = mapped(
        ("Transpose", "Relu", ["Transpose"]),
        ("Transpose_token_5", "Transpose", ["Transpose_token_5"]),
        ("conv_token_6", "Conv2d", ["conv_token_6"]),
    )
    found = named(model, op_map)
    assert list(found) == ["Transpose", "Transpose before conv", "conv"]
    assert found["Transpose"].op_type == "Relu"


def test_a_quantizer_beside_an_inserted_operator_belongs_to_what_reads_it() -> None:
    model = chain("pool:MaxPool", "q:QuantizeLinear", "dq:DequantizeLinear", "flat:Flatten")
    op_map = mapped(
        ("pool", "PoolMax2d", ["pool", "q"]),
        ("Transpose_token_70", "Transpose", ["dq", "Transpose_token_70", "QuantizeLinear_token_73"]),
        ("flat", "Reshape", ["DequantizeLinear_token_74", "flat"]),
    )
    found = named(model, op_map)
    assert nodes_of(found["Transpose before flat"]) == []
    assert nodes_of(found["flat"]) == ["flat", "dq"]
    assert nodes_of(found["pool"]) == ["pool", "q"]


def test_a_fusion_that_ort_made_up_a_name_for_has_the_nodes_between_its_neighbours() -> None:
    model = chain("a:Conv", "g/Div:Div", "g/Erf:Erf", "b:Conv")
    op_map = mapped(("a", "Conv2d", ["a"]), ("Gelu_token_4", "Gelu", ["Gelu_token_4"]), ("b", "Conv2d", ["b"]))
    found = name_operators([rows("a", "Gelu_token_4", "b")], op_map, model, placement())
    assert [nodes_of(one) for one in found] == [["a"], ["g/Div", "g/Erf"], ["b"]]


def test_a_node_that_ort_gave_to_qnn_and_qnn_does_not_tell_of_is_not_explained_away() -> None:
    model = chain("a:Conv", "lost:Conv", "b:Conv")
    op_map = mapped(("a", "Conv2d", ["a"]), ("b", "Conv2d", ["b"]))
    found = named(model, op_map, placement("a", "lost", "b"))
    assert [nodes_of(one) for one in found.values()] == [["a"], ["b"]]
    removed_by_ort = named(model, op_map, placement("a", "b"))
    assert nodes_of(removed_by_ort["a"]) == ["a", "lost"]


def test_what_another_ep_has_is_in_no_operator() -> None:
    refused = FallbackNode(name="h", op_type="Hardmax", ep="CPUExecutionProvider")
    placed = Placement(
        target="qnn:npu",
        target_nodes=(PlacedNode(name="a", op_type="Conv", ep=QNN),),
        fallback_nodes=(refused,),
        boundary_nodes=(),
        partitions=1,
        emulated=True,
    )
    found = named(chain("a:Conv", "h:Hardmax"), mapped(("a", "Conv2d", ["a"])), placed)
    assert nodes_of(found["a"]) == ["a"]


def test_unnamed_nodes_are_numbered_by_type() -> None:
    model = chain(":Sigmoid", ":Conv", ":Sigmoid")
    op_map = mapped(
        ("Sigmoid0", "Sigmoid", ["Sigmoid0"]),
        ("_token_3", "Conv2d", ["_token_3"]),
        ("Sigmoid3", "Sigmoid", ["Sigmoid0"]),
    )
    found = named(model, op_map)
    assert list(found) == ["Sigmoid (unnamed 1)", "Conv (unnamed 1)", "Sigmoid (unnamed 2)"]
    assert [node for one in found.values() for node in one.onnx_nodes] == [
        OnnxNode(name="", op_type=kind) for kind in ("Sigmoid", "Conv", "Sigmoid")
    ]


def test_an_operator_of_the_map_without_a_row_is_not_lost() -> None:
    model = chain("a:Conv", "b:Conv")
    op_map = mapped(("a", "Conv2d", ["a"]), ("b", "Conv2d", ["b"]))
    found = name_operators([rows("a")], op_map, model, placement())
    assert [(one.name, one.row) for one in found] == [("a", 0), ("b", None)]


def test_without_a_map_names_are_matched_as_they_are() -> None:
    model = chain("Add:Add", "conv:Conv")
    found = name_operators([rows("Add_3", "conv_token_1_2", "other")], OpMap(), model, placement())
    assert [one.name for one in found] == ["Add", "conv", "other after conv"]


def _map_file(path: Path, name: str) -> Path:
    graph = {"graph_name": "g", "op_mappings": [{"dst_name": name, "dst_qnn_op_type": "Conv2d", "sources": []}]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"subgraph_traces": [graph], "unsupported_nodes": [], "schema_version": 2}))
    return path


@pytest.mark.parametrize("compiled", [False, True])
def test_a_map_beside_the_model_is_read_for_a_compiled_one_only(tmp_path: Path, compiled: bool) -> None:
    _map_file(tmp_path / "qnn_op_trace.json", "beside")
    placed = Placement(
        target="qnn:npu",
        target_nodes=(),
        fallback_nodes=(),
        boundary_nodes=(),
        partitions=1,
        emulated=True,
        ep_context=compiled,
    )
    op_map = find_op_map(window(tmp_path / "p.csv", tmp_path / "m.onnx", [""], placed))
    assert op_map.operator_names == (frozenset({"beside"}) if compiled else frozenset())
    assert (op_map.trouble is None) == compiled


def test_a_map_that_cannot_be_read_is_trouble_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "qnn_op_trace.json"
    for text in ("{'not': json", '{"subgraph_traces": 3}', "{}", '{"subgraph_traces": [{"op_mappings": [{}]}]}'):
        path.write_text(text)
        assert "cannot be read" in str(read_op_map(path).trouble)


def _trace(*operators: TracedOperator, fallback: tuple[FallbackNode, ...] = ()) -> OpTrace:
    metadata = TraceMetadata(target="qnn:npu", ep=QNN, backend="qnn")
    return OpTrace(metadata=metadata, operators=operators, fallback_nodes=fallback)


def test_nodes_in_no_operator_and_on_no_other_ep_are_unaccounted() -> None:
    wanted = [OnnxNode(name=name, op_type="Conv") for name in ("a", "lost", "h", "q", "", "")]
    operator = TracedOperator(
        name="a", op_type="Conv", ep=QNN, meaning="cycles over all hardware threads", onnx_nodes=(wanted[0], wanted[4])
    )
    refused = FallbackNode(name="h_token_4", op_type="Conv", ep="CPUExecutionProvider")
    edge = PlacedNode(name="q", op_type="Conv", ep="CPUExecutionProvider")
    missing = unaccounted_nodes(_trace(operator, fallback=(refused,)), wanted, [edge])
    assert [node.name for node in missing] == ["lost", ""]

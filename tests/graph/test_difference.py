from __future__ import annotations

import pytest
from onnx import NodeProto, helper

from pytest_winml.graph.difference import GraphDifference, difference, nodes_by_type
from tests.graph.graphs import constant, model, value


def chain(*types: str, domain: str = "") -> list[NodeProto]:
    return [helper.make_node(kind, [f"v{place}"], [f"v{place + 1}"], domain=domain) for place, kind in enumerate(types)]


def test_types_that_grew_and_shrank_are_told() -> None:
    found = difference(model(chain("Relu", "Relu", "Sigmoid")), model(chain("Sigmoid", "Tanh")))
    assert found == GraphDifference(nodes_before=3, nodes_after=2, added={"Tanh": 1}, removed={"Relu": 2})


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (("Relu",), ("Relu",), "1 nodes as before"),
        (("Relu", "Abs", "Abs"), ("Relu", "Tanh"), "2 nodes instead of 3: +1 Tanh, -2 Abs"),
        (("Relu", "Abs"), ("Relu", "Tanh"), "2 nodes as before, of other types: +1 Tanh, -1 Abs"),
        (("A", "B", "B", "C"), (), "0 nodes instead of 4: -2 B, -1 A, -1 C"),
    ],
)
def test_a_person_reads_it_in_one_line(before: tuple[str, ...], after: tuple[str, ...], text: str) -> None:
    assert str(difference(model(chain(*before)), model(chain(*after)))) == text


def test_a_constant_node_is_a_way_to_write_a_weight() -> None:
    node = helper.make_node("Constant", [], ["k"], value=constant("k"))
    assert nodes_by_type(model([node, *chain("Relu")])) == {"Relu": 1}


def test_operators_of_other_domains_carry_their_domain() -> None:
    assert nodes_by_type(model(chain("Gelu", domain="com.microsoft"))) == {"com.microsoft.Gelu": 1}
    assert nodes_by_type(model(chain("Gelu", domain="ai.onnx"))) == {"Gelu": 1}


def test_nodes_of_subgraphs_and_functions_count() -> None:
    inner = helper.make_graph(chain("Abs", "Neg"), "then", [], [value("v2", [4])])
    whole = model([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)])
    whole.functions.append(helper.make_function("mine", "F", ["v0"], ["v1"], chain("Exp"), []))
    assert nodes_by_type(whole) == {"If": 1, "Abs": 2, "Neg": 2, "Exp": 1}

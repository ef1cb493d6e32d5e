"""Which changes of a file are another graph and which are not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from pytest_winml.errors import ModelError
from pytest_winml.graph.identity import graph_digest
from tests.graph.graphs import model, relu, value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

node = helper.make_node


def weight(name: str, *numbers: float) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.float32), name)


def copy(made: onnx.ModelProto) -> onnx.ModelProto:
    twin = onnx.ModelProto()
    twin.CopyFrom(made)
    return twin


# Random graphs


class Plan(NamedTuple):
    """Nodes as (type, operands), where an operand is an earlier value: inputs first, weights, then results."""

    weights: tuple[float, ...]
    nodes: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[int, ...]


INPUTS = 2
ARITY = {"Add": 2, "Sub": 2, "Relu": 1, "Elu": 1, "Where": 3}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    weights = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=3))
    nodes: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(sorted(ARITY)))
        values = st.integers(0, INPUTS + len(weights) + len(nodes) - 1)
        nodes.append((kind, tuple(draw(values) for _ in range(ARITY[kind]))))
    results = st.integers(INPUTS + len(weights), INPUTS + len(weights) + len(nodes) - 1)
    outputs = draw(st.lists(results, min_size=1, max_size=2, unique=True))
    return Plan(tuple(weights), tuple(nodes), tuple(outputs))


def build(plan: Plan, name: Callable[[int], str] = "v{}".format) -> onnx.ModelProto:
    """The inputs are called in0 and in1, the outputs out0 and out1; `name` gives the rest."""
    names = [f"in{place}" for place in range(INPUTS)]
    names += [name(place) for place in range(INPUTS, INPUTS + len(plan.weights) + len(plan.nodes))]
    for place, output in enumerate(plan.outputs):
        names[output] = f"out{place}"
    first = INPUTS + len(plan.weights)
    return model(
        [
            node(kind, [names[operand] for operand in operands], [names[first + place]], name=name(1000 + place))
            for place, (kind, operands) in enumerate(plan.nodes)
        ],
        inputs=[value(f"in{place}", [4]) for place in range(INPUTS)],
        outputs=[value(f"out{place}", [4]) for place in range(len(plan.outputs))],
        weights=[weight(names[INPUTS + place], number) for place, number in enumerate(plan.weights)],
    )


@given(plans(), st.integers(0, 1000))
def test_names_and_the_order_of_writing_make_no_difference(plan: Plan, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a shuffle, not a secret
    other = build(plan, lambda place: f"other_{place * 7919 % 5003}")
    for written in (other.graph.node, other.graph.initializer):
        shuffled = list(written)
        chance.shuffle(shuffled)
        del written[:]
        written.extend(shuffled)
    assert graph_digest(other) == graph_digest(build(plan))


def canonical(plan: Plan) -> tuple[object, ...]:
    """The slow oracle: the least of all numberings of the nodes, weights being part of who uses them."""
    from itertools import permutations

    used = {operand for _, operands in plan.nodes for operand in operands}
    kept = [place for place in range(len(plan.weights)) if INPUTS + place in used]
    first = INPUTS + len(plan.weights)

    def numbered(leaves: tuple[int, ...], order: tuple[int, ...]) -> tuple[object, ...]:
        new = {INPUTS + old: ("leaf", place) for place, old in enumerate(leaves)}
        new |= {first + old: ("node", place) for place, old in enumerate(order)}

        def named(operand: int) -> tuple[str, int]:
            return new.get(operand, ("input", operand))

        return (
            tuple(plan.weights[old] for old in leaves),
            tuple((plan.nodes[old][0], tuple(map(named, plan.nodes[old][1]))) for old in order),
            tuple(map(named, plan.outputs)),
        )

    return min(
        numbered(leaves, order) for leaves in permutations(kept) for order in permutations(range(len(plan.nodes)))
    )


@st.composite
def small_plans(draw: st.DrawFn) -> Plan:
    """Few kinds and few nodes, so that two of them are often the same graph, and often nearly."""
    weights = tuple(draw(st.lists(st.just(1.0), min_size=1, max_size=2)))
    nodes: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(draw(st.integers(2, 4))):
        values = st.integers(1, INPUTS + len(weights) + len(nodes) - 1)
        kind = draw(st.sampled_from(["Add", "Relu"]))
        nodes.append((kind, tuple(draw(values) for _ in range(ARITY[kind]))))
    return Plan(weights, tuple(nodes), (INPUTS + len(weights) + len(nodes) - 1,))


@settings(max_examples=300)
@given(small_plans(), small_plans())
def test_two_graphs_have_one_digest_exactly_if_they_can_be_numbered_alike(one: Plan, other: Plan) -> None:
    same = canonical(one) == canonical(other)
    assert (graph_digest(build(one)) == graph_digest(build(other))) == same


@given(plans(), st.data())
def test_every_edge_counts(plan: Plan, data: st.DataObject) -> None:
    made = build(plan)
    changed = copy(made)
    at = data.draw(st.sampled_from(list(range(len(plan.nodes)))))
    place = data.draw(st.integers(0, len(changed.graph.node[at].input) - 1))
    was = changed.graph.node[at].input[place]
    changed.graph.node[at].input[place] = "in0" if was != "in0" else "in1"
    assert graph_digest(changed) != graph_digest(made)


@given(st.binary(min_size=8, max_size=8), st.integers(0, 63))
def test_every_bit_of_a_weight_counts(data: bytes, bit: int) -> None:
    def with_weight(raw: bytes) -> onnx.ModelProto:
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], raw_data=raw)
        return model([node("Add", ["x", "w"], ["y"])], weights=[tensor])

    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    assert graph_digest(with_weight(data)) != graph_digest(with_weight(bytes(flipped)))


# One change at a time


def subject() -> onnx.ModelProto:
    """Two outputs, attributes, a weight and a result that are used twice."""
    return model(
        [
            node("Add", ["x", "w"], ["a"], name="add"),
            node("Elu", ["a"], ["b"], name="elu", alpha=0.5),
            node("Softmax", ["b"], ["y"], name="softmax", axis=1),
            node("Mul", ["a", "w"], ["z"], name="mul"),
        ],
        outputs=[value("y", [1, 4]), value("z", [1, 4])],
        weights=[weight("w", 1, 2, 3, 4)],
    )  # fmt: skip


def changed(change: Callable[[onnx.ModelProto], object]) -> bool:
    """Whether a change of the subject is another graph."""
    made = subject()
    change(made)
    return graph_digest(made) != graph_digest(subject())


def put(where: Any, field: str | int, new: object) -> object:
    """An assignment that can stand in a lambda."""
    if isinstance(field, int):
        where[field] = new
    else:
        setattr(where, field, new)
    return where


def _shared_weight_becomes_two(made: onnx.ModelProto) -> None:
    made.graph.initializer.append(weight("w2", 1, 2, 3, 4))
    made.graph.node[3].input[1] = "w2"


def _shared_node_becomes_two(made: onnx.ModelProto) -> None:
    made.graph.node.insert(0, node("Add", ["x", "w"], ["a2"]))
    made.graph.node[4].input[0] = "a2"


def _swap_outputs(made: onnx.ModelProto) -> None:
    first = copy(made).graph.output[0]
    made.graph.output.append(first)
    del made.graph.output[0]


OTHER_GRAPHS: dict[str, Callable[[onnx.ModelProto], object]] = {
    "an attribute's value": lambda made: put(made.graph.node[1].attribute[0], "f", 0.25),
    "another attribute": lambda made: made.graph.node[1].attribute.append(helper.make_attribute("beta", 2)),
    "an operator": lambda made: put(made.graph.node[1], "op_type", "Celu"),
    "an operator's domain": lambda made: put(made.graph.node[1], "domain", "com.microsoft"),
    "operands in another order": lambda made: made.graph.node[3].input.reverse(),
    "the opset": lambda made: put(made.opset_import[0], "version", 18),
    "a weight's shape": lambda made: made.graph.initializer[0].dims.append(1),
    "an input's name": lambda made: (put(made.graph.input[0], "name", "n"), put(made.graph.node[0].input, 0, "n")),
    "an input's shape": lambda made: put(made.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2),
    "an input's type": lambda made: put(made.graph.input[0].type.tensor_type, "elem_type", TensorProto.FLOAT16),
    "another input": lambda made: made.graph.input.append(value("more", [1])),
    "an output's name": lambda made: (put(made.graph.output[0], "name", "n"), put(made.graph.node[2].output, 0, "n")),
    "outputs in another order": _swap_outputs,
    "a dead node": lambda made: made.graph.node.append(node("Abs", ["a"], ["nowhere"])),
    "a weight shared no more": _shared_weight_becomes_two,
    "a result shared no more": _shared_node_becomes_two,
}  # fmt: skip


@pytest.mark.parametrize("what", OTHER_GRAPHS)
def test_another_graph_if_there_is_another(what: str) -> None:
    assert changed(OTHER_GRAPHS[what])


def _weight_as_constant_node(made: onnx.ModelProto) -> None:
    tensor = made.graph.initializer.pop()
    made.graph.node.insert(0, node("Constant", [], ["w"], value=tensor))


def _weight_in_typed_field(made: onnx.ModelProto) -> None:
    made.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4]))


SAME_GRAPH: dict[str, Callable[[onnx.ModelProto], object]] = {
    "a comment on an attribute": lambda made: put(made.graph.node[1].attribute[0], "doc_string", "why"),
    "comments": lambda made: (put(made, "doc_string", "a"), put(made.graph.node[0], "doc_string", "b")),
    "the graph's name": lambda made: put(made.graph, "name", "other"),
    "the producer": lambda made: put(made, "producer_name", "other"),
    "metadata": lambda made: helper.set_model_props(made, {"a": "b"}),
    "shapes inside": lambda made: made.graph.value_info.append(value("a", [1, 4])),
    "an output's shape": lambda made: made.graph.output[0].type.tensor_type.ClearField("shape"),
    "operator sets that nobody uses": lambda made: made.opset_import.append(helper.make_opsetid("com.microsoft", 1)),
    "a weight that nobody uses": lambda made: made.graph.initializer.append(weight("unused", 9)),
    "inputs left out at the end": lambda made: made.graph.node[0].input.append(""),
    "the default domain by its name": lambda made: put(made.graph.node[0], "domain", "ai.onnx"),
    "a weight as a Constant node": _weight_as_constant_node,
    "a weight in a typed field": _weight_in_typed_field,
}


@pytest.mark.parametrize("what", SAME_GRAPH)
def test_the_same_graph_if_only_the_writing_differs(what: str) -> None:
    assert not changed(SAME_GRAPH[what])


def test_an_attribute_that_says_its_default_is_as_good_as_none() -> None:
    said, unsaid = subject(), subject()
    said.graph.node[1].attribute[0].f = 1.0
    del unsaid.graph.node[1].attribute[:]
    assert graph_digest(said) == graph_digest(unsaid)


def test_the_defaults_of_other_operators_can_be_given() -> None:
    def gelu(*attributes: AttributeProto) -> onnx.ModelProto:
        made = relu()
        made.graph.node[0].op_type, made.graph.node[0].domain = "Gelu", "com.microsoft"
        made.graph.node[0].attribute.extend(attributes)
        return made

    def defaults(domain: str, op_type: str, version: int) -> dict[str, AttributeProto]:
        return {"k": helper.make_attribute("k", 3)} if (domain, op_type) == ("com.microsoft", "Gelu") else {}

    said = gelu(helper.make_attribute("k", 3))
    assert graph_digest(said) != graph_digest(gelu())
    assert graph_digest(said, defaults=defaults) == graph_digest(gelu(), defaults=defaults)


@pytest.mark.parametrize(
    ("attribute", "tensor"),
    [
        ({"value_float": 2.0}, helper.make_tensor("", TensorProto.FLOAT, [], [2.0])),
        ({"value_floats": [1.0, 2.0]}, helper.make_tensor("", TensorProto.FLOAT, [2], [1.0, 2.0])),
        ({"value_int": 2}, helper.make_tensor("", TensorProto.INT64, [], [2])),
        ({"value_ints": [1, 2]}, helper.make_tensor("", TensorProto.INT64, [2], [1, 2])),
        ({"value_string": "a"}, numpy_helper.from_array(np.array("a", object))),
        ({"value_strings": ["a", "b"]}, numpy_helper.from_array(np.array(["a", "b"], object))),
    ],
)
def test_every_spelling_of_a_constant_is_a_weight(attribute: dict[str, object], tensor: TensorProto) -> None:
    use = node("Identity", ["k"], ["y"])
    tensor.name = "k"
    written = model([node("Constant", [], ["k"], **attribute), use])  # type: ignore[arg-type]  # attributes of all kinds
    assert graph_digest(written) == graph_digest(model([use], weights=[tensor]))


def test_sparse_weights_count() -> None:
    def sparse(*numbers: float) -> onnx.ModelProto:
        made = model([node("Identity", ["s"], ["y"])])
        entries = helper.make_sparse_tensor(
            weight("s", *numbers), helper.make_tensor("i", TensorProto.INT64, [len(numbers)], range(len(numbers))), [8]
        )
        made.graph.sparse_initializer.append(entries)
        return made

    assert graph_digest(sparse(1, 2)) == graph_digest(sparse(1, 2))
    assert graph_digest(sparse(1, 2)) != graph_digest(sparse(1, 3))


def test_a_weight_that_is_an_inputs_default_is_both() -> None:
    def with_default(*numbers: float) -> onnx.ModelProto:
        made = model([node("Add", ["x", "w"], ["y"])], inputs=[value("x", [1]), value("w", [1])])
        made.graph.initializer.extend(weight("w", number) for number in numbers)
        return made

    assert len({graph_digest(with_default()), graph_digest(with_default(1)), graph_digest(with_default(2))}) == 3


# Graphs inside graphs


def branches(
    then: str = "Abs", captured: str = "a", inner: str = "t", other: float = 1.0, *, swapped: bool = False
) -> onnx.ModelProto:
    graphs = [
        helper.make_graph(
            [node(then, [captured], [inner]), node("Add", [inner, "k"], [f"{inner}2"])],
            "then", [], [value(f"{inner}2", [4])], [weight("k", other)],
        ),
        helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [value("e", [4])]),
    ]  # fmt: skip
    first, second = graphs[::-1] if swapped else graphs
    return model(
        [node("Relu", ["x"], ["a"]), node("If", ["c"], ["y"], then_branch=first, else_branch=second)],
        inputs=[value("c", [], TensorProto.BOOL), value("x", [4])],
        outputs=[value("y", [4])],
    )


def test_names_inside_a_branch_make_no_difference() -> None:
    renamed = branches(inner="renamed")
    renamed.graph.node[0].output[0] = "captured"
    renamed.graph.node[1].attribute[1 if renamed.graph.node[1].attribute[0].name != "then_branch" else 0].g.node[
        0
    ].input[0] = "captured"
    assert graph_digest(renamed) == graph_digest(branches())


@pytest.mark.parametrize(
    "other",
    [branches(then="Exp"), branches(captured="x"), branches(other=2.0), branches(swapped=True)],
    ids=["operator", "captured value", "weight", "branches"],
)
def test_what_a_branch_computes_counts(other: onnx.ModelProto) -> None:
    assert graph_digest(other) != graph_digest(branches())


def looped(step: str = "Add", *, carried: bool = True) -> onnx.ModelProto:
    body = helper.make_graph(
        [node(step, ["inner", "x" if carried else "inner"], ["next"]), node("Identity", ["going"], ["still"])],
        "body",
        [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("inner", [4])],
        [value("still", [], TensorProto.BOOL), value("next", [4])],
    )
    return model(
        [node("Loop", ["n", "", "x"], ["y"], body=body)], inputs=[value("n", [], TensorProto.INT64), value("x", [4])]
    )


def test_the_body_of_a_loop_counts() -> None:
    digests = {graph_digest(made) for made in (looped(), looped("Mul"), looped(carried=False))}
    assert len(digests) == 3
    assert graph_digest(looped()) in digests


def test_the_body_of_a_function_counts_and_its_inner_names_do_not() -> None:
    def calling(operator: str, inner: str) -> onnx.ModelProto:
        made = model([node("F", ["x"], ["y"], domain="mine")])
        body = [node(operator, [f"{inner}_in"], [inner]), node("Relu", [inner], [f"{inner}_out"])]
        made.functions.append(
            helper.make_function("mine", "F", [f"{inner}_in"], [f"{inner}_out"], body, [helper.make_opsetid("", 17)])
        )
        return made

    assert graph_digest(calling("Abs", "a")) == graph_digest(calling("Abs", "b"))
    assert graph_digest(calling("Abs", "a")) != graph_digest(calling("Neg", "a"))


# Weights in other files


def test_weights_in_another_file_are_the_same_weights(tmp_path: Path) -> None:
    onnx.save(subject(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    structure = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert graph_digest(structure, tmp_path) == graph_digest(subject())
    data = bytearray((tmp_path / "w.bin").read_bytes())
    data[0] ^= 1
    (tmp_path / "w.bin").write_bytes(data)
    assert graph_digest(structure, tmp_path) != graph_digest(subject())


@pytest.mark.parametrize(
    ("harm", "message"),
    [(lambda path: path.unlink(), "cannot be read"), (lambda path: path.write_bytes(b"a"), "is cut short")],
    ids=["missing", "short"],
)
def test_weights_that_are_not_there_are_named(harm: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    onnx.save(subject(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    structure = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    harm(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=message):
        graph_digest(structure, tmp_path)


def test_without_a_folder_weights_in_another_file_are_refused(tmp_path: Path) -> None:
    onnx.save(subject(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    with pytest.raises(ModelError, match="lie in another file"):
        graph_digest(onnx.load(tmp_path / "m.onnx", load_external_data=False))


def test_a_cycle_is_a_fault_of_the_model() -> None:
    with pytest.raises(ModelError, match="cycle"):
        graph_digest(model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]))

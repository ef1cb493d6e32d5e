from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given

from pytest_winml.records.trace import OpTrace, TracedOperator
from pytest_winml.records.trace_difference import OperatorChange, TraceDifference
from tests.records.traces import CPU, HYBRID, NO_DATA, WHOLE, any_trace, fallback, on_cpu, on_npu, trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.records.base import Record


def names(changes: Iterable[OperatorChange]) -> list[str]:
    return [one.after.name for one in changes]


@given(one=any_trace)
def test_a_trace_does_not_differ_from_itself(one: OpTrace) -> None:
    assert one.diff(one).empty
    assert one.diff(one, least=0.0).empty


def bag(values: Iterable[Record]) -> list[bytes]:
    """Order is told by weight, and ties by one of the traces."""
    return sorted(map(msgspec.json.encode, values))


def turned(changes: Iterable[OperatorChange]) -> list[tuple[bytes, bytes, float | None]]:
    return sorted(
        (
            (
                msgspec.json.encode(one.after),
                msgspec.json.encode(one.before),
                -one.weight if one.weight is not None else None,
            )
            for one in changes
        ),
        key=repr,
    )


def straight(changes: Iterable[OperatorChange]) -> list[tuple[bytes, bytes, float | None]]:
    return sorted(
        ((msgspec.json.encode(one.before), msgspec.json.encode(one.after), one.weight) for one in changes), key=repr
    )


@given(one=any_trace, other=any_trace)
def test_the_way_back_is_the_mirror_of_the_way_there(one: OpTrace, other: OpTrace) -> None:
    there, back = one.diff(other), other.diff(one)
    assert turned(there.grew) == straight(back.shrank)
    assert turned(there.shrank) == straight(back.grew)
    assert turned(there.moved) == straight(back.moved)
    assert turned(there.retyped) == straight(back.retyped)
    assert bag(there.appeared) == bag(back.disappeared)
    assert bag(there.disappeared) == bag(back.appeared)
    assert bag(there.new_fallback) == bag(back.gone_fallback)
    assert (there.partitions_before, there.partitions_after) == (back.partitions_after, back.partitions_before)
    assert there.empty == back.empty


@given(one=any_trace, other=any_trace)
def test_every_operator_is_found_again_or_told(one: OpTrace, other: OpTrace) -> None:
    found = one.diff(other)
    assert len(one.operators) - len(found.disappeared) == len(other.operators) - len(found.appeared)


def test_growth_is_told_by_its_weight_in_all_work() -> None:
    slower = trace(
        on_npu("conv1", "Conv", 900_000), on_npu("conv2", "Conv", 150_000), on_npu("mm", "MatMul", 151_000),
        on_npu("Transpose", "Transpose", 400_000), on_npu("flat", "Reshape", 0),
    )  # fmt: skip
    found = WHOLE.diff(slower)
    assert names(found.grew) == ["Transpose", "conv1"]
    assert names(found.shrank) == ["conv2"]
    assert found.grew[0].weight == pytest.approx(350_000 / 1_601_000)
    assert found.grew[0].growth == pytest.approx(7.0)
    assert found.grew[0].after.share == pytest.approx(400 / 1601)
    assert [(one.before, one.after) for one in found.totals] == [(1_000_000, 1_601_000)]
    assert "mm" in names(WHOLE.diff(slower, least=0.0).grew)


def test_what_moves_to_another_ep_is_one_operator_and_its_figures_are_not_compared() -> None:
    before = trace(on_npu("conv1", "Conv", 100), on_npu("mm", "MatMul", 100))
    after = trace(
        on_cpu("conv1", "FusedConv", 80.0), on_npu("mm", "MatMul", 100),
        elsewhere=(fallback("conv1", "FusedConv", "Operators of type `FusedConv` are not supported by QNN EP"),),
    )  # fmt: skip
    found = before.diff(after)
    assert [(one.before.op_type, one.after.op_type, one.after.ep) for one in found.moved] == [
        ("Conv", "FusedConv", CPU)
    ]
    assert found.moved[0].weight is None
    assert found.moved[0].growth is None
    assert not any((found.appeared, found.disappeared, found.grew, found.retyped))
    assert [node.reason for node in found.new_fallback] == ["Operators of type `FusedConv` are not supported by QNN EP"]


def test_an_operator_is_found_by_its_nodes_and_then_by_its_place_among_its_type() -> None:
    before = trace(on_npu("a", "Conv", 10), on_npu("old", "Gelu", 10), on_npu("x", "Add", 10))
    renamed = msgspec.structs.replace(before.operators[0], name="a_fused", op_type="Gemm")
    after = trace(renamed, on_npu("new", "Gelu", 10), on_npu("y", "Mul", 10))
    found = before.diff(after)
    assert [(one.before.name, one.after.name) for one in found.retyped] == [("a", "a_fused")]
    assert [one.name for one in found.appeared] == ["y"]
    assert [one.name for one in found.disappeared] == ["x"]


def test_a_partition_is_not_another_one_for_its_name() -> None:
    def partition(name: str, time_us: float) -> TracedOperator:
        return TracedOperator(name=name, op_type=name, ep=CPU, meaning="partition wall time", time_us=time_us)

    found = trace(partition("hash_1", 10.0)).diff(trace(partition("hash_2", 20.0)))
    assert not found.retyped
    assert not found.appeared
    assert names(found.grew) == ["hash_2"]


def test_a_reason_in_other_words_makes_no_new_fallback() -> None:
    before, after = (trace(on_npu("a", "Conv", 1), elsewhere=(fallback("e", reason=why),)) for why in ("x", "y"))
    assert before.diff(after).empty


def test_shares_stand_in_for_figures_that_are_not_there() -> None:
    def told(share: float) -> OpTrace:
        return trace(msgspec.structs.replace(on_npu("a", "Conv", None), share=share), on_npu("b", "Add", None))

    found = told(0.25).diff(told(0.5))
    assert [(one.after.name, one.weight) for one in found.grew] == [("a", 0.25)]


def test_what_does_not_compare_is_noted() -> None:
    native = msgspec.structs.replace(WHOLE, metadata=msgspec.structs.replace(WHOLE.metadata, emulated=False))
    assert WHOLE.diff(native).notes == ("emulated: True before, False after",)
    assert WHOLE.diff(NO_DATA).notes == ("the trace after has no figures: no_data: the EP wrote no profile",)
    assert WHOLE.diff(trace(on_cpu("a", "Add", 1.0))).notes == (
        "cycles over all hardware threads before, kernel wall time after: not compared",
    )


def test_a_difference_is_read_back_as_it_was_written() -> None:
    found = WHOLE.diff(HYBRID)
    assert not found.empty
    assert msgspec.json.decode(msgspec.json.encode(found), type=TraceDifference) == found

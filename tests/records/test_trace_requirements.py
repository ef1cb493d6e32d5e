from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.records.trace import TracedPartition
from tests.records.traces import HYBRID, NO_DATA, QNN, WHOLE, fallback, on_cpu, on_npu, trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_winml.records.trace import OpTrace

FEWEST_COLUMNS = 72
MOST_LINES = 11


def complaint(of: Callable[[], None]) -> str:
    with pytest.raises(AssertionError) as caught:
        of()
    text = str(caught.value)
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= FEWEST_COLUMNS for line in lines[1:])
    return text


def test_what_holds_is_silent(tmp_path: Path) -> None:
    WHOLE.require_no_fallback()
    WHOLE.require_on_target(op_type="Conv")
    WHOLE.require_on_target(op_type="Relu")
    WHOLE.require_on_target(name="mm")
    WHOLE.require_share(op_type="Conv", at_least=0.5, at_most=0.9)
    WHOLE.require_share(op_type="Transpose", at_most=0.05)
    WHOLE.require_partitions(at_most=1)
    WHOLE.op_set().save(tmp_path / "ops.json")
    WHOLE.require_op_set(tmp_path / "ops.json")
    WHOLE.require_op_set(WHOLE)
    WHOLE.require_op_set(WHOLE.op_set())


def test_nodes_that_fell_back_stand_below_their_reason() -> None:
    assert complaint(HYBRID.require_no_fallback) == (
        "2 nodes are not on qnn:npu:\n"
        "  Operators of type `Erf` are not supported by QNN EP. Node and its …\n"
        "    Erf '/vit/blocks/0/mlp/act/Erf' on CPU, 75.0 % of kernel time\n"
        "    Erf '/vit/blocks/1/mlp/act/Erf' on CPU, 20.0 % of kernel time"
    )


def test_many_nodes_with_long_names_and_many_reasons_still_fit() -> None:
    nodes = tuple(fallback("/" + "x" * 90 + str(number), reason=f"reason {number % 3}") for number in range(40))
    text = complaint(trace(on_npu("a", "Conv", 1), elsewhere=nodes).require_no_fallback)
    assert text.startswith("40 nodes are not on qnn:npu:\n  reason 0\n    Erf '/xxx")
    assert text.endswith("\n  and 33 more")


def test_every_node_has_a_reason_of_its_own_and_still_fits() -> None:
    nodes = tuple(fallback(str(number), reason=f"reason {number}") for number in range(40))
    text = complaint(trace(on_npu("a", "Conv", 1), elsewhere=nodes).require_no_fallback)
    assert text.endswith("\n  reason 3\n    Erf '3' on CPU\n  and 36 more")


def test_without_a_reason_that_is_said() -> None:
    text = complaint(trace(on_npu("a", "Conv", 1), elsewhere=(fallback("", reason=None),)).require_no_fallback)
    assert text == "1 node is not on qnn:npu:\n  the EP gives no reason\n    Erf (unnamed) on CPU"


def test_nothing_on_the_target_is_a_fallback_and_no_data_is_no_answer() -> None:
    everywhere_else = msgspec.structs.replace(NO_DATA, status="cpu_fallback")
    assert complaint(everywhere_else.require_no_fallback) == "nothing ran on qnn:npu"
    assert complaint(lambda: everywhere_else.require_partitions(at_most=1)) == "nothing ran on qnn:npu"
    for required in (
        NO_DATA.require_no_fallback,
        lambda: NO_DATA.require_on_target(op_type="Conv"),
        lambda: NO_DATA.require_partitions(at_most=1),
        lambda: NO_DATA.require_share(op_type="Conv", at_most=0.5),
        lambda: NO_DATA.require_op_set(WHOLE),
    ):
        with pytest.raises(UsageProblem, match="no_data"):
            required()


def test_an_operator_elsewhere_is_shown_with_its_reason() -> None:
    assert complaint(lambda: HYBRID.require_on_target(op_type="Erf")).startswith(
        "Erf is not on qnn:npu, but here:\n  Operators of type `Erf` are"
    )
    quantize = complaint(lambda: HYBRID.require_on_target(op_type="QuantizeLinear"))
    assert quantize == (
        "QuantizeLinear is not on qnn:npu, but here:\n  QuantizeLinear 'x_QuantizeLinear' on CPU, 5.0 % of kernel time"
    )


def test_a_node_under_another_name_on_the_cpu_is_shown_by_its_own() -> None:
    fused = trace(on_npu("a", "Conv", 1), on_cpu("b_nchwc", "FusedConv", 3.0), elsewhere=(fallback("b", "Conv", "no"),))
    assert complaint(lambda: fused.require_on_target(op_type="Conv")) == (
        "Conv is not on qnn:npu, but here:\n  no\n    Conv 'b' on CPU"
    )


def test_what_is_nowhere_is_not_on_the_target() -> None:
    assert complaint(lambda: WHOLE.require_on_target(op_type="Gelu")) == (
        "no Gelu in the trace; there are: Conv, MatMul, Reshape, Transpose"
    )
    with pytest.raises(UsageProblem, match="say op_type= or name="):
        WHOLE.require_on_target()


def test_too_large_a_share_shows_who_takes_it() -> None:
    assert complaint(lambda: WHOLE.require_share(op_type="Conv", at_most=0.5)) == (
        "Conv takes 80.0 % of the cycles over all hardware threads; at most 50.0 % is allowed:\n"
        "  Conv 'conv1' on QNN, 60.0 %\n"
        "  Conv 'conv2' on QNN, 20.0 %"
    )


def test_too_small_a_share_shows_who_takes_the_rest() -> None:
    assert complaint(lambda: WHOLE.require_share(op_type="Relu", at_least=0.1)).splitlines()[:3] == [
        "Relu takes 0.0 % of the cycles over all hardware threads; at least 10.0 % is required:",
        "  Relu has no operator of its own: it is inside Conv",
        "  Conv 'conv1' on QNN, 60.0 %",
    ]


@pytest.mark.parametrize("limits", [{}, {"at_most": 50.0}, {"at_least": -0.1}, {"at_most": float("nan")}])
def test_a_limit_is_a_share(limits: dict[str, float]) -> None:
    with pytest.raises(UsageProblem, match="no limit of a share"):
        WHOLE.require_share("Relu", None, None, **limits)


def test_too_many_partitions_show_what_split_them() -> None:
    assert complaint(lambda: HYBRID.require_partitions(at_most=1)).splitlines()[:3] == [
        "2 partitions on qnn:npu, at most 1 allowed; not on the target:",
        "  Operators of type `Erf` are not supported by QNN EP. Node and its …",
        "    Erf '/vit/blocks/0/mlp/act/Erf' on CPU, 75.0 % of kernel time",
    ]
    alone = msgspec.structs.replace(
        WHOLE,
        partitions=tuple(
            TracedPartition(index=place, ep=QNN, operators=2, cycles=5e4, time_us=40.0) for place in range(30)
        ),
    )
    lines = complaint(lambda: alone.require_partitions(at_most=2)).splitlines()
    assert lines[:2] == [
        "30 partitions on qnn:npu, at most 2 allowed:",
        "  0: 2 operators, 50.0 k cycles, 40.0 us",
    ]
    assert lines[-1] == "  and 22 more"


def test_another_op_set_shows_what_came_and_what_went(tmp_path: Path) -> None:
    now = trace(
        on_npu("conv1", "Conv", 1), on_npu("mm", "MatMul", 1), on_npu("flat", "Reshape", 1),
        *(on_npu(f"Transpose{number}", "Transpose", 1) for number in range(4)),
    )  # fmt: skip
    WHOLE.op_set().save(tmp_path / "ops.json")
    assert complaint(lambda: now.require_op_set(tmp_path / "ops.json")) == (
        "the operators are not those that were saved:\n"
        "  -1 Conv on QNN\n"
        "  +3 Transpose on QNN: of Transpose0, Transpose1, Transpose2, …"
    )


def test_an_op_set_with_many_changes_fits() -> None:
    now = trace(*(on_npu("x" * 80, f"NewType{number}", 1) for number in range(30)))
    assert complaint(lambda: now.require_op_set(WHOLE)).endswith("more")


def test_an_op_set_does_not_depend_on_order_figures_or_graph_hashes() -> None:
    turned = msgspec.structs.replace(WHOLE, operators=WHOLE.operators[::-1])
    assert turned.op_set() == WHOLE.op_set()

    def compiled(hashed: str) -> OpTrace:
        partition = msgspec.structs.replace(
            on_npu(hashed, hashed, None), meaning="partition wall time", time_us=1.0, onnx_nodes=()
        )
        return trace(partition)

    assert compiled("QNN_123_0").op_set() == compiled("QNN_456_0").op_set()


def test_a_saved_op_set_that_is_not_there_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"save one: trace.op_set\(\).save"):
        WHOLE.require_op_set(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageProblem, match="no saved op set"):
        WHOLE.require_op_set(tmp_path / "bad.json")

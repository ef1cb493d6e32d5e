from __future__ import annotations

import pytest

from pytest_winml.report.assertions import explain
from tests.records.traces import CPU, HYBRID, WHOLE, fallback, on_npu, trace


def test_too_small_a_share_shows_the_largest_operators() -> None:
    assert explain(">", WHOLE.share(op_type="MatMul"), 0.5) == [
        "0.15 > 0.5: MatMul takes 15.0 % of the cycles over all hardware threads",
        "  Conv 'conv1' on QNN, 60.0 %",
        "  Conv 'conv2' on QNN, 20.0 %",
        "  MatMul 'mm' on QNN, 15.0 %",
        "  Transpose 'Transpose' on QNN, 5.0 %",
        "  Reshape 'flat' on QNN, 0.0 %",
    ]


def test_too_large_a_share_shows_what_was_asked_for_from_either_side() -> None:
    share = WHOLE.share(op_type="Conv")
    expected = ["  Conv 'conv1' on QNN, 60.0 %", "  Conv 'conv2' on QNN, 20.0 %"]
    for op, left, right in (("<", share, 0.5), ("<=", share, 0.5), (">", 0.5, share), (">=", 0.5, share)):
        lines = explain(op, left, right)
        assert lines
        assert lines[1:] == expected


def test_a_type_inside_others_is_said_to_be() -> None:
    lines = explain(">", WHOLE.share(op_type="Relu"), 0.5)
    assert lines
    assert lines[1] == "  Relu has no operator of its own: it is inside Conv"


def test_operators_on_the_wrong_ep_are_shown_with_their_reasons() -> None:
    assert explain("==", HYBRID.ops_on(CPU), ()) == [
        "3 operators on CPUExecutionProvider:",
        "  Operators of type `Erf` are not supported by QNN EP. Node and its …",
        "    Erf '/vit/blocks/0/mlp/act/Erf' on CPU, 75.0 % of kernel time",
        "    Erf '/vit/blocks/1/mlp/act/Erf' on CPU, 20.0 % of kernel time",
        "  QuantizeLinear 'x_QuantizeLinear' on CPU, 5.0 % of kernel time",
    ]


def test_any_list_of_operators_is_shown() -> None:
    assert explain("==", [one for one in WHOLE.top() if one.op_type == "Transpose"], []) == [
        "1 operator:", "  Transpose 'Transpose' on QNN, 5.0 % of cycles",
    ]  # fmt: skip


def test_nodes_that_fell_back_are_shown_with_their_reasons() -> None:
    nodes = trace(
        on_npu("a", "Conv", 1), elsewhere=(fallback("e", reason="no"), fallback("", reason=None))
    ).fallback_nodes
    assert explain("==", nodes, ()) == [
        "2 nodes not on the target:", "Erf 'e' on CPU: no", "Erf '' on CPU: the EP gives no reason",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [("==", 1, 2), ("==", (), ()), ("==", (1,), ()), ("!=", HYBRID.ops_on(CPU), ()), ("==", HYBRID.ops_on(CPU), (1,))],
)
def test_what_is_not_ours_is_left_to_pytest(op: str, left: object, right: object) -> None:
    assert explain(op, left, right) is None


def test_pytest_shows_it_below_the_assertion(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from pytest_winml.report.assertions import explain\n"
        "def pytest_assertrepr_compare(op, left, right):\n"
        "    return explain(op, left, right)\n"
    )
    pytester.makepyfile(
        "from tests.records.traces import HYBRID\n"
        "def test_share():\n"
        "    assert HYBRID.share(op_type='MatMul') > 0.5\n"
        "def test_ops():\n"
        "    assert HYBRID.ops_on('CPUExecutionProvider') == ()\n"
        "def test_required():\n"
        "    HYBRID.require_no_fallback()\n"
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines([
        "E       AssertionError: assert 0.25 > 0.5: MatMul takes 25.0 % of the cycles over all hardware threads",
        "E           Conv 'conv1' on QNN, 75.0 %",
        "E       AssertionError: assert 3 operators on CPUExecutionProvider:",
        ">       HYBRID.require_no_fallback()",
        "E       AssertionError: 2 nodes are not on qnn:npu:",
        "E *Erf '/vit/blocks/0/mlp/act/Erf' on CPU, 75.0 % of kernel time",
    ])  # fmt: skip
    assert "trace_requirements.py" not in result.stdout.str()

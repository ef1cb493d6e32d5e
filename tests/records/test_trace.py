from __future__ import annotations

import copy
import json
import math
import pickle

import msgspec
import pytest
from hypothesis import given

from pytest_winml.errors import UsageProblem
from pytest_winml.records.trace import HardwareSample, HardwareUse, OpTrace, TracedOperator
from tests.records.traces import (
    CPU,
    CYCLES,
    HYBRID,
    KERNEL,
    METADATA,
    NO_DATA,
    PARTITION,
    QNN,
    WHOLE,
    any_trace,
    fallback,
    on_cpu,
    on_npu,
    trace,
)

# Shares.


def test_the_share_of_an_op_type_is_of_all_work() -> None:
    assert WHOLE.share(op_type="Conv") == pytest.approx(0.8)
    assert WHOLE.share(op_type="Reshape") == 0.0
    assert WHOLE.share() == 1.0
    assert WHOLE.share(ep="qnn") == 1.0


def test_the_share_of_a_name_is_of_all_operators_that_hold_the_node() -> None:
    assert WHOLE.share(name="mm") == pytest.approx(0.15)
    assert WHOLE.share(name="mm/Add") == pytest.approx(0.15)
    split = trace(on_npu("softmax", "Softmax", 60), on_npu("t", "Transpose", 40))
    both = msgspec.structs.replace(split.operators[1], onnx_nodes=split.operators[0].onnx_nodes)
    assert trace(split.operators[0], both, on_npu("x", "Add", 100)).share(name="softmax") == pytest.approx(0.5)


def test_shares_are_of_one_meaning() -> None:
    assert HYBRID.share(op_type="Conv") == pytest.approx(0.75)
    assert HYBRID.share(op_type="Erf") == pytest.approx(0.95)
    assert HYBRID.share(meaning=KERNEL) == 1.0


@pytest.mark.parametrize(("ep", "asked"), [(None, "everything"), ("qnn", "qnn"), (CPU, "CPU")])
def test_what_would_mix_meanings_is_refused(ep: str | None, asked: str) -> None:
    with pytest.raises(UsageProblem, match=f"share of {asked}"):
        HYBRID.share(ep=ep)


def test_a_type_on_two_eps_needs_to_be_narrowed() -> None:
    mixed = trace(on_npu("a", "Conv", 10), on_cpu("b", "Conv", 10), on_cpu("c", "Add", 10))
    with pytest.raises(UsageProblem, match="would add cycles over all hardware threads and kernel wall time"):
        mixed.share(op_type="Conv")
    assert mixed.share(op_type="Conv", ep="cpu") == 0.5


def test_a_partition_answers_only_where_nothing_finer_does() -> None:
    inside = on_npu("a", "Conv", 10).onnx_nodes
    partition = TracedOperator(
        name="partition 0", op_type="QNN", ep=QNN, meaning=PARTITION, time_us=5.0, onnx_nodes=inside
    )
    assert trace(on_npu("a", "Conv", 10), on_npu("b", "Add", 30), partition).share(name="a") == 0.25
    assert trace(partition).share(name="a") == 1.0


def test_a_type_that_is_not_there_or_only_inside_others_takes_nothing() -> None:
    assert WHOLE.share(op_type="Gelu") == 0.0
    fused = WHOLE.share(op_type="Relu")
    assert fused == 0.0
    assert [one.name for one in fused.inside] == ["conv1"]


def test_what_nobody_traced_takes_an_unknown_share() -> None:
    unseen = trace(on_npu("a", "Conv", 10), elsewhere=(fallback("erf"),))
    for op_type, name, ep in (("Erf", None, None), (None, None, "cpu"), (None, None, "qnn"), (None, "erf", None)):
        with pytest.raises(UsageProblem, match="Erf 'erf' ran on CPU, where nothing was traced"):
            unseen.share(op_type, name, ep)
    assert unseen.share(op_type="Conv") == 1.0


@pytest.mark.parametrize("figure", [None, math.nan, math.inf])
def test_an_operator_without_a_figure_has_no_share(figure: float | None) -> None:
    with pytest.raises(UsageProblem, match="Conv 'a' has no figure"):
        trace(on_npu("a", "Conv", figure), on_npu("b", "Add", 10)).share(op_type="Conv")


def test_nothing_at_all_has_no_shares() -> None:
    with pytest.raises(UsageProblem, match="has no figure"):
        trace(on_npu("a", "Conv", 0)).share()


def test_where_figures_are_missing_the_trace_s_own_shares_stand() -> None:
    told = msgspec.structs.replace(on_npu("a", "Conv", None), share=0.25)
    assert trace(told, on_npu("b", "Add", 10)).share(op_type="Conv") == 0.25


@pytest.mark.parametrize("status", ["no_data", "parse_failed", "not_run", "cpu_fallback"])
def test_a_trace_without_figures_says_so(status: str) -> None:
    with pytest.raises(UsageProblem, match=f"has no figures: {status}: the EP wrote no profile"):
        msgspec.convert({**msgspec.to_builtins(NO_DATA), "status": status}, OpTrace).share(op_type="Conv")


def test_wrong_names_suggest_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="did you mean 'conv1'"):
        WHOLE.share(name="conv_1")
    with pytest.raises(UsageProblem, match="see top"):
        WHOLE.share(name="?")
    with pytest.raises(UsageProblem, match="did you mean 'QNNExecutionProvider'"):
        WHOLE.ops_on("QNNExecutionProvidr")
    with pytest.raises(UsageProblem, match="unknown meaning"):
        WHOLE.share(meaning=KERNEL)


def test_a_share_is_a_float() -> None:
    share = WHOLE.share(op_type="MatMul")
    assert isinstance(share, float)
    assert json.dumps({"share": share}) == '{"share": 0.15}'
    assert type(share + 1) is float
    assert f"{share:.2f}" == "0.15"
    assert {share, 0.15} == {0.15}
    for other in (copy.deepcopy(share), pickle.loads(pickle.dumps(share))):  # noqa: S301 - our own
        assert other == share
        assert other.chosen == share.chosen
    assert msgspec.json.encode(float(share)) == b"0.15"


def test_msgspec_takes_a_share_only_as_a_plain_float() -> None:
    """It looks at the exact type; whoever writes one into a record converts it."""
    with pytest.raises(TypeError):
        msgspec.json.encode(WHOLE.share())


# Operators.


def test_the_top_is_of_the_target_s_own_meaning_and_has_shares() -> None:
    assert [(one.name, one.share) for one in WHOLE.top(2)] == [("conv1", 0.6), ("conv2", 0.2)]
    assert [one.name for one in HYBRID.top()] == ["conv1", "mm"]
    assert [one.name for one in HYBRID.top(1, KERNEL)] == ["/vit/blocks/0/mlp/act/Erf"]
    assert NO_DATA.top() == ()


def test_operators_are_asked_for_by_ep_however_it_is_spelled() -> None:
    for ep in (CPU, "cpu", "CPU"):
        assert [one.op_type for one in HYBRID.ops_on(ep)] == ["Erf", "Erf", "QuantizeLinear"]
    assert WHOLE.ops_on(CPU) == ()
    assert HYBRID.ops_on("cpu")[0].share == 0.75
    assert repr(HYBRID.ops_on("cpu")[2]) == "<QuantizeLinear 'x_QuantizeLinear' on CPU: 5.0 %>"


def test_a_node_that_nobody_traced_is_on_its_ep_all_the_same() -> None:
    unseen = trace(on_npu("a", "Conv", 10), elsewhere=(fallback("erf"),))
    assert [one.name for one in unseen.ops_on("cpu")] == ["erf"]


def test_a_trace_without_data_does_not_prove_that_an_ep_is_empty() -> None:
    with pytest.raises(UsageProblem, match="does not say what ran: no_data"):
        NO_DATA.ops_on("cpu")
    with pytest.raises(UsageProblem, match="does not say what ran"):
        NO_DATA.op_set()


# JSON.


def test_a_trace_is_read_back_as_it_was_written_with_its_nulls() -> None:
    for one in (WHOLE, HYBRID, NO_DATA):
        text = one.to_json()
        assert OpTrace.from_json(text) == one
        assert json.loads(text) == json.loads(msgspec.json.encode(one))
    assert '"hardware":null' in NO_DATA.to_json()


@given(one=any_trace)
def test_what_is_no_finite_number_is_null_and_named(one: OpTrace) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = one.to_json()
    json.loads(text, parse_constant=refuse)
    again = OpTrace.from_json(text)
    assert OpTrace.from_json(again.to_json()) == again
    lost = sum(
        figure is not None and not math.isfinite(figure)
        for operator in one.operators
        for figure in (operator.cycles, operator.time_us)
    )
    assert sum("operators[" in note for note in again.notes) == lost


def test_a_sample_without_a_time_is_left_out_and_named() -> None:
    samples = (HardwareSample(at_us=math.nan, cpu_percent=1.0), HardwareSample(at_us=2.0, cpu_percent=math.inf))
    again = OpTrace.from_json(OpTrace(metadata=METADATA, status="ok", hardware=HardwareUse(samples=samples)).to_json())
    assert again.hardware
    assert again.hardware.samples == (HardwareSample(at_us=2.0),)
    assert again.notes == (
        "not a finite number, and left out: hardware.samples[0].at_us (nan)",
        "not a finite number, and left out: hardware.samples[1].cpu_percent (inf)",
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 1}', "\xff", '{"schema_version": 2}'])
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"no trace|schema 2"):
        OpTrace.from_json(text.encode("latin-1"))


def test_the_meanings_begin_with_the_target_s() -> None:
    assert trace(on_cpu("a", "Add", 1.0), on_npu("b", "Add", 1.0)).meanings == (CYCLES, KERNEL)

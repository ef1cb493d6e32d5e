from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.report.trace import difference_lines, trace_lines
from tests.records.traces import HYBRID, NO_DATA, WHOLE, any_trace, fallback, on_cpu, on_npu, trace

if TYPE_CHECKING:
    from pytest_winml.records.trace import OpTrace

NATIVE = msgspec.structs.replace(WHOLE, metadata=msgspec.structs.replace(WHOLE.metadata, emulated=False, runs=1))
LESSER = msgspec.structs.replace(
    NATIVE, status="basic_fallback", reason="QNN_SDK_ROOT is not set, and the viewer is part of the SDK",
    notes=("tracing took 0.42 s",),
)  # fmt: skip
SLOWER = trace(
    on_npu("conv1", "Conv", 900_000), on_cpu("mm", "FusedMatMul", 15.0), on_npu("Transpose", "Transpose", 400_000),
    on_npu("/vit/encoder/layers/0/attention/Transpose_1", "Transpose", 90_000), on_npu("flat", "Shape", 0),
    elsewhere=(fallback("mm", "FusedMatMul", None),),
)  # fmt: skip

WHOLE_AT_80 = """\
digits-cnn-w8a16-qnn:npu on qnn:npu: basic trace by qnn, 1 run after 2 warm-ups
status: basic_fallback: QNN_SDK_ROOT is not set, and the viewer is part of the
SDK

5 operators, by cycles over all hardware threads
operator   type       EP   share   cycles  calls
---------  ---------  ---  ------  ------  -----
conv1      Conv       QNN  60.0 %  600 k   1
conv2      Conv       QNN  20.0 %  200 k   1
mm         MatMul     QNN  15.0 %  150 k   1
Transpose  Transpose  QNN  5.0 %   50.0 k  1
flat       Reshape    QNN  0.0 %   0       1

partition  EP   operators  cycles  time
---------  ---  ---------  ------  ------
0          QNN  5          1.00 M  360 us

note: tracing took 0.42 s
"""
HYBRID_AT_80 = """\
digits-cnn-w8a16-qnn:npu on qnn:npu, emulated: basic trace by qnn, 5 runs after
2 warm-ups
status: ok
emulated: cycles are the emulator's count, and its times are not shown

2 operators, by cycles over all hardware threads
operator  type    EP   share   cycles  calls
--------  ------  ---  ------  ------  -----
conv1     Conv    QNN  75.0 %  600 k   1
mm        MatMul  QNN  25.0 %  200 k   1

3 operators, by kernel wall time
operator                   type            EP   share   time     calls
-------------------------  --------------  ---  ------  -------  -----
/vit/blocks/0/mlp/act/Erf  Erf             CPU  75.0 %  75.0 us  1
/vit/blocks/1/mlp/act/Erf  Erf             CPU  20.0 %  20.0 us  1
x_QuantizeLinear           QuantizeLinear  CPU  5.0 %   5.00 us  1

not on the target: 2 nodes
  on CPU: Operators of type `Erf` are not supported by QNN EP. Node and its
  neighbours stay on the CPU.
    Erf '/vit/blocks/0/mlp/act/Erf'
    Erf '/vit/blocks/1/mlp/act/Erf'

partition  EP   operators  cycles  time
---------  ---  ---------  ------  ----
0          QNN  1          600 k   -
1          QNN  1          200 k   -
"""
NO_DATA_AT_80 = """\
digits-cnn-w8a16-qnn:npu on qnn:npu, emulated: basic trace by qnn, 5 runs after
2 warm-ups
status: no_data: the EP wrote no profile
emulated: cycles are the emulator's count, and its times are not shown
"""
SLOWER_AT_80 = """\
cycles over all hardware threads: 1.00 M before, 1.39 M after
kernel wall time: - before, 15.0 us after

grew       type       EP   before  after  change    of all
---------  ---------  ---  ------  -----  --------  -------
Transpose  Transpose  QNN  50.0 k  400 k  +700.0 %  +25.2 %
conv1      Conv       QNN  600 k   900 k  +50.0 %   +21.6 %

change is of the operator itself, and of all: of all work that is counted the
same way.

moved to another EP: 1 operator
  MatMul 'mm': QNN → CPU as FusedMatMul

of another type: 1 operator
  Reshape 'flat' as Shape

new: 1 operator
  Transpose '/vit/encoder/layers/0/attention/Transpose_1' on QNN, 6.5 % of the
  cycles over all hardware threads

gone: 1 operator
  Conv 'conv2' on QNN, 20.0 % of the cycles over all hardware threads

no longer on the target: 1 node
  on CPU: the EP gives no reason
    FusedMatMul 'mm'

partitions: 1 before, 0 after
"""


@pytest.mark.parametrize(("one", "text"), [(LESSER, WHOLE_AT_80), (HYBRID, HYBRID_AT_80), (NO_DATA, NO_DATA_AT_80)])
def test_a_trace_reads_well_at_80_columns(one: OpTrace, text: str) -> None:
    assert "\n".join(trace_lines(one, 80)) + "\n" == text


def test_a_difference_reads_well_at_80_columns() -> None:
    assert "\n".join(difference_lines(WHOLE.diff(SLOWER), 80)) + "\n" == SLOWER_AT_80


def test_no_difference_is_said() -> None:
    assert difference_lines(WHOLE.diff(WHOLE), 80) == [
        "cycles over all hardware threads: 1.00 M before, 1.00 M after",
        "the same operators on the same EPs, and none grew or shrank",
    ]


def test_only_the_largest_are_shown_and_the_rest_is_counted() -> None:
    many = trace(
        *(on_npu(f"{'/very/long/name' * 9}/conv{number}", "Conv", 1 + number) for number in range(40)),
        elsewhere=tuple(fallback(f"{'/very/long/name' * 9}/{number}") for number in range(40)),
    )
    lines = trace_lines(many, 80)
    assert "the 10 largest of 40 operators, by cycles over all hardware threads" in lines
    assert any("conv39" in line for line in lines)
    assert lines[-1] == "  and 20 more"
    assert len(lines) < 45
    assert max(map(len, lines)) <= 80
    lines = difference_lines(trace().diff(many), 80)
    assert "new: 40 operators" in lines
    assert "  and 30 more" in lines
    assert max(map(len, lines)) <= 80


def test_a_long_name_goes_without_the_op_type_that_stands_beside_it() -> None:
    layers = [f"/model/encoder/layers/layers.{number}" for number in (0, 1)]
    names = [f"{layer}/{norm}/LayerNormalization" for layer in layers for norm in ("norm1", "norm2")]
    lines = trace_lines(trace(*(on_npu(name, "LayerNormalization", 10) for name in names)), 80)
    assert [line.split()[0] for line in lines[-4:]] == [
        "/model/encoder/…layers.0/norm1/…",
        "/model/encoder/…layers.0/norm2/…",
        "/model/encoder/…layers.1/norm1/…",
        "/model/encoder/…layers.1/norm2/…",
    ]


def test_names_that_would_read_the_same_stay_whole() -> None:
    names = [f"/model/{'x' * 40}/{middle}/{'y' * 40}" for middle in "ab"]
    lines = trace_lines(trace(*(on_npu(name, "Add", 10) for name in names)), 80)
    assert all("…" not in line for line in lines)
    assert max(map(len, lines)) <= 80


@given(one=any_trace, other=any_trace, width=st.integers(80, 140))
def test_whatever_the_trace_its_lines_fit(one: OpTrace, other: OpTrace, width: int) -> None:
    for line in (*trace_lines(one, width), *difference_lines(one.diff(other), width)):
        assert len(line) <= width
        assert "nan" not in line
        assert "inf" not in line

"""Made-up traces: one whole on the NPU, one that left two nodes to the CPU, and any at all."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from pytest_winml.records.placement import FallbackNode
from pytest_winml.records.trace import (
    HardwareSample,
    HardwareUse,
    Meaning,
    OnnxNode,
    OpTrace,
    PartitionRun,
    TracedInference,
    TracedOperator,
    TracedPartition,
    TraceMetadata,
)

QNN = "QNNExecutionProvider"
CPU = "CPUExecutionProvider"
CYCLES: Meaning = "cycles over all hardware threads"
KERNEL: Meaning = "kernel wall time"
PARTITION: Meaning = "partition wall time"
WHY = "Operators of type `Erf` are not supported by QNN EP. Node and its neighbours stay on the CPU."
METADATA = TraceMetadata(
    case="digits-cnn-w8a16-qnn:npu", target="qnn:npu", ep=QNN, backend="qnn", runs=5, warm_up=2, emulated=True
)


def on_npu(name: str, op_type: str, cycles: float | None, *inside: str, partition: int | None = 0) -> TracedOperator:
    """`inside`: types of further nodes that were fused into it."""
    nodes = tuple(OnnxNode(name=f"{name}/{one}", op_type=one) for one in inside)
    return TracedOperator(
        name=name, op_type=op_type, ep=QNN, meaning=CYCLES, cycles=cycles, calls=1, partition=partition,
        onnx_nodes=(OnnxNode(name=name, op_type=op_type), *nodes),
    )  # fmt: skip


def on_cpu(name: str, op_type: str, time_us: float | None) -> TracedOperator:
    return TracedOperator(
        name=name, op_type=op_type, ep=CPU, meaning=KERNEL, time_us=time_us, calls=1,
        onnx_nodes=(OnnxNode(name=name, op_type=op_type),),
    )  # fmt: skip


def fallback(name: str, op_type: str = "Erf", reason: str | None = WHY) -> FallbackNode:
    return FallbackNode(name=name, op_type=op_type, ep=CPU, reason=reason)


def trace(
    *operators: TracedOperator, elsewhere: tuple[FallbackNode, ...] = (), partitions: tuple[TracedPartition, ...] = ()
) -> OpTrace:
    return OpTrace(metadata=METADATA, status="ok", operators=operators, fallback_nodes=elsewhere, partitions=partitions)


WHOLE = trace(
    on_npu("conv1", "Conv", 600_000, "Relu"),
    on_npu("conv2", "Conv", 200_000),
    on_npu("mm", "MatMul", 150_000, "Add"),
    on_npu("Transpose", "Transpose", 50_000),
    on_npu("flat", "Reshape", 0),
    partitions=(TracedPartition(index=0, ep=QNN, operators=5, cycles=1_000_000, time_us=360.0),),
)
HYBRID = msgspec.structs.replace(
    trace(
        on_npu("conv1", "Conv", 600_000),
        on_npu("mm", "MatMul", 200_000, partition=1),
        on_cpu("/vit/blocks/0/mlp/act/Erf", "Erf", 75.0),
        on_cpu("/vit/blocks/1/mlp/act/Erf", "Erf", 20.0),
        on_cpu("x_QuantizeLinear", "QuantizeLinear", 5.0),
        elsewhere=(fallback("/vit/blocks/0/mlp/act/Erf"), fallback("/vit/blocks/1/mlp/act/Erf")),
        partitions=(
            TracedPartition(index=0, ep=QNN, operators=1, cycles=600_000, time_us=200.0),
            TracedPartition(index=1, ep=QNN, operators=1, cycles=200_000, time_us=70.0),
        ),
    ),
    inferences=(
        TracedInference(number=0, warm_up=True, start_us=0.0, time_us=900.0),
        TracedInference(
            number=1, start_us=1000.0, time_us=400.0,
            partitions=(
                PartitionRun(partition=0, cycles=600_000, time_us=200.0), PartitionRun(partition=1, time_us=70.0),
            ),
        ),
    ),
    hardware=HardwareUse(
        device="Hexagon",
        samples=(
            HardwareSample(at_us=0.0, cpu_percent=12.5, memory_bytes=1_000_000),
            HardwareSample(at_us=500.0, cpu_percent=50.0, device_percent=80.0),
        ),
    ),
)  # fmt: skip
NO_DATA = OpTrace(metadata=METADATA, status="no_data", error="the EP wrote no profile")

_figures = st.one_of(st.none(), st.floats(0, 1e9), st.just(float("nan")), st.just(float("inf")))
_operators = st.builds(
    TracedOperator,
    name=st.sampled_from(["", "a", "b", "c", "d"]),
    op_type=st.sampled_from(["Conv", "Relu", "Erf"]),
    ep=st.sampled_from([QNN, CPU]),
    meaning=st.sampled_from([CYCLES, KERNEL, PARTITION]),
    partition=st.one_of(st.none(), st.integers(0, 2)),
    cycles=_figures,
    time_us=_figures,
    share=st.one_of(st.none(), st.floats(0, 1)),
    onnx_nodes=st.lists(
        st.builds(OnnxNode, name=st.sampled_from(["", "a", "b"]), op_type=st.sampled_from(["Conv", "Relu"])), max_size=2
    ).map(tuple),
)
_inferences = st.builds(
    TracedInference,
    number=st.integers(0, 9),
    warm_up=st.booleans(),
    start_us=st.one_of(st.none(), st.floats(0, 1e6)),
    time_us=st.one_of(st.none(), st.floats(0, 1e6)),
    partitions=st.lists(
        st.builds(
            PartitionRun,
            partition=st.integers(0, 3),
            cycles=st.one_of(st.none(), st.integers(0, 10**9)),
            time_us=st.one_of(st.none(), st.floats(0, 1e6)),
        ),
        max_size=3,
    ).map(tuple),
)
any_trace = st.builds(
    OpTrace,
    metadata=st.just(METADATA),
    status=st.sampled_from(["ok", "no_data", "basic_fallback", "cpu_fallback"]),
    operators=st.lists(_operators, max_size=6).map(tuple),
    fallback_nodes=st.lists(st.builds(fallback, st.sampled_from(["", "a", "b"])), max_size=3).map(tuple),
    partitions=st.lists(
        st.builds(TracedPartition, index=st.integers(0, 2), ep=st.sampled_from([QNN, CPU]), cycles=_figures), max_size=2
    ).map(tuple),
    inferences=st.lists(_inferences, max_size=3).map(tuple),
    hardware=st.one_of(
        st.none(),
        st.builds(
            HardwareUse,
            samples=st.lists(
                st.builds(HardwareSample, at_us=st.floats(), cpu_percent=_figures, memory_bytes=st.integers(0, 10**9)),
                max_size=2,
            ).map(tuple),
        ),
    ),
)

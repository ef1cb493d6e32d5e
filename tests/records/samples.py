"""Filled-in values of the records that a run leaves behind, and a filled-in value of any record."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from pytest_winml.records.artifact import Provenance, StageRun
from pytest_winml.records.baseline import Baseline, BaselineArtifact, BaselineSession, MemoryFigures
from pytest_winml.records.case import Case, CaseRef
from pytest_winml.records.identity import MachineIdentity
from pytest_winml.records.latency import Block
from pytest_winml.records.machine import Availability, Environment, PowerState
from pytest_winml.records.machine_state import MachineState
from pytest_winml.records.model import Model
from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
from pytest_winml.records.recipe import Calibration, Overrides, Recipe
from pytest_winml.records.report import Failure, ItemFinished, RunFinished, RunStarted
from pytest_winml.records.target import Target

CALIBRATION = Calibration(samples=4, method="entropy", per_channel=True, seed=7, data="feeds.npz")
OVERRIDES = Overrides(exclude_nodes=("conv",), tensor_types={"t": "uint16"})
RECIPE = Recipe(
    opset=17, optimize=("gelu_fusion",), precision="w8a16", compile=True, calibration=CALIBRATION, overrides=OVERRIDES,
    name="mine",
)  # fmt: skip
TARGET = Target("qnn:npu", soc="sm8750", options={"vtcm_mb": "8"}, unchecked_options={"new": "1"}, name="elite")
CASE: CaseRef = Case(model=Model.onnx("models/été.onnx", name="detector"), recipe=RECIPE, target=TARGET).ref
ENVIRONMENT = Environment(
    os="Windows", os_version="10.0.26100", machine="ARM64", cpu="Snapdragon(R) X Elite", logical_cpus=12,
    memory_bytes=16_000_000_000, python="3.13.1", runtime="onnxruntime 1.31.1", packages={"onnx": "1.19.0"},
    power=PowerState(source="battery", battery_percent=81.5, governor="powersave"),
)  # fmt: skip
PROVENANCE = Provenance(
    source="onnx:models/été.onnx", stages=("identity",), precision="w8a16", opset=17, sha256="ab" * 32,
    size_bytes=1234,
    runs=(
        StageRun(
            stage="quantize", key="abababab", reused=True, elapsed_s=1.5, no_op=True, did_not_fire={"a": "because"}
        ),
    ),
)  # fmt: skip
AVAILABILITY = Availability(
    target="npu", resolved="qnn:npu", mode="emulated", reason="because", remedy="do", ep_version="2.7.0", soc="sm8750"
)
PLACED = PlacedNode(name="conv", op_type="Conv", domain="com.microsoft", ep="QNNExecutionProvider")
FALLBACK = FallbackNode(
    name="", op_type="Erf", domain="", ep="CPUExecutionProvider", reason="not so", reason_source="qnn_op_trace"
)
PLACEMENT = Placement(
    target="qnn:npu", target_nodes=(PLACED,), fallback_nodes=(FALLBACK,), boundary_nodes=(PLACED,), partitions=2,
    emulated=True, ep_context=True, compiled_nodes=58,
)  # fmt: skip
STARTED = RunStarted(
    run_id="20260101T000000Z-0badcafe", started_at="2026-01-01T00:00:00+00:00", plugin_version="0.1.0",
    environment=ENVIRONMENT, settings={"target": ["qnn:npu"], "emulate": "auto", "timeout_s": 600.0, "offline": False},
)  # fmt: skip
FAILURE = Failure(error="SessionError", message="no → session", log_tail="line\nline")
ITEM = ItemFinished(
    nodeid="tests/test_a.py::test_b[detector-mine-elite]", case=CASE, outcome="failed", duration_s=0.25,
    availability=AVAILABILITY, artifact=PROVENANCE, artifact_key="abababab", placement=PLACEMENT, skip_reason="why",
    failure=FAILURE, notes=("emulated",),
)  # fmt: skip
FINISHED = RunFinished(finished_at="2026-01-01T00:01:00+00:00", exit_status=1, interrupted=False)
MACHINE = MachineIdentity(
    cpu="Snapdragon(R) X Elite", soc="sc8380xp", architecture="ARM64", logical_cpus=12, device="npu", mode="native",
    driver_version="Qualcomm Hexagon NPU 30.0.143.0", ep="qnn", ep_version="2.7.0", runtime_package="onnxruntime",
    runtime_version="1.31.1", os_build="Windows 10.0.26100.4351", power_mode="balanced", power_source="mains",
    python="3.13.1", plugin_version="0.1.0", host="0badcafe", memory_bytes=16_000_000_000, battery_percent=81.5,
    cpu_clock_mhz=3417.0, free_memory_bytes=9_000_000_000,
)  # fmt: skip
BASELINE_SESSION = BaselineSession(
    blocks=(Block(arm="target", times_ns=(5_000_000, 5_100_000)), Block(arm="canary", times_ns=(1_000_000,))),
    before=MachineState(power_source="mains", power_mode="balanced"),
    after=MachineState(power_source="mains", power_mode="balanced", foreign_cpu_share=0.02),
)
BASELINE = Baseline(
    name="main", created_at="2026-01-31T12:00:00+00:00", case=CASE, machine=MACHINE, protocol="standard",
    artifact=BaselineArtifact(key="ab" * 32, sha256="cd" * 32, size_bytes=1234), canary="ef" * 32,
    memory=MemoryFigures(load_bytes=1000, peak_bytes=2000), sessions=(BASELINE_SESSION,),
)  # fmt: skip

# Records whose text must mean something.
_BY_HAND: dict[type, msgspec.Struct] = {
    Baseline: BASELINE, BaselineSession: BASELINE_SESSION, Calibration: CALIBRATION, Recipe: RECIPE, Target: TARGET,
}  # fmt: skip
_PLAIN: dict[type[inspect.Type], Any] = {
    inspect.StrType: "été → text", inspect.IntType: 7, inspect.FloatType: 0.5, inspect.BoolType: True,
    inspect.BytesType: b"\0bytes\xff", inspect.AnyType: {"any": ["thing", 1]},
}  # fmt: skip


def filled(kind: type[msgspec.Struct]) -> msgspec.Struct:
    """A value of `kind` in which no field is None or empty."""
    made: msgspec.Struct = _filled(inspect.type_info(kind))
    return made


def _filled(kind: inspect.Type) -> Any:
    made: Any
    match kind:
        case inspect.StructType():
            made = _BY_HAND.get(kind.cls) or kind.cls(**{field.name: _filled(field.type) for field in kind.fields})
        case inspect.UnionType():
            made = _filled(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
        case inspect.VarTupleType():
            made = (_filled(kind.item_type),)
        case inspect.TupleType():
            made = tuple(_filled(one) for one in kind.item_types)
        case inspect.ListType():
            made = [_filled(kind.item_type)]
        case inspect.DictType():
            made = {_filled(kind.key_type): _filled(kind.value_type)}
        case inspect.LiteralType():
            made = kind.values[0]
        case _:
            made = _PLAIN[type(kind)]
    return made

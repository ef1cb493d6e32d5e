"""One filled-in value of every record that is written down."""

from __future__ import annotations

from pytest_winml.records.artifact import ArtifactIO, Provenance, TensorSpec
from pytest_winml.records.case import Case, CaseRef
from pytest_winml.records.diagnosis import Diagnosis, TargetFinding
from pytest_winml.records.machine import Availability, DeviceInfo, Environment, EpLibrary, PowerState, Runtime
from pytest_winml.records.model import Model
from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.report import Failure, ItemFinished, RunFinished, RunReport, RunStarted
from pytest_winml.records.target import Target

RECIPE = Recipe(opset=17, optimize=("gelu_fusion",), precision="w8a16", compile=True, name="mine")
TARGET = Target("qnn:npu", soc="sm8750", options={"vtcm_mb": "8"}, unchecked_options={"new": "1"}, name="elite")
CASE: CaseRef = Case(model=Model.onnx("models/été.onnx", name="detector"), recipe=RECIPE, target=TARGET).ref
POWER = PowerState(source="battery", battery_percent=81.5, governor="powersave")
ENVIRONMENT = Environment(
    os="Windows", os_version="10.0.26100", machine="ARM64", cpu="Snapdragon(R) X Elite", logical_cpus=12,
    memory_bytes=16_000_000_000, python="3.13.1", runtime="onnxruntime 1.31.1", packages={"onnx": "1.19.0"},
    power=POWER,
)  # fmt: skip
TENSOR = TensorSpec(name="images", dtype="float32", shape=("batch", 3, 8, 8), low=0.0, high=1.0)
PROVENANCE = Provenance(
    source="onnx:models/été.onnx", stages=("identity",), precision="w8a16", opset=17, sha256="ab" * 32, size_bytes=1234
)
AVAILABILITY = Availability(
    target="npu", resolved="qnn:npu", mode="emulated", reason="because", remedy="do", ep_version="2.7.0", soc="sm8750"
)
PLACED = PlacedNode(name="conv", op_type="Conv", domain="com.microsoft", ep="QNNExecutionProvider")
FALLBACK = FallbackNode(
    name="", op_type="Erf", domain="", ep="CPUExecutionProvider", reason="not so", reason_source="qnn_op_trace"
)
PLACEMENT = Placement(
    target="qnn:npu", target_nodes=(PLACED,), fallback_nodes=(FALLBACK,), boundary_nodes=(PLACED,), partitions=2,
    emulated=True, ep_context=True,
)  # fmt: skip
LIBRARY = EpLibrary(ep="qnn", path="/somewhere/qnn.so", origin="wheel", version="2.7.0")
RUNTIME = Runtime(
    version="1.31.1", package="onnxruntime", providers=("CPUExecutionProvider",), libraries=(LIBRARY,), notes=("a",)
)
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
REPORT = RunReport(started=STARTED, items=(ITEM,), finished=FINISHED)
FINDING = TargetFinding(target="qnn:npu", verdict="build-only", proof="ran", reason="none", remedy="buy one")

SAMPLES = (
    RECIPE, TARGET, CASE, POWER, ENVIRONMENT, TENSOR, ArtifactIO(inputs=(TENSOR,), outputs=(TENSOR,)), PROVENANCE,
    AVAILABILITY, PLACED, FALLBACK, PLACEMENT, LIBRARY, RUNTIME, STARTED, FAILURE, ITEM, FINISHED, REPORT, FINDING,
    DeviceInfo(
        provider="QNNExecutionProvider", ep_vendor="Qualcomm", device_type="npu", vendor="Qualcomm",
        library_path="/somewhere/qnn.so", metadata={"Discrete": "0"},
    ),
    Diagnosis(environment=ENVIRONMENT, runtime=RUNTIME, problem="two", remedy="one", findings=(FINDING,)),
)  # fmt: skip

"""A made-up run on a laptop: one of each outcome a table can show."""

from __future__ import annotations

import msgspec

from pytest_winml.records.case import Case
from pytest_winml.records.machine import Availability, Environment, Mode, PowerState
from pytest_winml.records.model import Model
from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.report import Failure, ItemFinished, Outcome, RunFinished, RunReport, RunStarted
from pytest_winml.records.target import Target
from tests.records.samples import PROVENANCE

QNN = "QNNExecutionProvider"
CPU = "CPUExecutionProvider"


def nodes(number: int, ep: str = QNN) -> tuple[PlacedNode, ...]:
    return tuple(PlacedNode(name=f"conv_{place}", op_type="Conv", ep=ep) for place in range(number))


def fallback(*names: str, op_type: str = "Erf") -> tuple[FallbackNode, ...]:
    return tuple(FallbackNode(name=name, op_type=op_type, ep=CPU) for name in names)


def placement(
    on_target: int,
    elsewhere: tuple[FallbackNode, ...] = (),
    *,
    target: str = "qnn:npu",
    partitions: int = 1,
    ep_context: bool = False,
    compiled_nodes: int | None = None,
) -> Placement:
    return Placement(
        target=target,
        target_nodes=nodes(on_target),
        fallback_nodes=elsewhere,
        boundary_nodes=nodes(2, CPU),
        partitions=partitions,
        emulated=True,
        ep_context=ep_context,
        compiled_nodes=compiled_nodes,
    )


def item(
    model: str,
    target: str | Target,
    outcome: Outcome,
    mode: Mode = "native",
    *,
    test: str = "test_placement",
    recipe: Recipe | None = None,
    precision: str | None = None,
    placed: Placement | None = None,
    resolved: str | None = None,
    skip_reason: str | None = None,
) -> ItemFinished:
    aim = Target(target) if isinstance(target, str) else target
    case = Case(model=Model.embedded(model), recipe=recipe or Recipe(), target=aim).ref
    usable = mode in ("native", "emulated")
    return ItemFinished(
        nodeid=f"benchmarks/test_a.py::{test}[{case.id}]",
        case=case,
        outcome=outcome,
        duration_s=0.5,
        availability=Availability(target=aim.spec, resolved=(resolved or aim.spec) if usable else None, mode=mode),
        artifact=msgspec.structs.replace(PROVENANCE, precision=precision) if precision else None,
        placement=placed,
        skip_reason=skip_reason,
        failure=Failure(error="AssertionError", message="no") if outcome in ("failed", "error") else None,
    )


NO_GPU = (
    "DmlExecutionProvider is installed but finds no GPU on this machine. "
    "To run it: run on a machine with that GPU and its driver."
)
ITEMS = (
    item("digits-cnn", "cpu", "passed", precision="fp32", placed=placement(11, target="cpu")),
    item("digits-cnn", "npu", "passed", "emulated", precision="w8a16", placed=placement(58), resolved="qnn:npu"),
    item("digits-cnn", "npu", "xfailed", "emulated", test="test_b", precision="w8a16", resolved="qnn:npu"),
    item(
        "digits-vit", Target("qnn:npu", soc="sm8750"), "failed", "emulated", precision="w8a8",
        placed=placement(
            120, fallback("/vit/blocks/0/mlp/act/Erf", "", "/vit/blocks/2/mlp/act/Erf", "d"), partitions=4
        ),
    ),
    item("digits-vit", "dml:gpu", "skipped", "absent", skip_reason=NO_GPU),
    item("digits-cnn", "dml:gpu", "skipped", "absent", recipe=Recipe(name="mine"), skip_reason=NO_GPU),
    item("digits-cnn", "openvino:npu", "error", "broken"),
)  # fmt: skip

ENVIRONMENT = Environment(
    os="Linux", os_version="#1 SMP", machine="x86_64", cpu="AMD Ryzen 7 7840U w/ Radeon 780M Graphics",
    logical_cpus=16, memory_bytes=32_000_000_000, python="3.13.1", runtime="onnxruntime 1.31.1", packages={},
    power=PowerState(),
)  # fmt: skip
STARTED = RunStarted(
    run_id="20260101T000000Z-0badcafe", started_at="2026-01-01T00:00:00+00:00", plugin_version="0.1.0",
    environment=ENVIRONMENT, settings={},
)  # fmt: skip
FINISHED = RunFinished(finished_at="2026-01-01T00:01:00+00:00", exit_status=1, interrupted=False)
REPORT = RunReport(started=STARTED, items=ITEMS, finished=FINISHED)

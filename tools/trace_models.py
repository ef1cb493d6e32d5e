"""Real architectures traced on the HTP emulator, compiled and not: is every node accounted for, are names stable?

    python tools/trace_models.py [--store DIR] [--only NAME...]

For each model: the QDQ graph and its compiled form are traced in two processes each. Every node must be in an operator,
or elsewhere with its reason; the cycles of operators must add up to the accelerator's; operator names must be the same
in both processes, and those that stand for ONNX nodes the same across compiling. Exits 1 when one of these fails.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from pytest_winml.execute.pool import WorkerPool
from pytest_winml.graph.reading import load_structure
from pytest_winml.monitors.accounting import unaccounted_nodes
from pytest_winml.pipeline.pipeline import Pipeline
from pytest_winml.records.case import Case
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Calibration, Recipe
from pytest_winml.records.target import Target
from pytest_winml.records.trace import OnnxNode
from pytest_winml.runner.case import CaseRunner
from pytest_winml.runner.tracing import CaseTracer
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.session.window import Windows
from pytest_winml.store.artifacts import ArtifactStore
from tests.pipeline import architectures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_winml.records.trace import OpTrace

NAMES = ("minilm-l6", "resnet-18", "mobilevit-small")
CALIBRATION = Calibration(data="random", samples=4)
NPU = Target("qnn:npu")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    problems = 0
    with ExitStack() as stack:
        store = chosen.store or Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        for model in _models():
            if not chosen.only or model.name in chosen.only:
                problems += len(_check(model, store))
    print("every claim holds" if not problems else f"{problems} claims do not hold")
    return int(problems > 0)


def _models() -> Iterator[Model]:
    yield Model.embedded("digits-cnn")
    yield Model.embedded("digits-vit")
    for one in architectures.ALL:
        if one.name in NAMES:
            yield Model.hf(one.name, task=one.task, weights="random", config=one.config, name=one.name)


def _check(model: Model, store: Path) -> list[str]:
    plain, again = (_trace(model, store, compiled=False) for _ in range(2))
    compiled, compiled_again = (_trace(model, store, compiled=True) for _ in range(2))
    problems = []
    for label, (trace, nodes) in (("QDQ", plain), ("compiled", compiled)):
        missing = nodes
        if missing:
            shown = ", ".join(f"{node.op_type} {node.name!r}" for node in missing[:3])
            problems.append(f"{label}: {len(missing)} nodes are not accounted for, such as {shown}")
        total, summed = trace.summary["accelerator_cycles"], sum(one.cycles or 0.0 for one in trace.operators)
        if not isinstance(total, (int, float)) or not math.isclose(total, summed, rel_tol=1e-6):
            problems.append(f"{label}: operators add up to {summed} cycles, the accelerator says {total}")
    if _names(plain[0]) != _names(again[0]) or _names(compiled[0]) != _names(compiled_again[0]):
        problems.append("names differ between two processes")
    changed = _onnx_names(plain[0]) ^ _onnx_names(compiled[0])
    if changed:
        problems.append(f"{len(changed)} names change with compiling, such as {sorted(changed)[:3]}")
    trace = compiled[0]
    print(
        f"{model.name:18} {len(trace.operators):5} operators, {len(trace.partitions)} partitions, "
        f"{len(trace.fallback_nodes)} nodes elsewhere: {'; '.join(problems) or 'ok'}",
        flush=True,
    )
    return problems


def _trace(model: Model, store: Path, *, compiled: bool) -> tuple[OpTrace, tuple[OnnxNode, ...]]:
    """In processes of its own: the trace, and the nodes of the model that it says nothing of."""
    data = "model" if model.kind == "embedded" else "random"
    calibration = Calibration(data=data, samples=CALIBRATION.samples)
    case = Case(model=model, recipe=Recipe(precision="w8a16", compile=compiled, calibration=calibration), target=NPU)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        pool = stack.enter_context(WorkerPool(folder / "workers"))
        machine = Machine(pool, ProviderSettings(offline=True), timeout_s=1800)
        pipeline = Pipeline(
            ArtifactStore(store), pool, machine, rootdir=folder, scratch=folder, timeout_s=1800, offline=True
        )
        runner = CaseRunner(case, machine, pipeline)
        trace = CaseTracer(runner, Windows()).trace(runs=1, warm_up=1)
        source = runner.source_of(runner.artifact()) or runner.artifact().path
        graph = load_structure(source).graph
        nodes = [OnnxNode(name=node.name, op_type=node.op_type) for node in graph.node if node.op_type != "Constant"]
        return trace, unaccounted_nodes(trace, nodes, runner.placement().boundary_nodes)


def _names(trace: OpTrace) -> list[tuple[str, str]]:
    return sorted((one.name, one.op_type) for one in trace.operators)


def _onnx_names(trace: OpTrace) -> set[str]:
    return {one.name for one in trace.operators if one.onnx_nodes and one.ep.startswith("QNN")}


if __name__ == "__main__":
    sys.exit(main())

"""The stage between export and quantization: ORT's basic level, optimizations by name, an EP's preparation.

What is not asked for stays off. A control pass with everything off runs over every graph first: it must leave the graph
as it was, but for what ONNX Runtime does to every graph that it opens, and that is in the answer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import BuildError
from pytest_winml.graph.difference import difference, nodes_by_type
from pytest_winml.graph.reading import external_files, load_structure, opset, read_io
from pytest_winml.pipeline.optimizations import BASIC, OPTIMIZATIONS, Optimization, resolve_names
from pytest_winml.pipeline.optimizing.bench import Bench, digest_of
from pytest_winml.pipeline.optimizing.files import publish
from pytest_winml.records.stages import MODEL_FILE, StageAnswer

if TYPE_CHECKING:
    import onnx

    from pytest_winml.records.stages import Fact, OptimizeRequest


def optimize(request: OptimizeRequest) -> StageAnswer:
    """Writes the optimized model. A graph that nothing changes is passed on as it is, and the answer says so."""
    rows = tuple(OPTIMIZATIONS[name] for name in resolve_names(request.names))
    source, output_folder = Path(request.model_path), Path(request.output_folder)
    model = load_structure(source)
    external_files(model, source.parent)
    if not rows and request.base == "none" and request.preparation is None:
        publish(source, output_folder)
        facts = {**_asked(request, rows), **_seen(model, output_folder), "graph_digest": digest_of(source)}
        return StageAnswer(facts=facts, no_op=True)
    with tempfile.TemporaryDirectory(dir=output_folder, prefix="work-") as work:
        bench = Bench(source, Path(work), level=max((row.level for row in rows), default=BASIC))
        bench.control()
        if bench.story.left_alone is None:
            _run(bench, request, rows)
        elif rows:
            raise BuildError(
                f"the graph cannot be optimized by name: {bench.story.left_alone}",
                remedy="optimize the fp32 model; precision= makes it smaller afterwards.",
            )
        publish(bench.current, output_folder)
    facts = {**_asked(request, rows), **_told(bench, rows), **_seen(model, output_folder)}
    return StageAnswer(facts=facts, no_op=bench.digest == bench.input_digest)


def _run(bench: Bench, request: OptimizeRequest, rows: tuple[Optimization, ...]) -> None:
    """Names come before the preparation, so that they do the same for every EP."""
    if request.base == "none":
        _apply(bench, rows)
    elif _apply_early(bench, rows):
        bench.basic()
    else:
        bench.basic()
        _apply(bench, rows)
    if request.preparation == "qnn":
        bench.prepared_for_qnn()


def _apply_early(bench: Bench, rows: tuple[Optimization, ...]) -> bool:
    """With the transformers kept waiting that rows want to come before, if those rows then find their pattern."""
    waiting = frozenset(name for row in rows for name in row.before)
    if not waiting:
        return False
    bench.basic(without=waiting)
    _apply(bench, rows)
    if any(row.before and row.name in bench.story.fired for row in rows):
        return True
    bench.start_over()
    return False


def _apply(bench: Bench, rows: tuple[Optimization, ...]) -> None:
    bench.named([row for row in rows if row.transformers])
    for row in rows:
        if row.backend == "fusion":
            bench.fused(row.name)
        elif row.backend == "rewrite":
            bench.rewritten(row.name)


def _asked(request: OptimizeRequest, rows: tuple[Optimization, ...]) -> dict[str, Fact]:
    return {"base": request.base, "preparation": request.preparation, "names": [row.name for row in rows]}


def _told(bench: Bench, rows: tuple[Optimization, ...]) -> dict[str, Fact]:
    story = bench.story
    fired = {row.name for row in rows if row.name in story.fired}
    fired |= {row.name for row in rows if row.backend == "names" and fired & {*row.needs}}
    return {
        "fired": sorted(fired),
        "did_not_fire": sorted({row.name for row in rows} - fired),
        "for_this_cpu_only": any(row.by_cpu for row in rows if row.name in fired),
        "cannot_fire": {row.name: row.never for row in rows if row.never},
        "transformers": sorted(story.transformers),
        "prepared": story.prepared,
        "always_on": story.always_on,
        "held_back": story.held_back,
        "left_alone": story.left_alone,
        "graph_digest": bench.digest,
    }


def _seen(before: onnx.ModelProto, output_folder: Path) -> dict[str, Fact]:
    """What is true of the model that was written."""
    after = load_structure(output_folder / MODEL_FILE)
    _require_same_interface(before, after)
    change = difference(before, after)
    return {
        "opset": opset(after),
        "nodes_before": change.nodes_before,
        "nodes_after": change.nodes_after,
        "added": {**change.added},
        "removed": {**change.removed},
        "nodes_by_type": dict(sorted(nodes_by_type(after).items())),
        "changes": str(change),
    }


def _require_same_interface(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Inputs stay as they are, outputs keep names and types: their shapes may be known better now."""
    old, new = read_io(before), read_io(after)
    same = old.inputs == new.inputs and [(one.name, one.dtype) for one in old.outputs] == [
        (one.name, one.dtype) for one in new.outputs
    ]
    if not same:
        raise BuildError(
            f"optimizing changed the model's inputs or outputs: {old} became {new}",
            remedy='use optimize="none", and report the model.',
        )

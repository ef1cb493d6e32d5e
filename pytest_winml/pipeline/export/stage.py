"""The export stage: find, load, trace, save, and check the file against PyTorch. Runs in a worker process."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import BuildError, InfrastructureError, ModelError
from pytest_winml.graph.reading import opset
from pytest_winml.pipeline.export import conversion, tasks
from pytest_winml.pipeline.export.agreement import DEGENERATE_RMS, Agreement, compare
from pytest_winml.pipeline.export.batch_norm import reestimate
from pytest_winml.pipeline.export.configs import build_config
from pytest_winml.pipeline.export.failures import require, told_as
from pytest_winml.pipeline.export.inputs import InputPlan, integer_inputs, masks, tensors
from pytest_winml.pipeline.export.loading import load
from pytest_winml.pipeline.export.parts import choose
from pytest_winml.pipeline.export.quiet import quietly
from pytest_winml.pipeline.export.source import find
from pytest_winml.records.stages import StageAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx

    from pytest_winml.pipeline.export.parts import Part
    from pytest_winml.pipeline.export.source import Source
    from pytest_winml.records.artifact import TensorSpec
    from pytest_winml.records.stages import ExportRequest, Fact

_TOOLS = ("torch", "transformers", "optimum", "optimum-onnx", "onnx")
_BATCH_NORM_SAMPLES = 4
_OTHER_WAYS = "try the other exporter or another opset."
Feeds = dict[str, Any]


def export(request: ExportRequest) -> StageAnswer:
    """Writes model.onnx into the output folder and answers with what is true of it."""
    conversion.check_opset(request.exporter, request.opset)
    what = f"{request.source!r} for {request.task} cannot be exported at opset {request.opset} by {request.exporter}"
    with quietly(), told_as(BuildError, what):
        source = find(request)  # first: what is refused is refused before seconds of imports
        require("onnxruntime", "torch", "transformers", "optimum.exporters.onnx")
        config = build_config(source)
        task = tasks.resolve(config.model_type, request.task)
        model, missing = load(tasks.model_class(config.model_type, task), config, source, request)
        return _Export(request, source, task, model, missing).run()


@dataclass(frozen=True)
class _Made:
    """The file that one choice of integer type came to."""

    specs: tuple[TensorSpec, ...]
    model: onnx.ModelProto
    agreements: dict[str, Agreement]
    lowest: dict[str, float]  # of each output in PyTorch, over the inputs that were compared
    highest: dict[str, float]
    int32_refused: str | None = None


@dataclass(frozen=True)
class _Export:
    request: ExportRequest
    source: Source
    task: str  # by Optimum's name
    model: Any
    missing: tuple[str, ...]

    def run(self) -> StageAnswer:
        part, specs = self._inputs("int32")
        batch_norms = 0
        if self.request.weights == "random":
            batch_norms = reestimate(part.model, lambda seed: self._pass(part, specs, seed), self.request.seed)
        if self.missing:
            self._refuse_weights_that_were_made_up(part, specs)
        made = self._make_with_smaller_integers(part, specs)
        return StageAnswer(facts=self._facts(made, batch_norms), inputs=made.specs)

    @property
    def _what(self) -> str:
        component = f" ({self.request.component})" if self.request.component else ""
        return (
            f"{type(self.model).__name__}{component} of {self.source.name!r} for {self.request.task} "
            f"at opset {self.request.opset} by {self.request.exporter}"
        )

    def _inputs(self, int_dtype: str) -> tuple[Part, tuple[TensorSpec, ...]]:
        with told_as(BuildError, f"{self._what} cannot be prepared"):
            onnx_config = tasks.onnx_config(self.model, self.task, int_dtype)
            part = choose(self.model, onnx_config, self.request.component)
            return part, InputPlan(part, self.source.preprocessor, self.request.shapes).specs(int_dtype)

    def _make_with_smaller_integers(self, part: Part, specs: tuple[TensorSpec, ...]) -> _Made:
        """int32 where it exports and runs, which is what NPUs take; else int64, with the reason in the facts."""
        try:
            return self._make(part, specs)
        except BuildError as error:
            if not integer_inputs(specs):
                raise
            refusal = error.message
        return dataclasses.replace(self._make(*self._inputs("int64")), int32_refused=refusal)

    def _make(self, part: Part, specs: tuple[TensorSpec, ...]) -> _Made:
        feeds = self._feeds(specs)
        references = [self._reference(part, one) for one in feeds]
        request, folder = self.request, Path(self.request.output_folder)
        with told_as(BuildError, f"{self._what} does not export", _OTHER_WAYS):
            model = conversion.convert(part, feeds[0], opset=request.opset, exporter=request.exporter, scratch=folder)
        with told_as(InfrastructureError, f"{self._what} cannot be written", "check space and permissions."):
            path = conversion.save(model, folder)
        with told_as(BuildError, f"{self._what} was exported and does not run", _OTHER_WAYS):
            answers = _run(path, feeds)
        agreements = compare(self._what, zip(references, answers, strict=True))
        return _Made(
            specs,
            model,
            agreements,
            lowest={name: min(float(one[name].min()) for one in references) for name in part.outputs},
            highest={name: max(float(one[name].max()) for one in references) for name in part.outputs},
        )

    def _feeds(self, specs: tuple[TensorSpec, ...]) -> list[Feeds]:
        """Random inputs; with half of a text masked too, since a mask that is lost in tracing shows only there."""
        full = random_feeds(specs, self.request.seed)
        feeds = [full]
        if names := masks(specs):
            padded = {name: full[name].copy() for name in names}
            for mask in padded.values():
                mask[..., mask.shape[-1] // 2 :] = 0
            feeds.append(full | padded)
        return feeds

    def _reference(self, part: Part, feeds: Feeds) -> Feeds:
        """The model as it is, unpatched; only outputs that the patches bring in are taken from the patched one."""
        import numpy as np
        import torch

        with told_as(BuildError, f"{self._what} does not run in PyTorch"), torch.no_grad():
            outputs = part.plain_outputs(tensors(feeds))
            if outputs.keys() != set(part.outputs):
                with part.patched():
                    outputs = part.patched_outputs(tensors(feeds)) | outputs
        arrays = {name: value.numpy() for name, value in outputs.items()}
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise ModelError(f"{self._what}: output {name!r} holds NaN or infinity in PyTorch already")
            if self.request.weights == "random" and math.sqrt(np.mean(np.square(array, dtype=float))) < DEGENERATE_RMS:
                raise BuildError(
                    f"{self._what}: with random weights, output {name!r} is nearly zero, too small to measure noise on",
                    remedy="set a larger initializer_range in config=, or fewer layers.",
                )
        return arrays

    def _pass(self, part: Part, specs: tuple[TensorSpec, ...], seed: int) -> None:
        batch = tuple(
            msgspec.structs.replace(spec, shape=(_BATCH_NORM_SAMPLES, *(spec.shape or ())[1:])) for spec in specs
        )
        part.plain_outputs(tensors(random_feeds(batch, seed)))

    def _refuse_weights_that_were_made_up(self, part: Part, specs: tuple[TensorSpec, ...]) -> None:
        """A head that the files do not have is random. Changing it tells whether the outputs depend on it."""
        import torch

        feeds = random_feeds(specs, self.request.seed)
        before = self._reference(part, feeds)
        named = dict(self.model.named_parameters(remove_duplicate=False)) | dict(self.model.named_buffers())
        weights = {name: named[name] for name in self.missing if name in named}
        kept = {name: weight.detach().clone() for name, weight in weights.items()}
        with torch.no_grad():
            for weight in weights.values():
                weight.add_(1)
            after = self._reference(part, feeds)
            for name, weight in weights.items():
                weight.copy_(kept[name])
        if any((before[name] != after[name]).any() for name in before):
            raise ModelError(
                f"the weights of {self.source.name!r} lack {self.missing[0]!r}"
                + (f" and {len(self.missing) - 1} more" if len(self.missing) > 1 else "")
                + f", which {type(self.model).__name__} needs for {self.request.task}",
                remedy='choose the task it was trained for, or weights="random".',
            )

    def _facts(self, made: _Made, batch_norms: int) -> dict[str, Fact]:
        request, integers = self.request, integer_inputs(made.specs)
        facts: dict[str, Fact] = {
            "architecture": type(self.model).__name__,
            "model_type": self.model.config.model_type,
            "task": request.task,
            "opset": opset(made.model),
            "exporter": request.exporter,
            "attention": "eager",
            "parameters": conversion.parameters(made.model),
            "nodes": len(made.model.graph.node),
            "random_weights": request.weights == "random",
            "seed": request.seed,
            "int_dtype": next((spec.dtype for spec in made.specs if spec.name in integers), None),
            "cosine": {name: one.cosine for name, one in made.agreements.items()},
            "max_abs_difference": {name: one.max_abs for name, one in made.agreements.items()},
            "output_rms": {name: one.rms for name, one in made.agreements.items()},
            "output_low": dict(made.lowest),
            "output_high": dict(made.highest),
            "tools": {tool: importlib.metadata.version(tool) for tool in _TOOLS},
        }
        optional: dict[str, Fact] = {
            "component": request.component,
            "commit": self.source.commit,
            "int32_refused": made.int32_refused,
            "batch_norms_reestimated": batch_norms or None,
            "missing_weights_not_used": list(self.missing) or None,
        }
        return facts | {name: fact for name, fact in optional.items() if fact is not None}


def _run(path: Path, feeds: Iterable[Feeds]) -> list[Feeds]:
    """By ONNX Runtime on the CPU with nothing optimized: what is compared is the file as it stands."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(names, one), strict=True)) for one in feeds]

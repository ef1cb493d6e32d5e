"""Making artifacts: embedded models in the precisions they ship in, files and functions as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.data.digits import model_path
from pytest_winml.errors import BuildError, ModelError
from pytest_winml.graph.precision import precision_in
from pytest_winml.graph.reading import external_files, load_structure, opset, read_io
from pytest_winml.graph.shapes import fix_shapes
from pytest_winml.records.artifact import Artifact, ArtifactIO, Provenance
from pytest_winml.store.files import sha256_of, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onnx import ModelProto

    from pytest_winml.records.case import Case
    from pytest_winml.records.model import Model

_AS_IT_IS = 'Recipe(optimize="none", precision="fp32")'


class Builder:
    """Builds into `folder`; relative model paths start at `rootdir`."""

    def __init__(self, folder: Path, rootdir: Path) -> None:
        self._folder = folder
        self._rootdir = rootdir
        self._made: dict[object, tuple[Path, Model]] = {}

    def build(self, case: Case) -> Artifact:
        stages: tuple[str, ...]
        match case.model.kind:
            case "embedded":
                path, stages = _shipped(case), ("shipped",)
            case "onnx":
                _require_identity(case)
                path, stages = self._file(case.model)
            case "build":
                _require_identity(case)
                path, stages = self._function(case.model), ("function",)
        return self._describe(case.model, path, stages)

    def _file(self, model: Model) -> tuple[Path, tuple[str, ...]]:
        path = self._rootdir / model.source
        if not model.shapes:
            return path, ("identity",)
        return self._once(model, lambda: _with_fixed_shapes(path, model)), ("fixed shapes",)

    def _function(self, model: Model) -> Path:
        function = model.function
        if function is None:
            raise ModelError(f"model {model.name!r} was made by a function of another process")
        return self._once(model, lambda: _called(model, function))

    def _once(self, model: Model, make: Callable[[], ModelProto]) -> Path:
        key = (model.source, id(model.function), tuple(sorted(model.shapes.items())))
        if key not in self._made:
            path = self._folder / f"{len(self._made)}-{model.name}.onnx"
            write_atomically(path, make().SerializeToString())
            self._made[key] = path, model  # the model too: an id belongs to a function only while it lives
        return self._made[key][0]

    def _describe(self, model: Model, path: Path, stages: tuple[str, ...]) -> Artifact:
        structure = load_structure(path)
        files = (path, *external_files(structure, path.parent))
        digest = sha256_of(files)
        return Artifact(
            path=path,
            key=digest[:16],
            provenance=Provenance(
                source=f"{model.kind}:{model.source}",
                stages=stages,
                precision=precision_in(structure),
                opset=opset(structure),
                sha256=digest,
                size_bytes=sum(file.stat().st_size for file in files),
            ),
            io=_with_ranges(model, read_io(structure)),
        )


def _shipped(case: Case) -> Path:
    recipe, target = case.recipe, case.target
    if recipe.opset or recipe.exporter != "torchscript" or recipe.compile is True or isinstance(recipe.optimize, tuple):
        raise BuildError(
            f"embedded model {case.model.name!r} ships ready-made and recipe {recipe.id!r} asks for another build",
            remedy="only precision= can be chosen for it: fp32, w8a16 or w8a8.",
        )
    precision = recipe.precision
    if precision == "auto":
        precision = "w8a16" if target.device == "npu" else "fp32"
    return model_path(case.model.source, precision)


def _require_identity(case: Case) -> None:
    recipe = case.recipe
    leaves_it_alone = (
        recipe.optimize == "none" and recipe.precision == "fp32" and not recipe.opset and recipe.compile is not True
    )
    if not leaves_it_alone:
        raise BuildError(
            f"model {case.model.name!r}: this version runs files as they are and cannot build recipe {recipe.id!r}",
            remedy=f"use {_AS_IT_IS}; a file that is quantized already stays so.",
        )


def _with_fixed_shapes(path: Path, model: Model) -> ModelProto:
    structure = load_structure(path)
    if external_files(structure, path.parent):
        raise BuildError(f"model file {path} keeps weights in other files, so shapes= cannot be applied to it here")
    return fix_shapes(structure, model.shapes)


def _called(model: Model, function: Callable[[], object]) -> ModelProto:
    import onnx

    try:
        made = function()
    except Exception as error:
        raise ModelError(f"model {model.name!r}: {model.source}() raised {type(error).__name__}: {error}") from error
    if not isinstance(made, onnx.ModelProto):
        raise ModelError(f"model {model.name!r}: {model.source}() returned {type(made).__name__}, not an ONNX model")
    return made


def _with_ranges(model: Model, io: ArtifactIO) -> ArtifactIO:
    import msgspec

    names = {spec.name for spec in io.inputs}
    if unknown := sorted(model.ranges.keys() - names):
        raise ModelError(
            f"model {model.name!r} has no input {unknown[0]!r}", remedy=f"it has {', '.join(sorted(names))}."
        )
    ranges = dict.fromkeys(names, (0.0, 1.0)) if model.kind == "embedded" else model.ranges
    inputs = tuple(
        msgspec.structs.replace(spec, low=ranges[spec.name][0], high=ranges[spec.name][1])
        if spec.name in ranges
        else spec
        for spec in io.inputs
    )
    return ArtifactIO(inputs=inputs, outputs=io.outputs)

"""Where a build starts: an ONNX file as it is or with fixed shapes, a function's model, a Hugging Face export."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from pytest_winml.data.digits import model_path
from pytest_winml.errors import BuildError, ModelError, WinmlError
from pytest_winml.pipeline.product import Product, Stage, at_stage
from pytest_winml.records.artifact import ArtifactIO
from pytest_winml.records.build import ModelDescription
from pytest_winml.records.stages import ExportRequest, ImportRequest
from pytest_winml.store.files import sha256_of, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from onnx import ModelProto

    from pytest_winml.records.case import Case
    from pytest_winml.records.model import Model

# The TorchScript route makes 17 and newer, the dynamo route 18 and newer.
DEFAULT_OPSETS = {"torchscript": 17, "dynamo": 18}
_PRETRAINED_FILES = ("*.safetensors", "*.json")


class Stages(Protocol):
    """What a source needs of the pipeline: stages through the store, and a worker that reads untrusted files."""

    def stage(
        self,
        model: str,
        stage: Stage,
        request: Any,
        before: Product,
        *,
        options: dict[str, Any],
        worker: Hashable = ...,
    ) -> Product: ...

    def describe(self, path: Path) -> ModelDescription: ...


class Sources:
    def __init__(self, stages: Stages, *, rootdir: Path, scratch: Path, offline: bool) -> None:
        self._stages = stages
        self.rootdir = rootdir
        self._scratch = scratch
        self._offline = offline
        self._files: dict[object, Product] = {}
        self._stamps: dict[object, tuple[object, ...]] = {}
        self._functions: dict[object, Path] = {}

    def take(self, case: Case) -> Product:
        model = case.model
        if model.kind == "hf":
            return self._ranged(model, self._export(case))
        product = self._ready_made(model)
        _refuse_what_only_an_export_can(case, product)
        return product

    def _ready_made(self, model: Model) -> Product:
        match model.kind:
            case "embedded":
                return self._ranged(model, self._file(model, model_path(model.source, "fp32")))
            case "onnx":
                return self._ranged(model, self._onnx(model, self.rootdir / model.source))
            case "build":
                return self._ranged(model, self._onnx(model, self._function(model)))
            case "hf":
                raise AssertionError("an export is not ready-made")

    def _onnx(self, model: Model, path: Path) -> Product:
        product = self._file(model, path)
        if not model.shapes:
            return product
        request = ImportRequest(model_path=str(path), shapes=model.shapes, output_folder="")
        shapes = {name: list(shape) for name, shape in model.shapes.items()}
        return self._stages.stage(model.name, Stage.IMPORT, request, product, options={"shapes": shapes})

    def _file(self, model: Model, path: Path) -> Product:
        """Described once for each state of the file, which is the user's and is not copied."""
        stamp = (path, _stamp(path))
        if stamp not in self._files or _stamps(self._files[stamp]) != self._stamps[stamp]:
            try:
                described = self._stages.describe(path)
            except WinmlError as error:
                raise at_stage(error, model.name, Stage.IMPORT.word) from error
            files = [path, *(path.parent / name for name in described.external_files)]
            product = Product(
                path=path,
                digest=sha256_of(files),
                description=described,
                size_bytes=sum(file.stat().st_size for file in files),
            )
            self._files[stamp] = product
            self._stamps[stamp] = _stamps(product)
        return self._files[stamp]

    def _function(self, model: Model) -> Path:
        function = model.function
        if function is None:
            raise ModelError(f"model {model.name!r} was made by a function of another process")
        if function not in self._functions:
            path = self._scratch / f"{len(self._functions)}-{model.name}.onnx"
            write_atomically(path, _called(model, function).SerializeToString(deterministic=True))
            self._functions[function] = path
        return self._functions[function]

    def _ranged(self, model: Model, product: Product) -> Product:
        """With the value ranges the user gives, or that an embedded model is known to have."""
        inputs = product.description.io.inputs
        names = {spec.name for spec in inputs}
        if unknown := sorted(model.ranges.keys() - names):
            listed = ", ".join(sorted(names))
            raise ModelError(f"model {model.name!r} has no input {unknown[0]!r}", remedy=f"it has {listed}.")
        ranges = dict.fromkeys(names, (0.0, 1.0)) if model.kind == "embedded" else model.ranges
        ranged = tuple(
            msgspec.structs.replace(spec, low=ranges[spec.name][0], high=ranges[spec.name][1])
            for spec in inputs
            if spec.name in ranges
        )
        return msgspec.structs.replace(product, description=product.description.with_ranges(ranged))

    def _export(self, case: Case) -> Product:
        model, recipe = case.model, case.recipe
        folder = self.rootdir / model.source
        local = folder.is_dir()
        request = ExportRequest(
            source=str(folder) if local else model.source,
            task=str(model.task),
            weights="random" if model.weights == "random" else "pretrained",
            config_json=model.config_json,
            revision=model.revision,
            component=model.component,
            opset=recipe.opset or DEFAULT_OPSETS[recipe.exporter],
            exporter="dynamo" if recipe.exporter == "dynamo" else "torchscript",
            shapes=model.shapes,
            offline=self._offline,
            output_folder="",
        )
        options = msgspec.to_builtins(request)
        for place in ("output_folder", "offline", *(("source",) if local else ())):
            del options[place]
        return self._stages.stage(
            model.name,
            Stage.EXPORT,
            request,
            _nothing(_weights_digest(folder) if local else ""),
            options=options,
            worker="export",
        )


def _refuse_what_only_an_export_can(case: Case, product: Product) -> None:
    recipe, model = case.recipe, case.model
    if recipe.opset not in (None, product.description.opset):
        raise BuildError(
            f"model {model.name!r} is an ONNX file of opset {product.description.opset}: "
            f"opset {recipe.opset} is chosen when a model is exported",
            remedy="export it with that opset, or leave opset= out.",
        )
    if recipe.exporter != "torchscript":
        raise BuildError(f"model {model.name!r} is an ONNX file: exporter={recipe.exporter!r} has nothing to export")


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file does; None where there is none, which the reader will say better."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _stamps(product: Product) -> tuple[object, ...]:
    return tuple(_stamp(product.path.parent / name) for name in product.description.external_files)


def _nothing(digest: str) -> Product:
    """What is before an export: no ONNX yet, only the identity of the weights."""
    empty = ModelDescription(io=ArtifactIO(inputs=(), outputs=()), opset=0, precision="", quantized=False, nodes=0)
    return Product(path=Path(), digest=digest, description=empty, size_bytes=0)


def _weights_digest(folder: Path) -> str:
    """Over names and contents of what an export reads from a local directory."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _PRETRAINED_FILES for path in folder.glob(pattern)):
        digest.update(f"{path.name}:{sha256_of([path])}\n".encode())
    return digest.hexdigest()


def _called(model: Model, function: Callable[[], object]) -> ModelProto:
    import onnx

    try:
        made = function()
    except Exception as error:
        raise ModelError(f"model {model.name!r}: {model.source}() raised {type(error).__name__}: {error}") from error
    if not isinstance(made, onnx.ModelProto):
        raise ModelError(f"model {model.name!r}: {model.source}() returned {type(made).__name__}, not an ONNX model")
    return made

"""Taking in an ONNX file: what it says of itself, and fixed shapes where the user gives them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import ModelError
from pytest_winml.graph.precision import is_quantized, precision_in
from pytest_winml.graph.reading import external_files, load_structure, opset, read_io
from pytest_winml.graph.shapes import fix_shapes
from pytest_winml.records.build import ModelDescription
from pytest_winml.records.stages import MODEL_FILE, StageAnswer

if TYPE_CHECKING:
    from pytest_winml.records.stages import ImportRequest

OLDEST_OPSET = 11
_EMBED_BELOW_BYTES = 1_500_000_000  # one protobuf holds 2 GB at the most


def describe(path: Path) -> ModelDescription:
    model = load_structure(path)
    files = external_files(model, path.parent)
    declared = opset(model)
    if declared < OLDEST_OPSET:
        raise ModelError(
            f"model file {path} has opset {declared}; {OLDEST_OPSET} is the oldest that is taken",
            remedy="convert it with onnx.version_converter, or export it again.",
        )
    return ModelDescription(
        io=read_io(model),
        opset=declared,
        precision=precision_in(model),
        quantized=is_quantized(model),
        compiled=any(node.op_type == "EPContext" for node in model.graph.node),
        nodes=len(model.graph.node),
        external_files=tuple(file.relative_to(path.parent.resolve()).as_posix() for file in files),
    )


def import_model(request: ImportRequest) -> StageAnswer:
    """The model with the shapes given, its weights in one place beside it."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_model

    path = Path(request.model_path)
    model = load_structure(path)
    files = external_files(model, path.parent)
    fix_shapes(model, request.shapes)
    target = Path(request.output_folder) / MODEL_FILE
    if files:
        load_external_data_for_model(model, os.fspath(path.parent))
    large = sum(file.stat().st_size for file in files) > _EMBED_BELOW_BYTES
    onnx.save(model, os.fspath(target), save_as_external_data=large, location=f"{MODEL_FILE}.data")
    return StageAnswer(facts={"shapes": {name: str(shape) for name, shape in request.shapes.items()}})

"""Giving inputs the fixed shapes an NPU needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.errors import ModelError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx


def fix_shapes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """Sets the sizes of inputs, named or by position (`#0`), in place; a symbolic size gets its value everywhere."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in initializers}
    by_position = {f"#{place}": value for place, value in enumerate(inputs.values())}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        value = inputs.get(name, by_position.get(name))
        if value is None:
            problem = unknown_name("input", name, [*inputs, *by_position])
            raise ModelError(f"{problem.message} in shapes=", remedy=problem.remedy)
        _set(value, shape, sizes)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return model


def _set(value: onnx.ValueInfoProto, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise ModelError(f"input {value.name!r} has no shape in the file, so shapes= cannot fix it")
    dims = tensor.shape.dim
    in_file = _text(dims)
    if len(dims) != len(shape):
        raise ModelError(f"input {value.name!r} has {len(dims)} dimensions, shapes= gives {len(shape)}")
    for dim, size in zip(dims, shape, strict=True):
        if dim.HasField("dim_value") and dim.dim_value != size:
            raise ModelError(f"input {value.name!r} has shape {in_file} in the file, which {shape} contradicts")
        if dim.dim_param and sizes.setdefault(dim.dim_param, size) != size:
            raise ModelError(f"shapes= gives the size {dim.dim_param!r} two values, {sizes[dim.dim_param]} and {size}")
        dim.dim_value = size


def _text(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> str:
    return str(tuple(dim.dim_param or dim.dim_value for dim in dims))

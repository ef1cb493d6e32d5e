"""Seeded inputs that obey an artifact's dtypes, shapes and value ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.random import Generator
    from numpy.typing import NDArray

    from pytest_winml.records.artifact import TensorSpec

DEFAULT_LOW, DEFAULT_HIGH = 0.0, 1.0


def random_feeds(inputs: Iterable[TensorSpec], seed: int = 0) -> dict[str, NDArray[Any]]:
    """Uniform in [low, high]; whole numbers include both ends. Without a range: [0, 1]."""
    import numpy as np

    generator = np.random.default_rng(seed)
    return {spec.name: _random_tensor(spec, generator) for spec in inputs}


def _random_tensor(spec: TensorSpec, generator: Generator) -> NDArray[Any]:
    import numpy as np

    if spec.shape is None:
        raise ModelError(
            f"input {spec.name!r} has no shape in the file, so no values can be made up for it",
            remedy="export the model with the number of its dimensions, or pass feeds to run().",
        )
    sizes = [size for size in spec.shape if isinstance(size, int)]
    if len(sizes) != len(spec.shape):
        raise ModelError(
            f"input {spec.name!r} has shape {spec.shape}, which is not fixed",
            remedy=f"give it one: Model.onnx(..., shapes={{{spec.name!r}: (...)}}).",
        )
    low = DEFAULT_LOW if spec.low is None else spec.low
    high = DEFAULT_HIGH if spec.high is None else spec.high
    if spec.dtype == "string":
        raise ModelError(f"input {spec.name!r} takes text, which cannot be made up", remedy="pass feeds to run().")
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return generator.uniform(low, high, sizes).astype(dtype)
    first, last = math.ceil(low), math.floor(high)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else None
    if limits is None or not limits[0] <= first <= last <= limits[1]:
        raise ModelError(f"input {spec.name!r} of type {spec.dtype} has no values in [{low}, {high}] to choose from")
    return generator.integers(first, last, sizes, endpoint=True).astype(dtype)

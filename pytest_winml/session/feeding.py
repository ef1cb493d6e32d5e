"""What a test feeds into a session, checked where the input can still be named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pytest_winml.records.artifact import TensorSpec


def checked_feeds(feeds: object, inputs: Iterable[TensorSpec]) -> dict[str, NDArray[Any]]:
    """The feeds as they are. Shapes and names are left to the runtime, which names the input in its own message."""
    import numpy as np

    if not isinstance(feeds, Mapping):
        raise UsageProblem(
            f"run() takes a dict of arrays by input name, not {_kind(feeds)}", remedy=f"write {_example(inputs)}."
        )
    types = {spec.name: spec.dtype for spec in inputs}
    for name, array in feeds.items():
        if not isinstance(name, str):
            raise UsageProblem(f"run(): {name!r} is no name of an input", remedy=f"write {_example(inputs)}.")
        wanted = types.get(name)
        if not isinstance(array, np.ndarray | np.generic):
            made = f"numpy.asarray(..., dtype={wanted!r})" if wanted else "numpy.asarray(...)"
            raise UsageProblem(f"input {name!r} is {_kind(array)}, not a NumPy array", remedy=f"pass {made}.")
        if wanted is not None and array.dtype.name != wanted:
            raise UsageProblem(
                f"input {name!r} is {array.dtype.name}, the model takes {wanted}",
                remedy=f"convert it with .astype({wanted!r}).",
            )
    return dict(feeds)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _example(inputs: Iterable[TensorSpec]) -> str:
    return "run({" + ", ".join(f"{spec.name!r}: array" for spec in inputs) + "})"

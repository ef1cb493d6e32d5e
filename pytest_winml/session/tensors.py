"""Arrays as messages: dtype, shape and plain bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_winml.errors import RunFailed
from pytest_winml.session.messages import TensorData

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLAIN_KINDS = "biuf"


def to_message(name: str, array: NDArray[Any]) -> TensorData:
    import numpy as np

    if not isinstance(array, np.ndarray | np.generic):  # a sequence that the graph gives, for one
        raise RunFailed(
            f"tensor {name!r} is a {type(array).__name__}, not an array", remedy="only tensors can be passed."
        )
    if array.dtype.kind not in _PLAIN_KINDS:
        raise RunFailed(
            f"tensor {name!r} has dtype {array.dtype}, which cannot be passed", remedy="feed plain numbers."
        )
    return TensorData(dtype=array.dtype.str, shape=array.shape, data=np.ascontiguousarray(array).tobytes())


def from_message(message: TensorData) -> NDArray[Any]:
    import numpy as np

    return np.frombuffer(message.data, dtype=np.dtype(message.dtype)).reshape(message.shape)

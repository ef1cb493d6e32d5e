"""Proof on the CPU that a rewritten model still works: it loads, it runs, and what was finite stays so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import BuildError
from pytest_winml.graph.reading import read_io
from pytest_winml.pipeline.quantize_graph import save_model

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import ModelProto

    Feed = dict[str, NDArray[Any]]

_ERRORS_ONLY = 3
_TOLERANCE = 1e-3


def prove(path: Path, source: Path, model: ModelProto, feed: Feed | None, precision: str) -> str:
    """What was tried, in words. `source` is asked only when the new model fails: inputs we made up may be nonsense."""
    session = _session(path, f"the {precision} model")
    given = "a calibration sample" if feed else "made-up inputs"
    feed = feed or _made_up(model)
    if feed is None:
        return "loads on the CPU; not run, since its inputs have no fixed shape or are text"
    try:
        outputs = session.run(None, feed)
    except Exception as error:
        if not _runs(source, feed):
            return f"loads on the CPU; {given} fit neither this model nor the one it was made of"
        raise BuildError(
            f"the {precision} model fails on the CPU where the float one runs ({type(error).__name__}: {error})",
            remedy="leave the node it names in float with Overrides(exclude_nodes=...).",
        ) from error
    broken = [output.name for output, value in zip(session.get_outputs(), outputs, strict=True) if not _finite(value)]
    if broken and all(_finite(value) for value in _session(source, "the float model").run(None, feed)):
        raise BuildError(
            f"the {precision} model puts out NaN or infinity in {broken[0]!r} where the float one does not",
            remedy="leave the nodes that overflow in float with Overrides(exclude_nodes=...).",
        )
    return f"runs on the CPU with {given}"


def check_same_outputs(before: ModelProto, after: ModelProto, feed: Feed, what: str, scratch: Path) -> None:
    """Two float models that should be one."""
    import numpy as np

    values = []
    for model, name in ((before, "before.onnx"), (after, "after.onnx")):
        save_model(model, scratch / name)
        values.append(_session(scratch / name, f"the model {name.partition('.')[0]} {what}").run(None, feed))
    for output, old, new in zip(before.graph.output, *values, strict=True):
        if not isinstance(old, np.ndarray) or old.dtype.kind != "f":
            continue
        widest = float(np.abs(old[np.isfinite(old)]).max(initial=0.0))
        if not np.allclose(old, new, rtol=_TOLERANCE, atol=_TOLERANCE * widest, equal_nan=True):
            raise BuildError(
                f"{what} changes output {output.name!r}, so the model cannot be quantized to 16 bits as it is",
                remedy="export the model at opset 21, or use w8a8.",
            )


def _session(path: Path, what: str) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    try:
        return ort.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BuildError(f"{what} does not load on the CPU ({type(error).__name__}: {error})") from error


def _runs(path: Path, feed: Feed) -> bool:
    try:
        _session(path, "the float model").run(None, feed)
    except Exception:  # noqa: BLE001 - whatever it is, the inputs are to blame and not the quantization
        return False
    return True


def _made_up(model: ModelProto) -> Feed | None:
    inputs = read_io(model).inputs
    if not all(spec.is_static and spec.dtype != "string" for spec in inputs):
        return None
    return random_feeds(inputs)


def _finite(value: Any) -> bool:
    import numpy as np

    return not isinstance(value, np.ndarray) or value.dtype.kind != "f" or bool(np.isfinite(value).all())

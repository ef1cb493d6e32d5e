"""Bad input is an error that names the file and the stage, in the parent, which lives on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from pytest_winml.errors import BuildError, ModelError, UsageProblem, WinmlError
from pytest_winml.records.case import Case
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Calibration, Recipe
from pytest_winml.records.target import Target
from tests.models import conv_relu_matmul
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_winml.pipeline.pipeline import Pipeline

pytestmark = needs_runtime
W8A16 = Recipe(precision="w8a16", compile=False, calibration=Calibration(data="random", samples=2))
WHOLE = conv_relu_matmul().SerializeToString()


def with_external(location: str) -> bytes:
    model = conv_relu_matmul()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return bytes(model.SerializeToString())


def with_nan() -> bytes:
    model = conv_relu_matmul()
    broken = numpy_helper.to_array(model.graph.initializer[1]).copy()
    broken[0, 0] = np.nan
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(broken, "w2"))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("content", "error", "stage", "said"),
    [
        (b"", ModelError, "import", "is empty"),
        (WHOLE[: len(WHOLE) // 2], ModelError, "import", "is not ONNX, or is cut short"),
        (b"\xff" * 100, ModelError, "import", "is not ONNX, or is cut short"),
        (with_external("gone.bin"), ModelError, "import", "'gone.bin' is missing"),
        (with_external("../../outside.bin"), ModelError, "import", "outside the model's folder"),
        (with_nan(), BuildError, "quantize", "w2"),
    ],
    ids=["empty", "truncated", "not protobuf", "missing external data", "path that leaves", "NaN weights"],
)
def test_a_bad_file_is_named_with_its_stage(  # noqa: PLR0917 - the columns of the table above
    pipeline: Pipeline, tmp_path: Path, content: bytes, error: type[WinmlError], stage: str, said: str
) -> None:
    (tmp_path / "bad.onnx").write_bytes(content)
    with pytest.raises(error, match=said) as caught:
        pipeline.build(Case(model=Model.onnx("bad.onnx"), recipe=W8A16, target=Target("cpu")))
    assert "bad" in caught.value.message
    assert caught.value.stage == stage


def test_a_shape_that_does_not_fit_is_named(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(WHOLE)
    with pytest.raises(ModelError, match=r"m, stage import: input 'x' has shape .* contradicts") as caught:
        pipeline.build(Case(model=Model.onnx("m.onnx", shapes={"x": (1, 3, 9, 9)}), recipe=W8A16, target=Target("cpu")))
    assert caught.value.stage == "import"


def test_zero_calibration_samples_are_refused_when_the_recipe_is_written() -> None:
    with pytest.raises(UsageProblem, match="at least one sample"):
        Calibration(samples=0)


def outcome(pipeline: Pipeline, path: Path) -> str | None:
    try:
        pipeline.build(Case(model=Model.onnx(path), recipe=Recipe(precision="fp32"), target=Target("cpu")))
    except WinmlError as error:
        return error.message
    return None


def test_fuzzed_files_never_crash_the_parent(make_pipeline: Callable[[], Pipeline], tmp_path: Path) -> None:
    """Bytes of a real model, changed and cut: an error of ours, or an artifact; and then a good one builds."""
    generator = random.Random(11)  # noqa: S311 - where to damage a file is no secret
    pipeline = make_pipeline()
    for number in range(40):
        content = bytearray(WHOLE)
        for _ in range(generator.randint(1, 30)):
            content[generator.randrange(len(content))] = generator.randrange(256)
        path = tmp_path / f"fuzzed{number}.onnx"
        path.write_bytes(content[: generator.randint(1, len(content))] if number % 2 else content)
        problem = outcome(pipeline, path)
        assert problem is None or f"fuzzed{number}" in problem
    (tmp_path / "good.onnx").write_bytes(WHOLE)
    good = pipeline.build(Case(model=Model.onnx("good.onnx"), recipe=W8A16, target=Target("cpu")))
    assert good.provenance.precision == "w8a16"

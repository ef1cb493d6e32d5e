from __future__ import annotations

import msgspec
import onnx

from pytest_winml.records.case import Case, CaseRef
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.target import Target


def test_an_id_reads_model_recipe_target() -> None:
    case = Case(
        model=Model.onnx("models/detector.onnx"),
        recipe=Recipe(precision="w8a16"),
        target=Target("qnn:npu", soc="sm8750"),
    )
    assert case.id == "detector-w8a16-qnn:npu@sm8750"


def test_an_id_does_not_depend_on_how_a_target_was_written() -> None:
    model = Model.embedded("digits-cnn")
    first = Case(model=model, recipe=Recipe(), target=Target("QNNExecutionProvider:NPU"))
    second = Case(model=model, recipe=Recipe(), target=Target("qnn:npu"))
    assert first.id == second.id == "digits-cnn-default-qnn:npu"


def test_a_ref_is_plain_data_even_for_a_model_made_by_a_function() -> None:
    case = Case(model=Model.build("made", onnx.ModelProto), recipe=Recipe(name="mine"), target=Target("cpu"))
    ref = case.ref
    assert (ref.id, ref.model) == ("made-mine-cpu", "made")
    assert ref.source.startswith("build:")
    assert ref.source.endswith("ModelProto")
    assert (ref.recipe, ref.target) == (case.recipe, case.target)
    assert msgspec.json.decode(msgspec.json.encode(ref), type=CaseRef) == ref

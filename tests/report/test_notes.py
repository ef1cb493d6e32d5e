from __future__ import annotations

import pytest

from pytest_winml.records.artifact import StageRun
from pytest_winml.records.recipe import Recipe
from pytest_winml.report.notes import idle_notes


def stage(word: str, *, no_op: bool = False, did_not_fire: dict[str, str] | None = None) -> StageRun:
    return StageRun(stage=word, key="k", reused=False, elapsed_s=1, no_op=no_op, did_not_fire=did_not_fire or {})


@pytest.mark.parametrize(
    ("recipe", "run", "notes"),
    [
        (Recipe(), stage("optimize", no_op=True), ()),
        (Recipe(optimize=("pad_fusion",)), stage("optimize"), ()),
        (
            Recipe(optimize=("pad_fusion", "conv_bn_fusion")),
            stage("optimize", did_not_fire={"pad_fusion": ""}),
            ("optimize=pad_fusion changed nothing in this graph",),
        ),
        (
            Recipe(optimize=("Pad-Fusion", "gelufusion")),
            stage("optimize", no_op=True, did_not_fire={"gelu_fusion": "", "needed_by_it": "", "pad_fusion": ""}),
            ("optimize=gelu_fusion, pad_fusion changed nothing in this graph",),
        ),
        (
            Recipe(optimize=("bias_softmax_fusion",)),
            stage("optimize", did_not_fire={"bias_softmax_fusion": "only CUDA has it"}),
            ("optimize=bias_softmax_fusion changed nothing: only CUDA has it",),
        ),
        (
            Recipe(precision="fp16"),
            stage("quantize", no_op=True),
            ("precision=fp16 changed nothing in this graph",),
        ),
        (Recipe(precision="fp16"), stage("quantize"), ()),
    ],
)
def test_what_a_recipe_asks_for_in_vain_is_said(recipe: Recipe, run: StageRun, notes: tuple[str, ...]) -> None:
    assert idle_notes(recipe, [run]) == notes

"""The table of named optimizations, which is read without a runtime."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.pipeline.optimizations import NOT_OFFERED, OPTIMIZATIONS, resolve_names
from pytest_winml.pipeline.optimizing.transformers import ALL_RULES, BASIC_SET, KNOWN, RULES, TRANSFORMERS

GRID = (
    "conv_bn_fusion", "conv_add_fusion", "conv_activation_fusion", "gelu_fusion", "layer_norm_fusion",
    "skip_layer_norm_fusion", "matmul_add_fusion", "matmul_transpose_fusion", "attention_fusion",
    "bias_softmax_fusion", "transpose_optimizer", "nchwc_transformer", "highdimRTR_lowdimRTR",
)  # fmt: skip


def test_every_pass_of_the_sweep_grid_is_offered() -> None:
    assert len({name for one in GRID for name in resolve_names([one])}) >= 13


@pytest.mark.parametrize(
    "spelling",
    ["gelu_fusion", "gelu-fusion", "Gelu-Fusion", "GELU_FUSION"],
    ids=["snake", "kebab", "mixed", "capitals"],
)
def test_dashes_and_capitals_make_no_difference(spelling: str) -> None:
    assert resolve_names([spelling]) == ("gelu_fusion",)


@pytest.mark.parametrize("spelling", ["highdimRTR_lowdimRTR", "highdimRTR-lowdimRTR", "highdim_rtr_lowdim_rtr"])
def test_the_name_with_run_together_words_is_taken(spelling: str) -> None:
    assert resolve_names([spelling]) == ("highdim_rtr_lowdim_rtr",)


def test_a_name_brings_what_it_needs_and_what_that_needs() -> None:
    assert resolve_names(["bias_skip_layer_norm_fusion"]) == (
        "bias_skip_layer_norm_fusion",
        "layer_norm_fusion",
        "skip_layer_norm_fusion",
    )


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageProblem) as caught:
        resolve_names(["conv-bn-fusoin"])
    assert caught.value.message == "unknown optimization 'conv_bn_fusoin'"
    assert caught.value.remedy == "did you mean 'conv_bn_fusion'?"


@pytest.mark.parametrize("name", sorted(NOT_OFFERED))
def test_a_name_that_is_not_offered_says_why(name: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        resolve_names([name.replace("_", "-")])
    assert caught.value.message == f"optimization {name!r} is not offered: {NOT_OFFERED[name]}"


@given(st.lists(st.sampled_from(sorted(OPTIMIZATIONS))))
def test_resolving_is_sorted_closed_and_done_once(names: list[str]) -> None:
    resolved = resolve_names(names)
    assert list(resolved) == sorted(set(resolved))
    assert {*names} <= {*resolved}
    assert all(need in resolved for name in resolved for need in OPTIMIZATIONS[name].needs)
    assert resolve_names(reversed(resolved)) == resolved


@pytest.mark.parametrize("name", sorted(OPTIMIZATIONS))
def test_a_row_says_who_does_it_and_at_which_level(name: str) -> None:
    row = OPTIMIZATIONS[name]
    assert row.does.endswith(".")
    assert row.does.count(". ") == 0
    assert (row.backend == "transformer") == bool(row.transformers)
    for transformer in row.transformers:
        levels = [level for names in (RULES, TRANSFORMERS) for level in names if transformer in names[level]]
        assert levels, f"{transformer} is in no list of transformers"
        assert min(levels) <= row.level
    if row.transformers:
        assert any(
            transformer in {*RULES.get(row.level, ()), *TRANSFORMERS[row.level]} for transformer in row.transformers
        )
    assert {*row.before} <= BASIC_SET


def test_no_name_is_both_offered_and_not() -> None:
    assert not OPTIMIZATIONS.keys() & NOT_OFFERED.keys()


def test_rules_and_transformers_are_told_apart() -> None:
    assert not ALL_RULES & {name for names in TRANSFORMERS.values() for name in names}
    assert ALL_RULES < KNOWN


def test_a_plan_is_checked_without_a_runtime() -> None:
    code = (
        "import sys; from pytest_winml.pipeline.optimizations import resolve_names; resolve_names(['gelu-fusion'])\n"
        "heavy = {'onnxruntime', 'onnx', 'onnxscript', 'onnx_ir', 'numpy', 'torch'} & set(sys.modules)\n"
        "sys.exit(f'loaded {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr

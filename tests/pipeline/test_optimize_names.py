"""Each named optimization on a graph where it fires and on one where it nearly does."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import pytest

from pytest_winml.pipeline.optimizations import OPTIMIZATIONS
from pytest_winml.records.stages import MODEL_FILE
from tests.pipeline.patterns import PATTERNS, Pattern, erf_gelu, largest_difference, listed, optimized
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_runtime

X64 = platform.machine().lower() in ("x86_64", "amd64")
HERE = [pattern for pattern in PATTERNS if X64 or not pattern.x64]
FIRING = [pattern for pattern in HERE if pattern.fires]


def test_every_name_has_a_pattern() -> None:
    assert {pattern.name for pattern in PATTERNS} == OPTIMIZATIONS.keys()
    assert {pattern.name for pattern in PATTERNS if not pattern.fires} == {
        row.name for row in OPTIMIZATIONS.values() if row.never
    }


@pytest.mark.parametrize("pattern", FIRING, ids=[pattern.name for pattern in FIRING])
def test_it_fires_and_the_outputs_agree(pattern: Pattern, tmp_path: Path) -> None:
    assert pattern.fires is not None
    answer = optimized(pattern.fires(), tmp_path, pattern.name)
    assert pattern.name in listed(answer, "fired")
    assert not answer.no_op
    if pattern.appears:
        assert pattern.appears in listed(answer, "added")
    if pattern.goes:
        assert pattern.goes in listed(answer, "removed")
    assert largest_difference(tmp_path) <= pattern.tolerance


@pytest.mark.parametrize("pattern", HERE, ids=[pattern.name for pattern in HERE])
def test_a_near_miss_is_passed_on_as_it_is(pattern: Pattern, tmp_path: Path) -> None:
    answer = optimized(pattern.near(), tmp_path, pattern.name)
    assert answer.no_op
    assert listed(answer, "fired") == []
    assert pattern.name in listed(answer, "did_not_fire")
    assert (tmp_path / "out" / MODEL_FILE).read_bytes() == (tmp_path / "source.onnx").read_bytes()


@pytest.mark.parametrize("pattern", FIRING, ids=[pattern.name for pattern in FIRING])
def test_without_its_name_the_pattern_stays(pattern: Pattern, tmp_path: Path) -> None:
    """The other direction of "everything else stays off": a name that has nothing to do with the graph."""
    assert pattern.fires is not None
    stranger = "double_qdq_pairs_remover" if pattern.name != "double_qdq_pairs_remover" else "pad_fusion"
    assert optimized(pattern.fires(), tmp_path, stranger).no_op


def test_what_cannot_fire_says_why(tmp_path: Path) -> None:
    (pattern,) = (pattern for pattern in PATTERNS if not pattern.fires)
    answer = optimized(pattern.near(), tmp_path, pattern.name)
    assert answer.facts["cannot_fire"] == {pattern.name: OPTIMIZATIONS[pattern.name].never}


def test_gelu_becomes_the_standard_operator_where_the_opset_has_it(tmp_path: Path) -> None:
    answer = optimized(erf_gelu(opset=20), tmp_path, "gelu_fusion")
    assert answer.facts["added"] == {"Gelu": 1}
    assert answer.facts["opset"] == 20

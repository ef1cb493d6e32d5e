from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_winml.stats.interval import interval
from pytest_winml.stats.judgement import Question, conclude, decide
from pytest_winml.stats.sign_flip import Looks, walk
from tests.stats import oracle

if TYPE_CHECKING:
    from pytest_winml.stats.location import Floats

EVERY = Looks.up_to(16)


def test_it_is_bounded_at_the_first_look_by_the_extreme_sessions() -> None:
    differences = np.array([0.01, 0.03, -0.02, 0.05, 0.02, 0.0])
    assert interval(differences, EVERY) == pytest.approx((-0.02, 0.05), abs=1e-6)


def test_there_is_none_before_the_first_look() -> None:
    assert interval(np.full(5, 0.1), EVERY) is None
    assert interval(np.full(2, 0.1), Looks.up_to(2)) is None


def test_sessions_that_agree_to_the_bit_leave_a_point() -> None:
    assert interval(np.zeros(6), EVERY) == (0.0, 0.0)


def test_its_ends_are_where_slow_counting_changes_its_mind() -> None:
    looks = Looks(at=(6, 8), alpha=0.10)
    for row in np.random.default_rng(2).normal(0, 1, (5, 8)):
        ends = interval(row, looks)
        assert ends is not None
        near = 1e-4
        assert oracle.rejected_at(row.tolist(), looks.at, looks.alpha, ends[0] - near)
        assert not oracle.rejected_at(row.tolist(), looks.at, looks.alpha, ends[0] + near)
        assert oracle.rejected_at((-row).tolist(), looks.at, looks.alpha, -ends[1] - near)
        assert not oracle.rejected_at((-row).tolist(), looks.at, looks.alpha, -ends[1] + near)


def _stopped(row: Floats, question: Question) -> Floats:
    return next(row[:count] for count in question.looks.at if decide(row[:count], question))


@pytest.mark.parametrize("shape", ["normal", "cauchy", "t2"])
@pytest.mark.parametrize("truth", [0.0, math.log(1.1)])
def test_it_holds_the_truth_nine_times_in_ten_at_whichever_look_the_test_stops(shape: str, truth: float) -> None:
    lot = np.random.default_rng(11)
    noise = {
        "normal": lot.standard_normal((250, 16)),
        "cauchy": lot.standard_cauchy((250, 16)),
        "t2": lot.standard_t(2, (250, 16)),
    }[shape]
    question = Question(looks=EVERY)
    trials, missed = 250, 0
    for row in truth + 0.05 * noise:
        ends = interval(_stopped(row, question), EVERY, question.shifts)
        assert ends is not None
        missed += not ends[0] <= truth <= ends[1]
    assert missed / trials <= 0.10 + 2 * math.sqrt(0.1 * 0.9 / trials)


def test_it_agrees_with_the_decision() -> None:
    question = Question(looks=EVERY)
    outcomes = set()
    for row in np.random.default_rng(4).normal(0.05, 0.07, (60, 16)):
        seen = _stopped(row, question)
        verdict = conclude(decide(seen, question) or "INCONCLUSIVE", seen, question)
        outcomes.add(verdict.outcome)
        assert verdict.interval is not None
        low, high = verdict.interval
        if verdict.outcome == "REGRESSED":
            assert low >= 0
        if verdict.outcome == "IMPROVED":
            assert high <= 0
        if verdict.outcome == "EQUIVALENT":
            assert high <= 0.10 + 1e-9
            assert low >= 1 / 1.10 - 1 - 1e-9
    assert {"REGRESSED", "EQUIVALENT"} <= outcomes


def test_a_shift_outside_is_rejected_and_one_inside_is_not() -> None:
    row = np.random.default_rng(6).normal(0, 1, 12)
    ends = interval(row, EVERY)
    assert ends is not None
    assert walk(row, EVERY, shift=ends[0] - 0.01).rejected_at
    assert not walk(row, EVERY, shift=(ends[0] + ends[1]) / 2).rejected_at

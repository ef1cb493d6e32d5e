from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_winml.stats.judgement import Question, conclude, decide
from pytest_winml.stats.sign_flip import Looks

GATE = Question(looks=Looks.up_to(16), alternative="slower")
LEAST = math.log(1.05)


def test_an_early_look_stops_only_for_what_is_clear_of_the_least_effect() -> None:
    assert decide(np.full(6, LEAST + 0.002), GATE) is None
    assert decide(np.full(6, LEAST - 0.002), GATE) is None
    assert decide(np.full(6, LEAST + 0.02), GATE) == "REGRESSED"
    assert decide(np.full(6, LEAST - 0.02), GATE) == "EQUIVALENT"


def test_the_last_look_decides_at_the_least_effect_itself() -> None:
    assert decide(np.full(16, LEAST + 0.002), GATE) == "REGRESSED"
    assert decide(np.full(16, LEAST - 0.002), GATE) == "EQUIVALENT"


def test_between_looks_nothing_is_decided() -> None:
    assert decide(np.full(5, 0.5), GATE) is None
    assert decide(np.full(7, 0.5), Question(looks=Looks(at=(6, 8)))) is None


def test_a_certain_slowdown_between_the_limits_is_told_as_such() -> None:
    lot = np.random.default_rng(1)
    wide = 0.045 + 0.05 * np.abs(lot.standard_normal(16))
    wide[::2] -= 0.05
    verdict = conclude("INCONCLUSIVE", wide, GATE)
    assert verdict.reasons[0].startswith(("it is slower for certain, but neither", "the noise allows neither"))


@pytest.mark.parametrize("value", [0.0, 0.2, -0.2])
def test_sessions_that_agree_to_the_bit_have_a_point_for_an_interval(value: float) -> None:
    verdict = conclude("INCONCLUSIVE", np.full(6, value), GATE)
    assert verdict.interval == (math.expm1(value), math.expm1(value))
    assert verdict.mde == pytest.approx(0.0)


def test_a_single_session_has_an_effect_and_no_detectable_one() -> None:
    verdict = conclude("INCONCLUSIVE", np.array([0.1]), GATE)
    assert verdict.effect == pytest.approx(math.expm1(0.1))
    assert (verdict.mde, verdict.interval) == (None, None)

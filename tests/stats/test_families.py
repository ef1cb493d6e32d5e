from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.records.latency import Verdict, VerdictOutcome
from pytest_winml.stats.families import confirmation_seed, confirmed, needs_confirmation, q_values


@given(st.lists(st.floats(0, 1), max_size=12))
def test_a_q_value_is_the_smallest_level_at_which_its_comparison_is_taken(p_values: list[float]) -> None:
    """The slow way: at level q all are taken up to the largest p_(j) <= q j / n."""
    found = q_values(p_values)
    count = len(p_values)
    for p, q in zip(p_values, found, strict=True):
        larger = [other for other in sorted(p_values) if other >= p]
        slow = min(other * count / sum(one <= other for one in p_values) for other in larger)
        assert q == pytest.approx(min(slow, 1.0))


def test_a_family_of_one_keeps_its_p_value_and_of_none_has_none() -> None:
    assert q_values([0.03]) == (0.03,)
    assert q_values([]) == ()


@pytest.mark.parametrize("bad", [[1.1], [-0.1], [float("nan")]])
def test_what_is_no_p_value_is_refused(bad: list[float]) -> None:
    with pytest.raises(UsageProblem, match="not all p-values"):
        q_values(bad)


def verdict(outcome: VerdictOutcome, effect: float = 0.1) -> Verdict:
    return Verdict(outcome=outcome, effect=effect, sessions=6, reasons=("so it is.",))


def test_only_an_alarm_is_run_again() -> None:
    assert needs_confirmation(verdict("REGRESSED"))
    assert not needs_confirmation(verdict("IMPROVED"))
    assert confirmed(verdict("EQUIVALENT", 0.01), verdict("REGRESSED")) == verdict("EQUIVALENT", 0.01)


def test_an_alarm_stands_when_the_second_test_shares_it_with_the_second_figures() -> None:
    both = confirmed(verdict("REGRESSED", 0.2), verdict("REGRESSED", 0.1))
    assert (both.outcome, both.effect) == ("REGRESSED", 0.1)
    assert both.reasons == ("a second test with fresh sessions agrees.", "so it is.")


@pytest.mark.parametrize("outcome", ["EQUIVALENT", "INCONCLUSIVE", "IMPROVED"])
def test_an_alarm_falls_when_the_second_test_does_not_share_it(outcome: VerdictOutcome) -> None:
    fallen = confirmed(verdict("REGRESSED"), verdict(outcome))
    assert fallen.outcome == outcome
    assert fallen.reasons[0] == "a first test called it slower, a second with fresh sessions does not."


def test_the_second_test_has_a_seed_of_its_own() -> None:
    seeds = range(1000)
    assert len({confirmation_seed(seed) for seed in seeds} | set(seeds)) == 2000

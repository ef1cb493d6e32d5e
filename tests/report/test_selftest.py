from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.records.latency import Verdict, VerdictOutcome
from pytest_winml.records.selftest import Trial
from pytest_winml.report.selftest import selftest_lines, trial_line
from pytest_winml.selftest.trials import INJECTED, assess

if TYPE_CHECKING:
    from pytest_winml.records.selftest import SelfTest


def trial(number: int, outcome: VerdictOutcome) -> Trial:
    injected = 0.0 if number % 2 else INJECTED
    verdict = Verdict(
        outcome=outcome, effect=injected + 0.004, interval=(injected - 0.01, injected + 0.019), sessions=6
    )
    return Trial(number=number, injected=injected, verdict=verdict, device_s=31.2, elapsed_s=33.0)


def found(alike: str, slowed: str, *, interrupted: bool = False) -> SelfTest:
    """A letter a comparison: R, E, I for the outcomes."""
    outcome: dict[str, VerdictOutcome] = {"R": "REGRESSED", "E": "EQUIVALENT", "I": "INCONCLUSIVE"}
    trials = [trial(2 * at + 1, outcome[letter]) for at, letter in enumerate(alike)]
    trials += [trial(2 * at + 2, outcome[letter]) for at, letter in enumerate(slowed)]
    planned = 10 if interrupted else len(trials)
    return assess(trials, subject="digits-vit on cpu", protocol="standard", planned=planned, interrupted=interrupted)


def test_a_comparison_is_a_line() -> None:
    assert [trial_line(trial(9, "EQUIVALENT"), 10), trial_line(trial(10, "REGRESSED"), 10)] == [
        " 9/10  A/A      EQUIVALENT    +0.4 % (-1.0 % to +1.9 %)    6 sessions   31 s",
        "10/10  +10.0 %  REGRESSED     +10.4 % (+9.0 % to +11.9 %)  6 sessions   31 s",
    ]


def test_a_comparison_that_found_nothing_out_is_a_line_too() -> None:
    nothing = Trial(number=1, injected=0.0, verdict=Verdict(outcome="INCONCLUSIVE"), device_s=0.5, elapsed_s=0.5)
    assert trial_line(nothing, 2) == ("1/2  A/A      INCONCLUSIVE  -                            0 sessions   0.50 s")


def test_few_comparisons_are_said_to_prove_little() -> None:
    assert selftest_lines(found("EEEEE", "RRRRI"), 100) == [
        "comparisons   REGRESSED  EQUIVALENT  INCONCLUSIVE  IMPROVED  promised   sessions  device time",
        "------------  ---------  ----------  ------------  --------  ---------  --------  -----------",
        "5 A/A         0          5           0             0         <= 5.0 %   30        2 min 36 s",
        "5 at +10.0 %  4          0           1             0         >= 80.0 %  30        2 min 36 s",
        "",
        "0 of 5 A/A comparisons raised an alarm: the false-alarm rate is below 45.1 % with 95 % confidence.",
        "4 of 5 injected slowdowns were found: the power is above 34.3 % with 95 % confidence.",
        "Consistent with what gates promise, and not yet proof of it. More comparisons say more.",
    ]


def test_many_comparisons_can_show_it() -> None:
    assert selftest_lines(found("E" * 60, "R" * 60), 100)[-3:] == [
        "0 of 60 A/A comparisons raised an alarm: the false-alarm rate is below 4.9 % with 95 % confidence.",
        "60 of 60 injected slowdowns were found: the power is above 95.1 % with 95 % confidence.",
        "Shown: gates keep their promises here.",
    ]


def test_what_is_excluded_is_said_with_the_bound_that_excludes_it() -> None:
    lines = selftest_lines(found("RREEE", "REEII"), 100)
    assert lines[-4:] == [
        "2 of 5 A/A comparisons raised an alarm: the false-alarm rate is above 7.6 % with 95 % confidence.",
        "1 of 5 injected slowdowns was found: the power is below 65.7 % with 95 % confidence.",
        "NOT HELD: more false alarms and slowdowns that are missed than promised. Gates on this machine",
        "mislead: let nothing else run on it, and test again.",
    ]


def test_an_interrupted_test_says_what_there_is() -> None:
    assert selftest_lines(found("E", "", interrupted=True), 100)[2:] == [
        "1 A/A        0          1           0             0         <= 5.0 %  6         31 s",
        "",
        "Interrupted after 1 of 10 comparisons.",
        "",
        "0 of 1 A/A comparison raised an alarm: the false-alarm rate is below 95.0 % with 95 % confidence.",
        "No slowdown was injected: nothing can be said about power.",
        "Consistent with what gates promise, and not yet proof of it. More comparisons say more.",
    ]


def test_nothing_done_concludes_nothing() -> None:
    assert selftest_lines(found("", "", interrupted=True), 100)[2:] == [
        "",
        "Interrupted after 0 of 10 comparisons.",
        "",
        "No A/A comparison was made: nothing can be said about false alarms.",
        "No slowdown was injected: nothing can be said about power.",
        "More comparisons say more.",
    ]


@pytest.mark.parametrize(
    ("alike", "slowed", "consistent"),
    [
        ("EEEEE", "RRRRR", True),
        ("REEEE", "RRRRR", True),
        ("RREEE", "RRRRR", False),
        ("EEEEE", "RREEE", True),
        ("EEEEE", "REEEE", False),
        ("R", "E", True),
        ("", "", True),
    ],
)
def test_it_fails_only_when_a_bound_excludes_the_promise(alike: str, slowed: str, *, consistent: bool) -> None:
    assert found(alike, slowed).consistent is consistent

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.measure.budget import Budget
from pytest_winml.measure.comparing import Question, compare_apart, compare_together
from pytest_winml.records.measurement import CANARY
from tests.measure.devices import BASELINE, CANARY_SUBJECT, CANDIDATE, Scripted, sessions_on

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_winml.records.latency import Verdict

SLOWER = Question(tolerance=0.10, alternative="slower")


def together(device: Scripted, folder: Path, question: Question = SLOWER) -> Verdict:
    return compare_together(BASELINE, CANDIDATE, CANARY_SUBJECT, question, sessions_on(device, folder))


def test_a_slowdown_is_found_and_no_difference_is_excluded(tmp_path: Path) -> None:
    slower = together(Scripted(slowdown=0.20), tmp_path / "1")
    assert slower.outcome == "REGRESSED"
    assert slower.effect == pytest.approx(0.20, abs=0.03)
    assert slower.route == "co-resident"
    assert together(Scripted(slowdown=0.0), tmp_path / "2").outcome == "EQUIVALENT"
    assert together(Scripted(slowdown=-0.2), tmp_path / "3", Question()).outcome == "IMPROVED"


def test_each_arm_runs_alone_once_and_then_both_between_two_looks_at_the_canary(tmp_path: Path) -> None:
    device = Scripted()
    together(device, tmp_path)
    assert [[arm for arm, _ in order.arms] for order in device.orders[:2]] == [["A"], ["B"]]
    for order in device.orders[2:]:
        arms = [arm for arm, _ in order.blocks]
        assert arms[:2] == arms[-2:] == [CANARY, CANARY]
        assert sorted(dict(order.arms)) == ["A", "B", CANARY]
        assert arms.count("A") == arms.count("B")


def test_an_arm_that_behaves_otherwise_alone_is_told(tmp_path: Path) -> None:
    assert not any("alone" in reason for reason in together(Scripted(), tmp_path / "1").reasons)
    reasons = together(Scripted(slower_alone=0.5), tmp_path / "2").reasons
    assert any("alone in its process the baseline was" in reason and "slower" in reason for reason in reasons)


def test_disturbed_sessions_are_repeated_and_told(tmp_path: Path) -> None:
    calm, disturbed = Scripted(), Scripted(disturbed={4: "the power source changed"})
    verdict = together(disturbed, tmp_path / "1")
    together(calm, tmp_path / "2")
    assert len(disturbed.orders) == len(calm.orders) + 1
    assert disturbed.orders[3] == disturbed.orders[4]
    assert "1 session was disturbed and repeated: the power source changed." in verdict.reasons


def test_a_machine_that_is_never_quiet_gets_a_verdict_that_says_so(tmp_path: Path) -> None:
    verdict = together(Scripted(disturbed=dict.fromkeys(range(1, 100), "others compute")), tmp_path)
    assert verdict.outcome == "EQUIVALENT"
    assert any("the machine is not quiet" in reason for reason in verdict.reasons)


def test_a_budget_that_runs_out_leaves_what_was_seen_and_no_verdict(tmp_path: Path) -> None:
    seconds = iter(range(0, 10_000, 10))
    allowance = Budget(45.0, 1, now=lambda: float(next(seconds))).allow()
    device = Scripted("logn2")
    verdict = compare_together(
        BASELINE, CANDIDATE, CANARY_SUBJECT, SLOWER, sessions_on(device, tmp_path, allowance=allowance)
    )
    assert verdict.outcome == "INCONCLUSIVE"
    assert verdict.sessions == 3
    assert len(device.orders) == 5
    assert any("budget" in reason for reason in verdict.reasons)


def test_what_can_be_found_is_said_before_it_starts(tmp_path: Path) -> None:
    said: list[str] = []
    compare_together(BASELINE, CANDIDATE, CANARY_SUBJECT, SLOWER, sessions_on(Scripted(), tmp_path, said=said))
    (prediction,) = [line for line in said if "can be found" in line]
    assert said.index(prediction) < said.index("session 1")


def test_a_killed_comparison_goes_on_at_the_next_session_with_nothing_lost(tmp_path: Path) -> None:
    whole, killed = Scripted("logn1", slowdown=0.1), Scripted("logn1", slowdown=0.1, dies_at=6)
    expected = together(whole, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        together(killed, tmp_path / "killed")
    (folder,) = (tmp_path / "killed").iterdir()
    folder.rename(folder.with_name("999999999-dead"))  # no process has this number
    resumed = Scripted("logn1", slowdown=0.1)
    for order in killed.orders[:5]:
        resumed.simulated.run(order)  # the simulated machine has lived through these
    sessions = sessions_on(resumed, tmp_path / "killed", resume=True)
    verdict = compare_together(BASELINE, CANDIDATE, CANARY_SUBJECT, SLOWER, sessions)
    assert resumed.orders == whole.orders[5:]
    assert verdict.reasons[-1] == "5 sessions of an interrupted run were taken over."
    assert msgspec.structs.replace(verdict, reasons=expected.reasons) == expected


def test_without_resume_sessions_of_another_day_are_not_taken(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        together(Scripted(dies_at=6), tmp_path)
    (folder,) = tmp_path.iterdir()
    folder.rename(folder.with_name("999999999-dead"))
    device = Scripted()
    verdict = together(device, tmp_path)
    assert not any("interrupted" in reason for reason in verdict.reasons)
    assert len(device.orders) >= 8


def test_arms_apart_are_judged_beside_the_canary_and_labelled_so(tmp_path: Path) -> None:
    verdict = compare_apart(
        BASELINE, CANDIDATE, CANARY_SUBJECT, Question(), sessions_on(Scripted(slowdown=0.3), tmp_path)
    )
    assert (verdict.outcome, verdict.route) == ("REGRESSED", "canary-paired")
    assert verdict.effect == pytest.approx(0.3, abs=0.08)
    assert any("in a process of its own" in reason for reason in verdict.reasons)


def test_tails_of_arms_apart_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="only their p50"):
        compare_apart(BASELINE, CANDIDATE, CANARY_SUBJECT, Question(objective="p99"), sessions_on(Scripted(), tmp_path))

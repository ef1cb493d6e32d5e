"""Two subjects, one verdict: by sessions that hold both, or by pairs of sessions that each hold one and the canary."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

from pytest_winml import units
from pytest_winml.errors import UsageProblem
from pytest_winml.measure.ordering import Order
from pytest_winml.measure.sessions import BUDGET_OVER
from pytest_winml.records.base import Record
from pytest_winml.records.latency import Alternative, Arm, Objective, Verdict
from pytest_winml.records.measurement import CANARY
from pytest_winml.stats.canary_pairs import CanaryPairedTest
from pytest_winml.stats.paired import PairedTest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.measure.ordering import Subject
    from pytest_winml.measure.sessions import Sessions
    from pytest_winml.session.timing_messages import TimedSession

CO_RESIDENCE_LIMIT = 0.10
_SOLO_BLOCKS = 4
_CANARY_BLOCKS = ((CANARY, 0), (CANARY, 0))


class Question(Record, frozen=True, kw_only=True):
    """`tolerance` is the change that matters, `min_effect` the least that is called one."""

    tolerance: float = 0.10
    min_effect: float | None = None
    alternative: Alternative = "both"
    objective: Objective = "p50"
    most_sessions: int = 16
    slow_down: dict[Arm, float] = msgspec.field(default_factory=dict)

    def paired_test(self, seed: int, latency_hint_ns: float) -> PairedTest:
        return PairedTest(
            tolerance=self.tolerance,
            min_effect=self.min_effect,
            seed=seed,
            alternative=self.alternative,
            latency_hint_ns=latency_hint_ns,
            objective=self.objective,
            max_sessions=self.most_sessions,
        )


def compare_together(
    baseline: Subject, candidate: Subject, canary: Subject, question: Question, sessions: Sessions
) -> Verdict:
    """Arms A and B in one process, in alternating blocks; the canary at both ends tells whether the session drifted."""
    subjects = {"A": baseline, "B": candidate}
    together: dict[Arm, list[float]] = {"A": [], "B": []}
    alone = {arm: _median_ns(_solo(arm, subject, question, sessions), arm) for arm, subject in subjects.items()}
    sessions.announce(max(alone.values()), question.most_sessions)
    test = question.paired_test(sessions.seed, max(alone.values()))
    while test.verdict is None:
        plan = test.next_session()
        order = Order(
            arms=(*((arm, subjects[arm]) for arm in plan.create), (CANARY, canary)),
            blocks=(*_CANARY_BLOCKS, *plan.blocks, *_CANARY_BLOCKS),
            slow_down=question.slow_down,
        )
        session = sessions.next(f"session {plan.number}", order)
        if session is None:
            test.stop(BUDGET_OVER)
            break
        test.add([(block.arm, block.times_ns) for block in session.blocks if block.arm != CANARY])
        for arm, medians in together.items():
            medians.append(_median_ns(session, arm))
    return _with_remarks(test.interim(), (*_co_residence(alone, together), *sessions.notes))


def compare_apart(
    baseline: Subject, candidate: Subject, canary: Subject, question: Question, sessions: Sessions
) -> Verdict:
    """Each arm in a process of its own, beside the same canary; processes come in pairs, in random order."""
    if question.objective != "p50":
        raise UsageProblem(
            f"{baseline.label} and {candidate.label} cannot share a process, and only their p50 can be compared",
            remedy='leave out objective="..."',
        )
    subjects = {"A": baseline, "B": candidate}
    hint = max(_median_ns(_solo(arm, subject, question, sessions), arm) for arm, subject in subjects.items())
    test = CanaryPairedTest(
        tolerance=question.tolerance,
        min_effect=question.min_effect,
        seed=sessions.seed,
        alternative=question.alternative,
        latency_hint_ns=hint,
        max_sessions=question.most_sessions,
    )
    while test.verdict is None:
        plan = test.next_session()
        order = Order(
            arms=tuple((arm, canary if arm == CANARY else subjects[arm]) for arm in plan.create), blocks=plan.blocks
        )
        session = sessions.next(f"process {plan.number}", order)
        if session is None:
            test.stop(BUDGET_OVER)
            break
        test.add([(block.arm, block.times_ns) for block in session.blocks])
    remark = f"canary-paired: each ran in a process of its own beside the same model on the {canary.target.spec}."
    return _with_remarks(test.interim(), (remark, *sessions.notes))


def _with_remarks(verdict: Verdict, remarks: Iterable[str]) -> Verdict:
    return msgspec.structs.replace(verdict, reasons=(*verdict.reasons, *remarks))


def _solo(arm: Arm, subject: Subject, question: Question, sessions: Sessions) -> TimedSession:
    slow_down = {arm: question.slow_down[arm]} if arm in question.slow_down else {}
    order = Order(arms=((arm, subject),), blocks=((arm, 0),) * _SOLO_BLOCKS, slow_down=slow_down)
    return sessions.run(f"{arm} alone", order)


def _median_ns(session: TimedSession, arm: Arm) -> float:
    return statistics.median(time for block in session.blocks if block.arm == arm for time in block.times_ns)


def _co_residence(alone: dict[Arm, float], together: dict[Arm, list[float]]) -> Iterable[str]:
    """Whether sharing a process changed what an arm takes: then the verdict is about arms that share."""
    for arm, medians in together.items():
        ratio = alone[arm] / statistics.median(medians) if medians else 1.0
        change = max(ratio, 1 / ratio) - 1
        if change > CO_RESIDENCE_LIMIT:
            how = "slower" if ratio > 1 else "faster"
            who = "the baseline" if arm == "A" else "the candidate"
            yield f"alone in its process {who} was {units.percent(change)} {how} than beside the other: mind it."

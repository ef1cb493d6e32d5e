"""From differences of sessions to a verdict: the same for arms in one process, canary pairs and replays.

With d in log latency, t = ln(1 + tolerance) and m = ln(1 + min_effect), after each look:
REGRESSED    "slower than 0" is established, and the effect is at least m
IMPROVED     the same with the arms exchanged
EQUIVALENT   a slowdown of t is excluded and the effect is below m; asked both ways, a speed-up of t as well
Otherwise the next session is asked for, and after the last one it is INCONCLUSIVE.

Before the last look the effect has to clear m by a margin, 0.4 * m * (1 - S / S_max), above it or below. An estimate of
few sessions that is just across m is across it by luck; going on for a session or two there makes a third fewer errors
of either kind for one per cent more time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml import units
from pytest_winml.errors import UsageProblem
from pytest_winml.records.base import Record
from pytest_winml.records.latency import Alternative, Objective, Route, Verdict, VerdictOutcome
from pytest_winml.stats.interval import interval
from pytest_winml.stats.location import Floats, hodges_lehmann
from pytest_winml.stats.planning import detectable
from pytest_winml.stats.sign_flip import FEWEST_SESSIONS, Looks, walk
from pytest_winml.stats.tails import Tail, p90_effect, spread_effect, tail_reasons

if TYPE_CHECKING:
    from collections.abc import Sequence


MARGIN = 0.4


class Question(Record, frozen=True, kw_only=True):
    """What is asked of the sessions, and how much error the answer may have."""

    looks: Looks
    tolerance: float = 0.10
    min_effect: float = 0.05
    alternative: Alternative = "both"
    objective: Objective = "p50"
    route: Route = "co-resident"
    seed: int = 0
    early_margin: float = MARGIN

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < math.inf:
            raise UsageProblem(f"a tolerance of {self.tolerance} is none", remedy="give a share above 0, as 0.10.")
        if not 0 <= self.min_effect <= self.tolerance:
            raise UsageProblem(
                f"a least effect of {self.min_effect} does not fit a tolerance of {self.tolerance}",
                remedy="give a share between 0 and the tolerance; half of it is usual.",
            )
        if self.alternative not in {"slower", "both"}:
            raise UsageProblem(f"unknown alternative {self.alternative!r}", remedy='give "slower" or "both".')
        if self.objective not in {"p50", "p90", "p99"}:
            raise UsageProblem(f"unknown objective {self.objective!r}", remedy='give "p50", "p90" or "p99".')
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise UsageProblem(f"{self.seed!r} is no seed", remedy="give a whole number, zero or above.")

    def margin(self, sessions: int) -> float:
        """By how much the effect has to clear the least one after so many sessions, in log latency."""
        return self.early_margin * math.log1p(self.min_effect) * (1 - sessions / self.looks.at[-1])

    @property
    def shifts(self) -> tuple[float, float, float]:
        """The effects, in log latency, whose rejection decides."""
        limit = math.log1p(self.tolerance)
        return (-limit, 0.0, limit)


def decide(differences: Floats, question: Question) -> VerdictOutcome | None:
    """None: ask for another session."""
    if differences.size not in question.looks.at:
        return None
    least = math.log1p(question.min_effect)
    limit = math.log1p(question.tolerance)
    effect = hodges_lehmann(differences)
    margin = question.margin(differences.size)
    if effect >= least + margin and _exceeds(differences, 0.0, question):
        return "REGRESSED"
    faster = effect <= -least - margin and _exceeds(-differences, 0.0, question)
    both = question.alternative == "both"
    if both and faster:
        return "IMPROVED"
    size = abs(effect) if both else effect
    # With a least effect of zero nothing is below it; what is not established is then small enough.
    excluded = (size < least - margin or not least) and _exceeds(-differences, -limit, question)
    if excluded and both:
        excluded = _exceeds(differences, -limit, question)
    if excluded:
        return "IMPROVED" if faster else "EQUIVALENT"
    return "INCONCLUSIVE" if differences.size >= question.looks.at[-1] else None


def _exceeds(differences: Floats, shift: float, question: Question) -> bool:
    return walk(differences, question.looks, shift=shift).rejected_at is not None


def conclude(
    outcome: VerdictOutcome, differences: Floats, question: Question, *, tails: Sequence[Tail] = (), why: str = ""
) -> Verdict:
    """The verdict in full. `why` is a reason from outside, such as a budget that ran out."""
    if not differences.size:
        return Verdict(
            outcome=outcome, reasons=(why,) if why else (), objective=question.objective, route=question.route,
            seed=question.seed,
        )  # fmt: skip
    effect = hodges_lehmann(differences)
    ends = interval(differences, question.looks, question.shifts)
    sd = float(np.std(differences, ddof=1)) if differences.size > 1 else 0.0
    towards = differences if effect >= 0 or question.alternative == "slower" else -differences
    return Verdict(
        outcome=outcome,
        effect=math.expm1(effect),
        interval=(math.expm1(ends[0]), math.expm1(ends[1])) if ends else None,
        sessions=differences.size,
        mde=detectable(sd, differences.size, alpha=question.looks.alpha),
        reasons=(
            *((why,) if why else ()),
            *_reasons(outcome, effect, ends, differences.size, question),
            *tail_reasons(tails, outcome, question.min_effect),
        ),
        objective=question.objective,
        route=question.route,
        p_value=walk(towards, question.looks).p_value,
        seed=question.seed,
        p90_effect=p90_effect(tails),
        spread_effect=spread_effect(tails),
    )


def _reasons(
    outcome: VerdictOutcome, effect: float, ends: tuple[float, float] | None, sessions: int, question: Question
) -> tuple[str, ...]:
    limit = units.percent(question.tolerance)
    change = _change(effect)
    certain = None if not ends else "slower" if ends[0] > 0 else "faster" if ends[1] < 0 else None
    if outcome == "REGRESSED":
        return (f"the candidate is slower for certain: {change} after {units.count(sessions, 'session')}.",)
    if outcome == "IMPROVED":
        return (f"the candidate is faster for certain: {change} after {units.count(sessions, 'session')}.",)
    if outcome == "EQUIVALENT":
        said = [f"a slowdown of {limit} is excluded: {change}."]
        if question.alternative == "both":
            said = [f"a change of {limit} is excluded either way: {change}."]
        if certain:
            said.append(f"it is {certain} for certain, by too little to matter ({change}).")
        return tuple(said)
    if sessions < FEWEST_SESSIONS:
        return (
            f"{units.count(sessions, 'session')} can carry no verdict, {FEWEST_SESSIONS} at least can: a screen only.",
        )
    least = units.percent(question.min_effect)
    if certain:
        return (f"it is {certain} for certain, but neither is {limit} excluded nor the effect {least} ({change}).",)
    return (f"the noise allows neither a change to be certain nor {limit} to be excluded ({change}).",)


def _change(effect: float) -> str:
    """In words, so that exchanging the arms exchanges the words."""
    share = math.expm1(abs(effect))
    rounded = units.percent(share)
    if rounded == units.percent(0.0):
        return "no difference"
    return f"{rounded} slower" if effect > 0 else f"{units.percent(-math.expm1(effect))} faster"

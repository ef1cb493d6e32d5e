"""The paired test: says what to run next, takes the times, and stops when it knows.

    test = PairedTest(tolerance=0.10, min_effect=0.05, seed=7, alternative="slower", latency_hint_ns=5_000_000)
    while test.verdict is None:
        plan = test.next_session()
        test.add(run(plan))

A session is a fresh process that holds both arms, A the baseline and B the candidate. Which is created first and which
begins each quad is drawn from the seed, so a run can be repeated to the block.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pytest_winml.errors import UsageProblem
from pytest_winml.records.latency import Alternative, Arm, Objective, SessionPlan, Verdict, VerdictOutcome
from pytest_winml.stats import planning
from pytest_winml.stats.blocks import RawBlocks, Reading, listed, read_session
from pytest_winml.stats.judgement import MARGIN, Question, conclude, decide
from pytest_winml.stats.planning import SIZES, Sizes
from pytest_winml.stats.sign_flip import MOST_SESSIONS, Looks
from pytest_winml.stats.tails import Tail, tail_of, unsupported

if TYPE_CHECKING:
    from pytest_winml.stats.location import Floats

DEFAULT_HINT_NS = 5_000_000.0
# The error inside a session that quads are to reach, as a share of the tolerance: 4 % where 10 % matters, which six
# sessions make 1.6 %.
PRECISION = 0.4


class PairedTest:
    """`verdict` is None until it is settled. A session that is refused leaves everything as it was: repeat it."""

    def __init__(
        self,
        *,
        tolerance: float = 0.10,
        min_effect: float | None = None,
        seed: int = 0,
        alternative: Alternative = "both",
        latency_hint_ns: float | None = None,
        objective: Objective = "p50",
        max_sessions: int = MOST_SESSIONS,
        looks: Looks | None = None,
        sizes: Sizes = SIZES,
        precision: float = PRECISION,
        early_margin: float = MARGIN,
    ) -> None:
        if latency_hint_ns is not None and not 0 < latency_hint_ns < math.inf:
            raise UsageProblem(f"a latency hint of {latency_hint_ns} ns is none")
        self.question = Question(
            looks=looks or Looks.up_to(max_sessions),
            tolerance=tolerance,
            min_effect=tolerance / 2 if min_effect is None else min_effect,
            alternative=alternative,
            objective=objective,
            seed=seed,
            early_margin=early_margin,
        )
        self.verdict: Verdict | None = None
        self._sizes = sizes
        self._precision = precision * tolerance / planning.SPREAD_OF[objective]
        self._latency_ns = latency_hint_ns
        self._differences: list[float] = []
        self._quads: list[Floats] = []
        self._tails: list[Tail] = []
        self._exchanged: bool | None = None
        self._plan: SessionPlan | None = None
        self._refuse_a_tail_out_of_reach()

    @property
    def sessions(self) -> int:
        """Sessions taken so far."""
        return len(self._differences)

    @property
    def differences(self) -> tuple[float, ...]:
        """Log latency of the candidate less that of the baseline, one a session."""
        return tuple(self._differences)

    def next_session(self) -> SessionPlan:
        """The session to run; the same one until its times were taken."""
        if self.verdict is not None:
            raise UsageProblem(f"the test has its verdict, {self.verdict.outcome}: there is no next session")
        if self._plan is None:
            self._plan = self._draw()
        return self._plan

    def add(self, blocks: RawBlocks) -> None:
        """Times of the planned session, block by block in the planned order.

        With A and B exchanged in every block of every session it is the same experiment seen from the other arm, and
        gives the opposite answer.
        """
        plan = self.next_session()
        given = listed(plan, blocks)
        exchanged = self._exchanged
        if exchanged is None:
            exchanged = _is_exchanged(plan, given)
        reading = read_session(_exchange(plan) if exchanged else plan, given)
        self._exchanged = exchanged
        self._take(reading)

    def stop(self, why: str) -> Verdict:
        """Settle with what there is, as when a budget runs out."""
        if self.verdict is None:
            self.verdict = self._conclude("INCONCLUSIVE", why=why)
        return self.verdict

    def interim(self) -> Verdict:
        """What can be said so far; no verdict, and looking at it costs nothing."""
        return self.verdict or self._conclude("INCONCLUSIVE")

    def _take(self, reading: Reading) -> None:
        question = self.question
        self._differences.append(reading.difference(question.objective))
        self._quads.append(reading.quads("B", "A"))
        self._tails.append(tail_of(reading.pooled("B"), reading.pooled("A")))
        self._plan = None
        outcome = decide(np.array(self._differences), question)
        if outcome is not None:
            self.verdict = self._conclude(outcome)
        elif self._latency_ns is None:
            self._latency_ns = reading.median_ns
            self._refuse_a_tail_out_of_reach()

    def _conclude(self, outcome: VerdictOutcome, why: str = "") -> Verdict:
        tails = self._tails if self.question.objective == "p50" else ()
        return conclude(outcome, np.array(self._differences), self.question, tails=tails, why=why)

    def _draw(self) -> SessionPlan:
        number = len(self._differences) + 1
        objective = self.question.objective
        iterations = planning.block_iterations(self._latency_ns or DEFAULT_HINT_NS, self._sizes)
        quads = max(
            planning.next_quads(self._quads, self._precision, self._sizes), planning.tail_quads(objective, iterations)
        )
        return draw_session(np.random.default_rng((self.question.seed, number)), number, quads, iterations)

    def _refuse_a_tail_out_of_reach(self) -> None:
        """Settles at once when a session that supports the quantile by itself would be too long to ask for."""
        latency_ns, objective = self._latency_ns, self.question.objective
        if latency_ns is None or objective == "p50":
            return
        seconds = planning.session_seconds(
            latency_ns, planning.tail_quads(objective, planning.block_iterations(latency_ns, self._sizes)), setup_s=0.0
        )
        if seconds > self._sizes.longest_session_s:
            self.verdict = self._conclude("INCONCLUSIVE", why=unsupported(objective, seconds))


def draw_session(
    lot: np.random.Generator, number: int, quads: int, iterations: int, arms: tuple[Arm, Arm] = ("A", "B")
) -> SessionPlan:
    """Creation order by a fair coin; of an even number of quads one half begins with either arm, in random order."""
    create = arms if lot.random() < 0.5 else arms[::-1]  # noqa: PLR2004 - a fair coin
    begins = np.arange(quads) % 2
    lot.shuffle(begins)
    blocks: list[tuple[Arm, int]] = []
    for begin in begins:
        outer, inner = arms[int(begin)], arms[1 - int(begin)]
        blocks += [(outer, iterations), (inner, iterations), (inner, iterations), (outer, iterations)]
    return SessionPlan(number=number, create=create, blocks=tuple(blocks))


_OTHER = {"A": "B", "B": "A"}


def _exchange(plan: SessionPlan) -> SessionPlan:
    return msgspec.structs.replace(
        plan,
        create=tuple(_OTHER[arm] for arm in plan.create),
        blocks=tuple((_OTHER[arm], iterations) for arm, iterations in plan.blocks),
    )


def _is_exchanged(plan: SessionPlan, given: list[tuple[Arm, object]]) -> bool:
    try:
        return [arm for arm, _ in given] == [arm for arm, _ in _exchange(plan).blocks]
    except (TypeError, ValueError):
        return False

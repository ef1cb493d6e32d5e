"""When the arms cannot share a process: another EP, driver or runtime build, another target.

Each arm gets a process of its own, with the canary, a frozen model, beside it. Processes come in pairs, one of each arm
in an order drawn by lot, and a pair gives

    d = log(B / canary beside B) - log(A / canary beside A),

from quads of arm and canary as in one process. What the machine does to both models of a process cancels there; the
same sequential test judges the d. The canary has to be of the same kind as the arms: what it does not feel, leaks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml.errors import UsageProblem
from pytest_winml.stats import planning
from pytest_winml.stats.blocks import RawBlocks, Reading, listed, read_session
from pytest_winml.stats.judgement import Question, conclude, decide
from pytest_winml.stats.paired import DEFAULT_HINT_NS, PRECISION, draw_session
from pytest_winml.stats.planning import SIZES, Sizes
from pytest_winml.stats.sign_flip import MOST_SESSIONS, Looks

if TYPE_CHECKING:
    from pytest_winml.records.latency import Alternative, Arm, SessionPlan, Verdict, VerdictOutcome
    from pytest_winml.stats.location import Floats

CANARY: Arm = "canary"


class CanaryPairedTest:
    """Driven like `PairedTest`; a plan creates one arm and the canary, and two plans are one session of the verdict."""

    def __init__(
        self,
        *,
        tolerance: float = 0.10,
        min_effect: float | None = None,
        seed: int = 0,
        alternative: Alternative = "both",
        latency_hint_ns: float | None = None,
        max_sessions: int = MOST_SESSIONS,
        sizes: Sizes = SIZES,
    ) -> None:
        if latency_hint_ns is not None and not 0 < latency_hint_ns < math.inf:
            raise UsageProblem(f"a latency hint of {latency_hint_ns} ns is none")
        self.question = Question(
            looks=Looks.up_to(max_sessions),
            tolerance=tolerance,
            min_effect=tolerance / 2 if min_effect is None else min_effect,
            alternative=alternative,
            route="canary-paired",
            seed=seed,
        )
        self.verdict: Verdict | None = None
        self._sizes = sizes
        self._latency_ns = latency_hint_ns
        self._differences: list[float] = []
        self._half: dict[Arm, Reading] = {}
        self._quads: list[Floats] = []
        self._plan: SessionPlan | None = None

    @property
    def sessions(self) -> int:
        """Pairs of processes taken so far."""
        return len(self._differences)

    @property
    def differences(self) -> tuple[float, ...]:
        return tuple(self._differences)

    def next_session(self) -> SessionPlan:
        """The process to run; the same one until its times were taken. Numbers count processes."""
        if self.verdict is not None:
            raise UsageProblem(f"the test has its verdict, {self.verdict.outcome}: there is no next session")
        if self._plan is None:
            self._plan = self._draw()
        return self._plan

    def add(self, blocks: RawBlocks) -> None:
        plan = self.next_session()
        reading = read_session(plan, listed(plan, blocks))
        arm = _arm_of(plan)
        self._half[arm] = reading
        self._quads.append(reading.quads(arm, CANARY))
        self._latency_ns = self._latency_ns or reading.median_ns
        self._plan = None
        if len(self._half) == 2:  # noqa: PLR2004 - a pair
            of_b = self._half["B"].difference("p50", "B", CANARY)
            of_a = self._half["A"].difference("p50", "A", CANARY)
            self._half = {}
            self._differences.append(of_b - of_a)
            outcome = decide(np.array(self._differences), self.question)
            if outcome is not None:
                self.verdict = self._conclude(outcome)

    def stop(self, why: str) -> Verdict:
        """Settle with what there is, as when a budget runs out."""
        if self.verdict is None:
            self.verdict = self._conclude("INCONCLUSIVE", why=why)
        return self.verdict

    def interim(self) -> Verdict:
        return self.verdict or self._conclude("INCONCLUSIVE")

    def _conclude(self, outcome: VerdictOutcome, why: str = "") -> Verdict:
        return conclude(outcome, np.array(self._differences), self.question, why=why)

    def _draw(self) -> SessionPlan:
        pair = len(self._differences) + 1
        lot = np.random.default_rng((self.question.seed, pair))
        order = ("A", "B") if lot.random() < 0.5 else ("B", "A")  # noqa: PLR2004 - a fair coin
        place = len(self._half)
        arm = order[place]
        quads = planning.next_quads(self._quads, PRECISION * self.question.tolerance, self._sizes)
        iterations = planning.block_iterations(self._latency_ns or DEFAULT_HINT_NS, self._sizes)
        within = np.random.default_rng((self.question.seed, pair, place + 1))
        return draw_session(within, 2 * (pair - 1) + place + 1, quads, iterations, arms=(arm, CANARY))


def _arm_of(plan: SessionPlan) -> Arm:
    return next(arm for arm in plan.create if arm != CANARY)

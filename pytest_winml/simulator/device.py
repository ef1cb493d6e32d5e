"""A device in software: fresh processes with arms in them, blocks of raw nanoseconds, and a clock of its own.

log t = ln(latency) + ln(1 + slowdown of the arm) + arm's own luck in this process
        + elasticity * (day + process + heat + clock state + compilation) + noise of the run

The bracket is what arms in one process share; the canary may feel less of it than the others (`canary_elasticity`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml.errors import UsageProblem
from pytest_winml.simulator.regimes import Regime, regime_named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_winml.records.latency import Arm, SessionPlan

    Floats = NDArray[np.float64]
    Times = NDArray[np.int64]

# Creating and warming one arm. Two arms and 32 blocks of 125 ms are then 10 s a session.
SETUP_S = 3.0
# The first runs after another arm had the device.
_SWITCH = np.log(np.array([1.25, 1.08]))
_SPIKE_SESSION_LEAST = 0.2


class SimulatedDevice:
    """`run` answers a session plan as a device would; `elapsed_s` is the device time all of it took.

    `slowdown` is arm B's, relative to arm A: 0.10 is ten per cent slower. `slowdowns` names others by arm.
    """

    def __init__(
        self,
        regime: Regime | str,
        *,
        seed: int = 0,
        latency_ns: float = 5_000_000,
        slowdown: float = 0.10,
        slowdowns: dict[Arm, float] | None = None,
        canary_latency_ns: float = 2_000_000,
        canary_elasticity: float = 0.85,
        setup_s: float = SETUP_S,
    ) -> None:
        self.regime = regime_named(regime) if isinstance(regime, str) else regime
        self.elapsed_s = 0.0
        self.sessions = 0
        self._random = np.random.default_rng(seed)
        self._slowdowns = {"A": 0.0, "B": slowdown, "canary": 0.0, **(slowdowns or {})}
        self._latency_ns = {"canary": canary_latency_ns}
        self._base_ns = latency_ns
        self._canary_elasticity = canary_elasticity
        self._setup_s = setup_s
        self._day = self._random.normal(0.0, self.regime.day_sd)
        self._heat = self._random.normal(0.0, self.regime.drift_sd)
        self._slow = bool(self._random.random() < 0.5)  # noqa: PLR2004 - a fair coin
        self._switches_in_s = self._dwell_s()

    def new_day(self) -> None:
        """The state of the machine is drawn anew, as between a stored baseline and today."""
        self._day = self._random.normal(0.0, self.regime.day_sd)
        self._heat = self._random.normal(0.0, self.regime.drift_sd)

    def rest(self, seconds: float) -> None:
        """Nothing runs; heat and clock go their way."""
        self._pass(seconds)

    def run(self, plan: SessionPlan) -> list[tuple[Arm, Times]]:
        """One fresh process. Blocks of the plan, in its order, as arrays of whole nanoseconds."""
        unknown = {arm for arm, _ in plan.blocks} - set(plan.create)
        if unknown:
            raise UsageProblem(
                f"session {plan.number} has blocks of {', '.join(sorted(unknown))}, which it does not create"
            )
        self.sessions += 1
        self._pass(self._setup_s * len(plan.create))
        process = self._process_effect()
        own = {arm: self._arm_effect(arm) for arm in plan.create}
        counts = np.array([iterations for _, iterations in plan.blocks])
        elasticity = np.array([self._canary_elasticity if arm == "canary" else 1.0 for arm, _ in plan.blocks])
        alone = np.repeat([own[arm] for arm, _ in plan.blocks], counts) + self._iteration_effect(int(counts.sum()))
        alone += self._switch_effect(counts)
        shared = process + self._day + self._weather(np.exp(alone), counts)
        times = np.exp(alone + np.repeat(elasticity, counts) * shared)
        rounded = np.maximum(np.rint(times), 1.0).astype(np.int64)
        self.elapsed_s += float(rounded.sum()) / 1e9
        parts = np.split(rounded, np.cumsum(counts)[:-1])
        return [(arm, part) for (arm, _), part in zip(plan.blocks, parts, strict=True)]

    # Drawn once a process.

    def _process_effect(self) -> float:
        regime, random = self.regime, self._random
        effect = random.normal(0.0, regime.session_sd)
        if random.random() < regime.spike_session_share:
            effect += _SPIKE_SESSION_LEAST + random.exponential(regime.spike_session_mean)
        share, height = regime.host_modes
        if random.random() < share:
            effect += height
        return float(effect)

    def _arm_effect(self, arm: Arm) -> float:
        regime, random = self.regime, self._random
        base = math.log(self._latency_ns.get(arm, self._base_ns)) + math.log1p(self._slowdowns.get(arm, 0.0))
        effect = base + random.normal(0.0, regime.arm_sd)
        share, height = regime.badly_placed
        if random.random() < share:
            effect += height
        return float(effect)

    # Drawn every run.

    def _iteration_effect(self, count: int) -> Floats:
        regime, random = self.regime, self._random
        if regime.lognormal_cv:
            variance = math.log1p(regime.lognormal_cv**2)
            return random.normal(-variance / 2, math.sqrt(variance), count)
        noise = random.normal(0.0, regime.iteration_sd, count)
        share, height = regime.spikes
        if share:
            hit = random.random(count) < share
            noise[hit] += np.log1p(random.exponential(height, int(hit.sum())))
        return noise

    def _switch_effect(self, counts: NDArray[np.int64]) -> Floats:
        effect = np.zeros(int(counts.sum()))
        starts = np.cumsum(counts) - counts
        for offset, height in enumerate(_SWITCH):
            effect[(starts + offset)[counts > offset]] = height
        return effect

    # What time does.

    def _weather(self, nominal_ns: Floats, counts: NDArray[np.int64]) -> Floats:
        """Heat, clock state and compilation for every run. They do not feed back into how long the session takes."""
        regime = self.regime
        ends_s = np.cumsum(nominal_ns) / 1e9
        duration_s = float(ends_s[-1])
        effect = np.zeros(nominal_ns.size)
        height, falls_s = regime.first_session
        if height and self.sessions == 1:
            effect += height * np.exp(-ends_s / falls_s)
        if regime.drift_sd:
            last = np.cumsum(counts) - 1
            edges_s = np.concatenate(([0.0], ends_s[last]))
            effect += np.interp(ends_s, edges_s, self._heat_at(np.diff(edges_s)))
        if regime.slow_clock:
            effect += regime.slow_clock * self._slow_at(ends_s, duration_s)
        return effect

    def _heat_at(self, gaps_s: Floats) -> Floats:
        kept = np.exp(-gaps_s / self.regime.drift_tau_s)
        pushes = self.regime.drift_sd * np.sqrt(1 - kept**2) * self._random.standard_normal(gaps_s.size)
        heat = [self._heat]
        for keep, push in zip(kept.tolist(), pushes.tolist(), strict=True):
            heat.append(heat[-1] * keep + push)
        self._heat = heat[-1]
        return np.array(heat)

    def _slow_at(self, ends_s: Floats, duration_s: float) -> Floats:
        flips: list[float] = []
        at_s = self._switches_in_s
        while at_s < duration_s:
            flips.append(at_s)
            at_s += self._dwell_s()
        self._switches_in_s = at_s - duration_s
        state = (np.searchsorted(flips, ends_s) + self._slow) % 2
        self._slow = bool((len(flips) + self._slow) % 2)
        slow: Floats = state.astype(np.float64)
        return slow

    def _pass(self, seconds: float) -> None:
        """Time in which nothing is measured."""
        self.elapsed_s += seconds
        if self.regime.drift_sd:
            self._heat_at(np.array([seconds]))
        if self.regime.slow_clock:
            self._slow_at(np.zeros(0), seconds)

    def _dwell_s(self) -> float:
        return float(self._random.exponential(self.regime.clock_dwell_s))

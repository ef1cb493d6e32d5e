"""What timing leaves behind: raw nanoseconds, and what was concluded from them.

Schema versions of what is kept between runs (`LATENCY_SCHEMA`):
1  first: blocks of raw times by arm, in the order they ran.
"""

from __future__ import annotations

import math
from typing import Literal

from pytest_winml.errors import InvalidSamples
from pytest_winml.records.base import Record

LATENCY_SCHEMA = 1

Arm = str  # "A" is the baseline, "B" the candidate, "canary" the frozen model that neither of them is
Objective = Literal["p50", "p90", "p99"]
Alternative = Literal["slower", "both"]
Route = Literal["co-resident", "canary-paired", "stored"]
VerdictOutcome = Literal["IMPROVED", "REGRESSED", "EQUIVALENT", "INCONCLUSIVE", "NO_BASELINE", "NOT_COMPARABLE"]

_NS_PER_MS = 1_000_000
# Fewest samples that support a quantile, for autocorrelated samples: MLPerf LoadGen's bounds at 95 % confidence.
FEWEST_FOR = {0.90: 46, 0.99: 473}


class Samples(Record, frozen=True, kw_only=True):
    """Raw times in the order they were taken. Never empty, never zero or below."""

    times_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.times_ns:
            raise InvalidSamples("there is not one sample")
        if min(self.times_ns) <= 0:
            raise InvalidSamples(f"a time of {min(self.times_ns)} ns is none: the clock went backwards or stood still")

    def quantile_ns(self, share: float) -> float:
        """Interpolated between the neighbours, so that the median of 1 and 3 is 2."""
        ordered = sorted(self.times_ns)
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = math.ceil(place)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


class Latency(Record, frozen=True, kw_only=True):
    """One case, timed: the samples of each fresh process. A quantile that the samples do not support is None."""

    sessions: tuple[Samples, ...]

    @property
    def samples(self) -> Samples:
        return Samples(times_ns=tuple(time for session in self.sessions for time in session.times_ns))

    @property
    def p50_ms(self) -> float:
        return self.samples.quantile_ns(0.5) / _NS_PER_MS

    @property
    def p90_ms(self) -> float | None:
        return self._supported_ms(0.90)

    @property
    def p99_ms(self) -> float | None:
        return self._supported_ms(0.99)

    def _supported_ms(self, share: float) -> float | None:
        samples = self.samples
        return samples.quantile_ns(share) / _NS_PER_MS if len(samples.times_ns) >= FEWEST_FOR[share] else None


class Block(Record, frozen=True, kw_only=True):
    """Consecutive inferences of one arm."""

    arm: Arm
    times_ns: tuple[int, ...]


class SessionPlan(Record, frozen=True, kw_only=True):
    """One fresh session to run: which arm to create first, and the blocks, as (arm, iterations), in order."""

    number: int
    create: tuple[Arm, ...]
    blocks: tuple[tuple[Arm, int], ...]


class Verdict(Record, frozen=True, kw_only=True):
    """`effect` is the candidate's relative change: +0.10 is ten per cent slower. `mde`: what would have been found.

    `interval` is the 90 % interval of the effect that belongs to the sequential test. What cannot be said is None.
    """

    outcome: VerdictOutcome
    effect: float | None = None
    interval: tuple[float, float] | None = None
    sessions: int = 0
    mde: float | None = None
    reasons: tuple[str, ...] = ()
    objective: Objective = "p50"
    route: Route = "co-resident"
    p_value: float | None = None
    seed: int | None = None
    p90_effect: float | None = None  # the tail's relative change, beside a verdict about the median
    spread_effect: float | None = None  # growth of the way from the median to the 90th percentile

"""How much to run: iterations of a block, quads of a session, and what that will be able to see.

A quad is four blocks, A B B A or B A A B; what drifts in a straight line across it cancels. All decisions here may use
how much quads of one session scatter, and never which arm was slower: flipping the labels of a session must not change
what is run next, or the test would no longer be exact.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml.records.base import Record
from pytest_winml.records.latency import FEWEST_FOR, Objective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.stats.location import Floats

SHARE_OF: dict[Objective, float] = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
# How much wider a quantile scatters than the trimmed mean of as many values, on log-normal times:
# sqrt(p (1 - p)) / density at the quantile, over 1.06.
SPREAD_OF: dict[Objective, float] = {"p50": 1.0, "p90": 1.6, "p99": 3.5}


class Sizes(Record, frozen=True, kw_only=True):
    """Limits of a session."""

    block_ns: float = 125e6  # long enough to be in the steady state, short enough for drift to cancel in a quad
    fewest_iterations: int = 10
    most_iterations: int = 10_000  # of a model of 12 microseconds and less: what a block costs in memory
    longest_block_ns: float = 2e9  # a model this slow gets fewer iterations than the fewest, but never
    least_iterations: int = 5  # fewer than these
    first_quads: int = 8
    pilot_sessions: int = 1  # sessions with the first number of quads, before their scatter is trusted
    fewest_quads: int = 4
    most_quads: int = 20
    longest_session_s: float = 300.0  # of timed blocks; beyond it a tail cannot be asked for


SIZES = Sizes()


def block_iterations(latency_ns: float, sizes: Sizes = SIZES) -> int:
    """By time: about 125 ms a block, whatever the model."""
    wanted = round(sizes.block_ns / latency_ns)
    count = min(max(wanted, sizes.fewest_iterations), sizes.most_iterations)
    if count * latency_ns > sizes.longest_block_ns and count <= sizes.fewest_iterations:
        count = max(int(sizes.longest_block_ns / latency_ns), sizes.least_iterations)
    return count


def dropped(iterations: int) -> int:
    """Iterations at the beginning of a block that still feel the switch between the arms."""
    return 2 if iterations >= SIZES.fewest_iterations else 1


def tail_quads(objective: Objective, iterations: int) -> int:
    """Quads with which one session supports the quantile by itself; 0 for the median, which asks for nothing."""
    fewest = FEWEST_FOR.get(SHARE_OF[objective], 0)
    quads = math.ceil(fewest / (2 * (iterations - dropped(iterations))))
    return quads + quads % 2


def quad_sd(sessions: Sequence[Floats]) -> float | None:
    """Scatter of quads around the middle of their own session, from all sessions, robustly.

    1.4826 * median |q - median of its session|, and sqrt(K / (K - 1)) for having fitted that median to K quads.
    """
    if not sessions:
        return None
    rest = [np.abs(quads - np.median(quads)) * math.sqrt(quads.size / (quads.size - 1)) for quads in sessions]
    return 1.4826 * float(np.median(np.concatenate(rest)))


def quads_wanted(sd: float, precision: float, sizes: Sizes = SIZES) -> int:
    """As many as bring the error inside a session down to `precision`:  K = (sd / precision)^2, even, within limits."""
    wanted = math.ceil((sd / precision) ** 2)
    wanted += wanted % 2  # as many A B B A as B A A B
    return min(max(wanted, sizes.fewest_quads), sizes.most_quads)


def next_quads(sessions: Sequence[Floats], precision: float, sizes: Sizes = SIZES) -> int:
    """Quads of the next session, by how much the quads of the sessions so far scatter."""
    sd = quad_sd(sessions)
    if sd is None or len(sessions) < sizes.pilot_sessions:
        return sizes.first_quads
    return quads_wanted(sd, precision, sizes)


# What n sessions can see.

_BISECTIONS = 80


def student_cdf(value: float, freedom: int) -> float:
    """Student's t for whole degrees of freedom n, by its finite series in cos(theta), theta = atan(t / sqrt(n))."""
    theta = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(theta), math.sin(theta)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    between = 2 / math.pi * (theta + sine * total) if odd else sine * total
    return 0.5 + between / 2


@cache
def student_quantile(share: float, freedom: int) -> float:
    low, high = 0.0, 1e4
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < share else (low, middle)
    return low


def detectable(sd: float, sessions: int, *, alpha: float = 0.05, power: float = 0.80) -> float | None:
    """The relative slowdown found with probability `power` by so many sessions that scatter by `sd`.

    MDE = exp((t_(1-alpha, S-1) + t_(power, S-1)) * sd / sqrt(S)) - 1.  None for a single session.
    """
    if sessions < 2:  # noqa: PLR2004 - one session has no scatter
        return None
    quantiles = student_quantile(1 - alpha, sessions - 1) + student_quantile(power, sessions - 1)
    return math.expm1(quantiles * sd / math.sqrt(sessions))


class Noise(Record, frozen=True, kw_only=True):
    """What is expected before anything ran: scatter between sessions of what the arms do not share, and of quads."""

    session_sd: float = 0.02
    quad_sd: float = 0.03

    def difference_sd(self, quads: int) -> float:
        return math.hypot(self.session_sd, self.quad_sd / math.sqrt(quads))


def session_seconds(latency_ns: float, quads: int, *, setup_s: float, sizes: Sizes = SIZES) -> float:
    """One session: setting up both arms, then four blocks a quad."""
    return setup_s + 4 * quads * block_iterations(latency_ns, sizes) * latency_ns / 1e9


def predicted_mde(sessions: int, *, noise: Noise, quads: int = SIZES.fewest_quads) -> float | None:
    return detectable(noise.difference_sd(quads), sessions)


def sessions_within(
    budget_s: float, latency_ns: float, *, setup_s: float, quads: int = SIZES.fewest_quads, sizes: Sizes = SIZES
) -> int:
    """Whole sessions that fit a time budget."""
    return int(budget_s / session_seconds(latency_ns, quads, setup_s=setup_s, sizes=sizes))


def predicted_mde_within(
    budget_s: float, latency_ns: float, *, noise: Noise, setup_s: float, quads: int = SIZES.fewest_quads
) -> float | None:
    """What a time budget can see at best; None when it does not pay for two sessions."""
    return predicted_mde(sessions_within(budget_s, latency_ns, setup_s=setup_s, quads=quads), noise=noise, quads=quads)

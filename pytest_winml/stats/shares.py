"""What a count of hits says about the rate behind it: exact bounds, after Clopper and Pearson.

With k hits in n trials and X binomial of n and p,

    upper bound: the p with  P(X <= k) = 1 - confidence        lower bound: the p with  P(X >= k) = 1 - confidence

Each is one-sided: it is wrong in at most 1 - confidence of the cases, whatever the rate and however few the trials.
"""

from __future__ import annotations

import math

CONFIDENCE = 0.95
_BISECTIONS = 50


def at_most(hits: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The rate is below this."""
    if hits >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most_hits(hits, trials, middle) > 1 - confidence else (low, middle)
    return high


def at_least(hits: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The rate is above this. Misses are hits of the opposite."""
    return 1 - at_most(trials - hits, trials, confidence) if hits > 0 else 0.0


def _at_most_hits(hits: int, trials: int, rate: float) -> float:
    """P(X <= hits), in logarithms: the coefficients of a thousand trials do not fit a float."""
    hit, miss = math.log(rate), math.log1p(-rate)
    return math.fsum(
        math.exp(_log_choose(trials, count) + count * hit + (trials - count) * miss) for count in range(hits + 1)
    )


def _log_choose(trials: int, count: int) -> float:
    return math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)

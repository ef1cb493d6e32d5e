"""Against figures of another day, when the baseline's artifact cannot be run again.

Milliseconds of another day are worth little: the machine was warmer, the driver older. What is kept is, for each
session, y = log latency of the model less that of the canary, a frozen model in the same process that feels the
machine as it does. With y of n0 stored and n1 new sessions,

    effect = median(new) - median(stored),

and p is the share of all ways to split the n0 + n1 values into groups of these sizes (all of them when there are few,
else 1,999 drawn from the seed, and the one that happened) whose effect is at least as large.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml import units
from pytest_winml.errors import InvalidSamples
from pytest_winml.records.latency import Verdict, VerdictOutcome
from pytest_winml.stats.planning import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_winml.records.latency import Alternative
    from pytest_winml.stats.location import Floats

SPLITS = 2_000
ALPHA = 0.05
FEWEST_SESSIONS = 4  # on either side: of the 70 ways to split 4 and 4 the most extreme one is rarer than 5 %
_POWER = 0.80
_ROUNDING = 1e-12
# The median of n normal values scatters by sqrt(pi / 2) of their mean's error.
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


def compare_stored(
    stored: Sequence[float],
    new: Sequence[float],
    *,
    tolerance: float = 0.10,
    min_effect: float | None = None,
    alternative: Alternative = "slower",
    seed: int = 0,
) -> Verdict:
    """`stored` and `new`: log(model / canary) of each session. The verdict's route is "stored"."""
    baseline, candidate = _checked(stored, "stored"), _checked(new, "new")
    least = math.log1p(tolerance / 2 if min_effect is None else min_effect)
    limit = math.log1p(tolerance)
    effect = float(np.median(candidate) - np.median(baseline))
    sessions = candidate.size
    if min(baseline.size, candidate.size) < FEWEST_SESSIONS:
        few = f"{units.count(baseline.size, 'stored session')} and {sessions} new ones can carry no verdict."
        return Verdict(
            outcome="INCONCLUSIVE",
            effect=math.expm1(effect),
            sessions=sessions,
            reasons=(few,),
            route="stored",
            seed=seed,
        )

    def slower_than(shift: float) -> float:
        return split_p_value(baseline, candidate - shift, seed)

    def faster_than(shift: float) -> float:
        return split_p_value(candidate - shift, baseline, seed)

    outcome: VerdictOutcome = "INCONCLUSIVE"
    if effect >= least and slower_than(0.0) <= ALPHA:
        outcome = "REGRESSED"
    elif effect <= -least and faster_than(0.0) <= ALPHA:
        outcome = "IMPROVED"
    elif (
        effect < least
        and faster_than(limit) <= ALPHA
        and (alternative == "slower" or _not_faster(effect, least, slower_than(-limit)))
    ):
        outcome = "EQUIVALENT"
    return Verdict(
        outcome=outcome,
        effect=math.expm1(effect),
        interval=_interval(baseline, candidate, seed),
        sessions=sessions,
        mde=_detectable(baseline, candidate),
        reasons=(
            f"compared with {units.count(baseline.size, 'stored session')}, each relative to its own process's canary.",
        ),
        route="stored",
        p_value=slower_than(0.0) if effect >= 0 else faster_than(0.0),
        seed=seed,
    )


def _not_faster(effect: float, least: float, p_value: float) -> bool:
    return effect > -least and p_value <= ALPHA


def split_p_value(lower: Floats, higher: Floats, seed: int = 0) -> float:
    """How rarely chance alone puts the median of the second group so far above that of the first."""
    values = np.concatenate((lower, higher))
    observed = float(np.median(higher) - np.median(lower))
    splits, complete = _splits(lower.size, higher.size, seed)
    shuffled = values[splits]
    effects = _medians(shuffled[:, lower.size :]) - _medians(shuffled[:, : lower.size])
    as_large = int(np.count_nonzero(effects >= observed - _ROUNDING * max(1.0, abs(observed))))
    return as_large / len(splits) if complete else (as_large + 1) / (len(splits) + 1)


def _medians(rows: Floats) -> Floats:
    ordered = np.sort(rows, axis=1)
    upper = rows.shape[1] // 2
    middles: Floats = ordered[:, upper] if rows.shape[1] % 2 else (ordered[:, upper - 1] + ordered[:, upper]) / 2
    return middles


@lru_cache(maxsize=8)
def _splits(first: int, second: int, seed: int) -> tuple[NDArray[np.intp], bool]:
    """Places of the values, the first group's in front; and whether these are all ways there are."""
    total = first + second
    if math.comb(total, first) <= SPLITS:
        chosen = [[*group, *sorted(set(range(total)) - set(group))] for group in combinations(range(total), first)]
        return np.array(chosen, dtype=np.intp), True
    lot = np.random.default_rng((seed, first, second))
    return np.argsort(lot.random((SPLITS - 1, total)), axis=1), False


_STEPS = 14


def _interval(baseline: Floats, candidate: Floats, seed: int) -> tuple[float, float]:
    """Every shift that is not rejected, 5 % a side, by bisection; bounded by the extreme differences."""
    least, most = float(candidate.min() - baseline.max()), float(candidate.max() - baseline.min())

    def end(low: float, high: float, *, upper: bool) -> float:
        """`low` is rejected, `high` is not."""
        for _ in range(_STEPS):
            middle = (low + high) / 2
            moved = candidate - middle
            p = split_p_value(moved, baseline, seed) if upper else split_p_value(baseline, moved, seed)
            low, high = (middle, high) if p <= ALPHA else (low, middle)
        return low

    centre = float(np.median(candidate) - np.median(baseline))
    return math.expm1(end(least, centre, upper=False)), math.expm1(end(most, centre, upper=True))


def _detectable(baseline: Floats, candidate: Floats) -> float:
    """As for paired sessions, with the error of a difference of two medians."""
    freedom = baseline.size + candidate.size - 2
    squares = float(((baseline - baseline.mean()) ** 2).sum() + ((candidate - candidate.mean()) ** 2).sum())
    error = _MEDIAN_ERROR * math.sqrt(squares / freedom * (1 / baseline.size + 1 / candidate.size))
    return math.expm1((student_quantile(1 - ALPHA, freedom) + student_quantile(_POWER, freedom)) * error)


def _checked(values: Sequence[float], which: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not array.size:
        raise InvalidSamples(f"there is not one {which} session to compare")
    if not bool(np.isfinite(array).all()):
        raise InvalidSamples(f"a {which} session's log ratio is not a finite number")
    return array

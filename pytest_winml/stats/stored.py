"""Against figures of another day, when the baseline's artifact cannot be run again.

Milliseconds of another day are worth little: the machine was warmer, the driver older. What is kept is, for each
session, y = log latency of the model less that of the canary, a frozen model in the same process that feels the
machine as it does. With y of n0 stored and n1 new sessions,

    effect = median over i, j of (new_j - stored_i),      W = sum of the ranks of the new ones among all,

and p is the share of all ways to split the n0 + n1 values into groups of these sizes (all of them when there are few,
else 1,999 drawn from the seed, and the one that happened) whose W is at least as large. A difference of the two medians
would not do for W: with the groups wholly apart, a split that exchanges a few values still has nearly the same medians,
so that p stays large.

No canary feels the machine exactly as the model does. Of what two days differ, some is left over in y, the same in all
sessions of a day, and no number of sessions averages it away. So nothing within `LEAK` counts as certain.
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
from pytest_winml.stats.location import Floats, median
from pytest_winml.stats.planning import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_winml.records.latency import Alternative

SPLITS = 2_000
# In log latency: a canary that feels 85 % of the machine, and two days that are 12 % apart, leave 0.018 over.
LEAK = 0.01
ALPHA = 0.05
FEWEST_SESSIONS = 4  # on either side: of the 70 ways to split 4 and 4 the most extreme one is rarer than 5 %
_POWER = 0.80
_ROUNDING = 1e-9
# On normal values the median of differences scatters by sqrt(pi / 3) of the error of the means' difference.
_SHIFT_ERROR = math.sqrt(math.pi / 3)


def compare_stored(
    stored: Sequence[float] | Floats,
    new: Sequence[float] | Floats,
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
    effect = shift_between(baseline, candidate)
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

    def outcome() -> VerdictOutcome:
        if effect >= least and slower_than(LEAK) <= ALPHA:
            return "REGRESSED"
        if effect <= -least and faster_than(-LEAK) <= ALPHA:
            return "IMPROVED"
        both = alternative == "both"
        small = (abs(effect) if both else effect) < least
        excluded = small and faster_than(limit - LEAK) <= ALPHA and (not both or slower_than(LEAK - limit) <= ALPHA)
        return "EQUIVALENT" if excluded else "INCONCLUSIVE"

    return Verdict(
        outcome=outcome(),
        effect=math.expm1(effect),
        interval=_interval(baseline, candidate, seed),
        sessions=sessions,
        mde=_detectable(baseline, candidate),
        reasons=(
            f"compared with {units.count(baseline.size, 'stored session')}, each relative to its own process's canary.",
        ),
        route="stored",
        p_value=slower_than(LEAK) if effect >= 0 else faster_than(-LEAK),
        seed=seed,
    )


def shift_between(lower: Floats, higher: Floats) -> float:
    """Hodges and Lehmann's shift: the median of all differences."""
    return median(np.subtract.outer(higher, lower).ravel())


def split_p_value(lower: Floats, higher: Floats, seed: int = 0) -> float:
    """How rarely chance alone ranks the second group so high among both."""
    ranks = _ranks(np.concatenate((lower, higher)))
    observed = float(ranks[lower.size :].sum())
    splits, complete = _splits(lower.size, higher.size, seed)
    sums = ranks[splits[:, lower.size :]].sum(axis=1)
    as_large = int(np.count_nonzero(sums >= observed - _ROUNDING))
    return as_large / len(splits) if complete else (as_large + 1) / (len(splits) + 1)


def _ranks(values: Floats) -> Floats:
    """1 for the smallest; equal values share the middle of their ranks."""
    below = np.searchsorted(np.sort(values), values, side="left")
    up_to = np.searchsorted(np.sort(values), values, side="right")
    ranks: Floats = (below + up_to + 1) / 2
    return ranks


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
    """Every shift that is not rejected, 5 % a side, by bisection between the extreme differences; and the leak."""
    least, most = float(candidate.min() - baseline.max()), float(candidate.max() - baseline.min())

    def end(low: float, high: float, *, upper: bool) -> float:
        """`low` is rejected, `high` is not."""
        for _ in range(_STEPS):
            middle = (low + high) / 2
            moved = candidate - middle
            p = split_p_value(moved, baseline, seed) if upper else split_p_value(baseline, moved, seed)
            low, high = (middle, high) if p <= ALPHA else (low, middle)
        return low

    centre = shift_between(baseline, candidate)
    return math.expm1(end(least, centre, upper=False) - LEAK), math.expm1(end(most, centre, upper=True) + LEAK)


def _detectable(baseline: Floats, candidate: Floats) -> float:
    """As for paired sessions, with the error of a shift between two groups."""
    freedom = baseline.size + candidate.size - 2
    squares = float(((baseline - baseline.mean()) ** 2).sum() + ((candidate - candidate.mean()) ** 2).sum())
    error = _SHIFT_ERROR * math.sqrt(squares / freedom * (1 / baseline.size + 1 / candidate.size))
    return math.expm1((student_quantile(1 - ALPHA, freedom) + student_quantile(_POWER, freedom)) * error)


def _checked(values: Sequence[float] | Floats, which: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not array.size:
        raise InvalidSamples(f"there is not one {which} session to compare")
    if not bool(np.isfinite(array).all()):
        raise InvalidSamples(f"a {which} session's log ratio is not a finite number")
    return array

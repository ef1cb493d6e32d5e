"""An exact test that may look at the data several times.

Notation. d_1, d_2, ... are differences of log latency, one a session, candidate minus baseline. The hypothesis is that
the candidate is not slower by more than a shift c: under it the sign of d_i - c is at most a fair coin, whatever the
distribution of the noise, because which arm went first was drawn by lot.

One look at S sessions.  x_i = d_i - c,  w_i = min(|x_i|, 2 * median |x|),  T = sum sign(x_i) w_i.
Given the w_i, each of the 2^S sign vectors e is equally likely, and has T(e) = sum e_i w_i. So "T is among the largest
a * 2^S of all T(e)" has probability at most a. The cap keeps one wild session from deciding; it does not see signs, so
exactness stays.

Several looks.  By look S the share  a(S) = a * ln(1 + (e - 1) * S / S_max)  of all sign vectors may be rejected. A
vector whose beginning was rejected at an earlier look stays rejected; of the others, those with the largest T follow
until the share is used up, ties all or none. Over the whole sequence at most a share `a` is rejected: peeking is free.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_winml.errors import UsageProblem
from pytest_winml.records.base import Record
from pytest_winml.stats.location import Floats, median

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_SESSIONS = 16  # 2^16 sign vectors are walked in a millisecond; more would need drawing instead of counting
FEWEST_SESSIONS = 6  # below this no sign vector is rare enough to be rejected at the first look
_CAP = 2.0
_ROUNDING = 1e-12
_PRESELECT_SD = 1.2  # 11 % of the vectors lie above, always more than may be rejected unless there are very few


class Looks(Record, frozen=True, kw_only=True):
    """When the data are looked at, in sessions, and how much error all looks together may make on one side."""

    at: tuple[int, ...]
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not self.at or any(later <= earlier for earlier, later in pairwise(self.at)):
            raise UsageProblem(f"looks {self.at} do not increase")
        if not 1 <= self.at[0] <= self.at[-1] <= MOST_SESSIONS:
            raise UsageProblem(f"looks {self.at} are not within 1 to {MOST_SESSIONS} sessions")

    @classmethod
    def up_to(cls, most: int, *, first: int = FEWEST_SESSIONS, alpha: float = 0.05) -> Looks:
        """Every session from the first that can decide; with fewer than that, one look that cannot."""
        return cls(at=tuple(range(min(first, most), most + 1)), alpha=alpha)

    def spent(self, sessions: int) -> float:
        """The share of sign vectors that may be rejected by this look."""
        return self.alpha * math.log1p((math.e - 1) * sessions / self.at[-1])

    def vectors(self, sessions: int) -> int:
        """The same as a number of sign vectors."""
        return math.floor(self.spent(sessions) * (1 << sessions) + _ROUNDING)


class Walk(NamedTuple):
    """`rejected_at`: the sessions of the look that rejected, None if none did. `p_value` orders looks before sizes."""

    rejected_at: int | None
    p_value: float


def scores(deviations: Floats) -> Floats:
    sizes = np.abs(deviations)
    capped: Floats = np.minimum(sizes, _CAP * median(sizes))
    return capped


@cache
def _signs(sessions: int) -> Floats:
    """All sign vectors as rows; the first session's sign is the highest bit of the row's number, 0 for plus."""
    bits = np.arange(1 << sessions)[:, None] >> np.arange(sessions - 1, -1, -1) & 1
    return 1.0 - 2.0 * bits.astype(np.float64)


def all_sums(weights: Floats) -> Floats:
    """T(e) of all 2^S sign vectors, in the order of `_signs`: every sum of a first half with every one of a second."""
    half = weights.size // 2
    first, second = _signs(half) @ weights[:half], _signs(weights.size - half) @ weights[half:]
    sums: Floats = np.add.outer(first, second).ravel()
    return sums


def _place(deviations: Floats) -> int:
    """Where the observed signs stand in `all_sums`. A zero weighs nothing, so its sign is free."""
    place = 0
    for negative in (deviations < 0).tolist():
        place = 2 * place + negative
    return place


def _threshold(sums: Floats, allowed: int, spread: float) -> float:
    """The largest T that may no longer be rejected: what is strictly above are at most `allowed`."""
    upper = sums[sums > _PRESELECT_SD * spread]
    pool = upper if upper.size > allowed else sums
    return float(np.partition(pool, pool.size - allowed - 1)[pool.size - allowed - 1])


def walk(differences: Floats, looks: Looks, *, shift: float = 0.0) -> Walk:
    """Is the candidate slower by more than `shift`? Looks at every look that the number of sessions reaches."""
    deviations = differences - shift
    rejected: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
    before = 0
    p_value = 1.0
    for sessions in looks.at:
        if sessions > deviations.size:
            break
        seen = deviations[:sessions]
        weights = scores(seen)
        sums = all_sums(weights)
        rejected = np.repeat(rejected, 2 ** (sessions - before))
        before = sessions
        spent = int(np.count_nonzero(rejected))
        sums[rejected] = -np.inf
        place = _place(seen)
        slack = _ROUNDING * float(weights.sum())
        p_value = (spent + int(np.count_nonzero(sums >= sums[place] - slack))) / sums.size
        allowed = looks.vectors(sessions) - spent
        if allowed <= 0:
            continue
        limit = _threshold(sums, allowed, math.sqrt(float(weights @ weights)))
        if sums[place] > limit + slack:
            return Walk(sessions, p_value)
        rejected |= sums > limit + slack
    return Walk(None, p_value)


def fixed_p_value(differences: Floats) -> float:
    """One look only: the share of sign vectors with a sum at least as large as the observed one. Never zero."""
    if differences.size > MOST_SESSIONS:
        raise UsageProblem(f"{differences.size} sessions are more than the {MOST_SESSIONS} whose signs are counted")
    weights = scores(differences)
    sums = all_sums(weights)
    slack = _ROUNDING * float(weights.sum())
    return float(np.count_nonzero(sums >= sums[_place(differences)] - slack)) / sums.size

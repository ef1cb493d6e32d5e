"""What a median does not say: whether the slow runs became slower, and whether times scatter more than before.

The 90th percentile of an arm, less that of the other, gives one difference a session, tested by one look of the
sign-flip test at 5 %. It changes no outcome; a better median with a worse tail says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_winml import units
from pytest_winml.records.base import Record
from pytest_winml.records.latency import FEWEST_FOR
from pytest_winml.stats.location import Floats, hodges_lehmann
from pytest_winml.stats.sign_flip import fixed_p_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.latency import Objective, VerdictOutcome

ALPHA = 0.05
_P50, _P90 = 0.50, 0.90


class Tail(Record, frozen=True, kw_only=True):
    """One session: log differences of the 90th percentile, and of the way from the median to it; None: too few."""

    p90: float | None = None
    spread: float | None = None


def tail_of(candidate: Floats, baseline: Floats) -> Tail:
    """From the pooled log times of each arm. Times that do not scatter at all have no spread to compare."""
    if min(candidate.size, baseline.size) < FEWEST_FOR[_P90]:
        return Tail()
    median_c, p90_c = np.quantile(candidate, (_P50, _P90))
    median_b, p90_b = np.quantile(baseline, (_P50, _P90))
    widths = float(p90_c - median_c), float(p90_b - median_b)
    spread = math.log(widths[0] / widths[1]) if min(widths) > 0 else None
    return Tail(p90=float(p90_c - p90_b), spread=spread)


def p90_effect(tails: Sequence[Tail]) -> float | None:
    values = _known([tail.p90 for tail in tails])
    return math.expm1(hodges_lehmann(values)) if values is not None else None


def spread_effect(tails: Sequence[Tail]) -> float | None:
    """By how much the way from the median to the 90th percentile grew."""
    values = _known([tail.spread for tail in tails])
    return math.expm1(hodges_lehmann(values)) if values is not None else None


def tail_reasons(tails: Sequence[Tail], outcome: VerdictOutcome, min_effect: float) -> tuple[str, ...]:
    """Sentences for a tail that moved otherwise than the verdict says: worse under a good one, better under a bad."""
    values = _known([tail.p90 for tail in tails])
    effect = p90_effect(tails)
    if values is None or effect is None:
        return ()
    sure_worse = fixed_p_value(values) <= ALPHA and effect >= min_effect
    sure_better = fixed_p_value(-values) <= ALPHA and math.log1p(effect) <= -math.log1p(min_effect)
    wider = spread_effect(tails)
    if sure_worse and outcome in {"IMPROVED", "EQUIVALENT"}:
        scatter = f", times scatter {units.percent(wider)} more" if wider is not None and wider > min_effect else ""
        better = "is better" if outcome == "IMPROVED" else "holds"
        return (f"the median {better}, but the tail is worse: p90 is {units.percent(effect)} slower{scatter}.",)
    if sure_better and outcome in {"REGRESSED", "EQUIVALENT"}:
        worse = "is worse" if outcome == "REGRESSED" else "holds"
        return (f"the median {worse}, but the tail is better: p90 is {units.percent(-effect)} faster.",)
    return ()


def unsupported(objective: Objective, seconds: float) -> str:
    """The sentence of a verdict that is refused because samples cannot reach so far into the tail."""
    share = {"p90": _P90, "p99": 0.99}[objective]
    return (
        f"no verdict about {objective}: it needs {FEWEST_FOR[share]} samples of each arm in a session, "
        f"and this model would run {units.seconds(seconds)} for them."
    )


def _known(values: Sequence[float | None]) -> Floats | None:
    if not values or any(value is None for value in values):
        return None
    return np.array(values, dtype=np.float64)

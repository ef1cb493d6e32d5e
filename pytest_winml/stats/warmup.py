"""When an arm has settled: the rule of the warm-up, as a function of the times it has run so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_winml.records.base import Record
from pytest_winml.stats.location import median

if TYPE_CHECKING:
    from collections.abc import Sequence

_NS_PER_S = 1e9


class Warmup(Record, frozen=True, kw_only=True):
    """At least so many runs and so long, until two neighbouring windows agree; never longer than the cap."""

    fewest_iterations: int = 10
    least_s: float = 1.0
    window: int = 10
    agree_within: float = 0.02
    cap_s: float = 5.0


class WarmupState(Record, frozen=True, kw_only=True):
    """`done`: stop warming. `converged`: because it had settled, and not because time was up."""

    done: bool
    converged: bool
    iterations: int
    spent_s: float


WARMUP = Warmup()


def warmup_state(times_ns: Sequence[int], rule: Warmup = WARMUP) -> WarmupState:
    """|median(last window) / median(window before) - 1| < 2 %, after 10 runs and 1 s, or 5 s in any case.

    A model so slow that two windows do not fit the cap stops there, unconverged. A clock that goes backwards adds
    nothing to the time spent, so that a broken clock cannot end a warm-up early; the times are refused later.
    """
    times = np.maximum(np.asarray(times_ns, dtype=np.float64), 0.0)
    spent_s = float(times.sum()) / _NS_PER_S
    enough = times.size >= rule.fewest_iterations and spent_s >= rule.least_s
    converged = enough and times.size >= 2 * rule.window and _settled(times, rule)
    done = converged or spent_s >= rule.cap_s
    return WarmupState(done=done, converged=converged, iterations=int(times.size), spent_s=spent_s)


def _settled(times: np.ndarray[tuple[int, ...], np.dtype[np.float64]], rule: Warmup) -> bool:
    last = median(times[-rule.window :])
    before = median(times[-2 * rule.window : -rule.window])
    return before > 0 and abs(last / before - 1) < rule.agree_within

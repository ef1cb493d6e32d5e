"""From raw times to one number a session: first whether they are times at all, then the difference of the arms.

q = (l_B1 + l_B2) / 2 - (l_A1 + l_A2) / 2 is the difference of one quad, l being the trimmed mean of log latency of a
block; the difference of the session is the Hodges-Lehmann location of its quads. For a quantile the times of an arm are
pooled over the session, after taking the middle of its quad away from each, so that drift common to both arms is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_winml.errors import InvalidSamples
from pytest_winml.records.latency import Arm, Objective
from pytest_winml.stats.location import Floats, hodges_lehmann, quantile, trimmed_mean
from pytest_winml.stats.planning import SHARE_OF, dropped

if TYPE_CHECKING:
    from pytest_winml.records.latency import SessionPlan

_REPEAT = "repeat the session as planned; nothing of it was kept."

RawBlocks = Iterable[tuple[Arm, Iterable[float]]]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One session, read: arms in the order they ran, and log times as a row a block, the switch left out."""

    arms: tuple[Arm, ...]
    logs: Floats
    median_ns: float

    def quads(self, candidate: Arm, baseline: Arm) -> Floats:
        """Difference of each quad."""
        places = trimmed_mean(self.logs).reshape(-1, 4)
        of_candidate = _mask(self.arms, candidate).reshape(-1, 4)
        of_baseline = _mask(self.arms, baseline).reshape(-1, 4)
        quads: Floats = (places * of_candidate).sum(axis=1) / 2 - (places * of_baseline).sum(axis=1) / 2
        return quads

    def pooled(self, arm: Arm) -> Floats:
        """Log times of an arm, relative to the middle of the quad they belong to."""
        middles = trimmed_mean(self.logs).reshape(-1, 4).mean(axis=1)
        relative = self.logs - np.repeat(middles, 4)[:, None]
        chosen: Floats = relative[_mask(self.arms, arm)].ravel()
        return chosen

    def difference(self, objective: Objective, candidate: Arm = "B", baseline: Arm = "A") -> float:
        if objective == "p50":
            return hodges_lehmann(self.quads(candidate, baseline))
        share = SHARE_OF[objective]
        return quantile(self.pooled(candidate), share) - quantile(self.pooled(baseline), share)


def _mask(arms: Sequence[Arm], arm: Arm) -> Any:
    return np.array([one == arm for one in arms])


def read_session(plan: SessionPlan, given: Sequence[tuple[Arm, Any]]) -> Reading:
    """Raises InvalidSamples, naming session and block, for what is not the planned session in times of a clock."""
    _check_arms(plan, [arm for arm, _ in given])
    rows = [_row(plan, block, times) for block, (_, times) in enumerate(given)]
    times = np.stack(rows)
    if not times.min() > 0 or times.max() == np.inf:
        _refuse_impossible(plan, times)
    kept = times[:, dropped(times.shape[1]) :]
    return Reading(arms=tuple(arm for arm, _ in given), logs=np.log(kept), median_ns=float(np.median(kept)))


def listed(plan: SessionPlan, blocks: RawBlocks) -> list[tuple[Arm, Any]]:
    try:
        return [(arm, times) for arm, times in blocks]
    except (TypeError, ValueError):
        raise InvalidSamples(
            f"session {plan.number}: its blocks are not pairs of an arm and its times",
            remedy="give [(arm, times_ns), ...] in the order of plan.blocks.",
        ) from None


def _check_arms(plan: SessionPlan, given: list[Arm]) -> None:
    planned = [arm for arm, _ in plan.blocks]
    if len(given) != len(planned):
        place = min(len(given), len(planned)) + 1
        what = "is missing" if len(given) < len(planned) else "was not planned"
        raise InvalidSamples(
            f"session {plan.number}, block {place} {what}: {len(given)} blocks, planned {len(planned)}", remedy=_REPEAT
        )
    for place, (arm, expected) in enumerate(zip(given, planned, strict=True), 1):
        if arm != expected:
            raise InvalidSamples(
                f"session {plan.number}, block {place} is of arm {arm!r}, planned {expected!r}", remedy=_REPEAT
            )


def _row(plan: SessionPlan, block: int, times: Any) -> Floats:
    iterations = plan.blocks[block][1]
    try:
        raw = np.asarray(times if isinstance(times, Sequence | np.ndarray) else list(times))
        if raw.ndim == 1 and raw.dtype == object and all(type(one) is int for one in raw):
            raw = raw.astype(np.float64)  # whole numbers that no 64 bits hold
    except (TypeError, ValueError, OverflowError):
        raise InvalidSamples(f"{_where(plan, block)}: its times are not a list of numbers", remedy=_REPEAT) from None
    if raw.ndim != 1 or (raw.size and raw.dtype.kind not in "iuf"):
        raise InvalidSamples(f"{_where(plan, block)}: its times are not a list of numbers", remedy=_REPEAT)
    if raw.size != iterations:
        count = "no times" if not raw.size else "one time" if raw.size == 1 else f"{raw.size} times"
        raise InvalidSamples(f"{_where(plan, block)} has {count}, planned {iterations}", remedy=_REPEAT)
    row: Floats = raw.astype(np.float64, copy=False)
    return row


def _refuse_impossible(plan: SessionPlan, times: Floats) -> None:
    """A NaN compares with nothing, so that "not above zero" finds it too."""
    block, sample = np.argwhere(~((times > 0) & (times < np.inf)))[0].tolist()
    raise InvalidSamples(
        f"{_where(plan, block)}, sample {sample + 1} is {times[block, sample]:g} ns, which no clock gives",
        remedy=_REPEAT,
    )


def _where(plan: SessionPlan, block: int) -> str:
    return f"session {plan.number}, block {block + 1} (arm {plan.blocks[block][0]})"

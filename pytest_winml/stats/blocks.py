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
from pytest_winml.records.latency import FEWEST_FOR, Arm, Objective
from pytest_winml.stats.location import Floats, hodges_lehmann, quantile, trimmed_mean
from pytest_winml.stats.planning import SHARE_OF, dropped

if TYPE_CHECKING:
    from pytest_winml.records.latency import SessionPlan

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

    def supports(self, objective: Objective) -> bool:
        """Whether this session has samples enough of each arm for the quantile."""
        return self.logs.size // 2 >= FEWEST_FOR.get(SHARE_OF[objective], 0)

    def difference(self, objective: Objective, candidate: Arm = "B", baseline: Arm = "A") -> float:
        if objective == "p50":
            return hodges_lehmann(self.quads(candidate, baseline))
        share = SHARE_OF[objective]
        return quantile(self.pooled(candidate), share) - quantile(self.pooled(baseline), share)


def _mask(arms: Sequence[Arm], arm: Arm) -> Any:
    return np.array([one == arm for one in arms])


def read_session(plan: SessionPlan, blocks: RawBlocks) -> Reading:
    """Raises InvalidSamples, naming session and block, for what is not the planned session in times of a clock."""
    given = _listed(plan, blocks)
    _check_arms(plan, [arm for arm, _ in given])
    rows = [
        _row(times, iterations, f"session {plan.number}, block {place} (arm {arm})")
        for place, ((arm, times), (_, iterations)) in enumerate(zip(given, plan.blocks, strict=True), 1)
    ]
    times = np.stack(rows)
    kept = times[:, dropped(times.shape[1]) :]
    return Reading(arms=tuple(arm for arm, _ in given), logs=np.log(kept), median_ns=float(np.median(kept)))


def _listed(plan: SessionPlan, blocks: RawBlocks) -> list[tuple[Arm, Any]]:
    try:
        return [(arm, times) for arm, times in blocks]
    except (TypeError, ValueError):
        raise InvalidSamples(
            f"session {plan.number}: its blocks are not pairs of an arm and its times",
            remedy="give [(arm, times_ns), ...] in the order of plan.blocks.",
        ) from None


def _check_arms(plan: SessionPlan, given: list[Arm]) -> None:
    planned = [arm for arm, _ in plan.blocks]
    remedy = "repeat the session as planned; nothing of it was kept."
    if len(given) != len(planned):
        place = min(len(given), len(planned)) + 1
        what = "is missing" if len(given) < len(planned) else "was not planned"
        raise InvalidSamples(
            f"session {plan.number}, block {place} {what}: {len(given)} blocks, planned {len(planned)}", remedy=remedy
        )
    for place, (arm, expected) in enumerate(zip(given, planned, strict=True), 1):
        if arm != expected:
            raise InvalidSamples(
                f"session {plan.number}, block {place} is of arm {arm!r}, planned {expected!r}", remedy=remedy
            )


def _row(times: Any, iterations: int, where: str) -> Floats:
    remedy = "repeat the session; nothing of it was kept."
    try:
        raw = np.asarray(times if isinstance(times, Sequence | np.ndarray) else list(times))
    except (TypeError, ValueError):
        raise InvalidSamples(f"{where}: its times are not a list of numbers", remedy=remedy) from None
    if raw.ndim == 1 and raw.dtype == object and all(type(one) is int for one in raw):
        raw = raw.astype(np.float64)  # whole numbers that no 64 bits hold
    if raw.ndim != 1 or (raw.size and raw.dtype.kind not in "iuf"):
        raise InvalidSamples(f"{where}: its times are not a list of numbers", remedy=remedy)
    if raw.size != iterations:
        count = "no times" if not raw.size else "one time" if raw.size == 1 else f"{raw.size} times"
        raise InvalidSamples(f"{where} has {count}, planned {iterations}", remedy=remedy)
    row: Floats = raw.astype(np.float64, copy=False)
    if not row.min() > 0 or row.max() == np.inf:
        place = int(np.argmin((row > 0) & (row < np.inf)))
        raise InvalidSamples(f"{where}, sample {place + 1} is {raw[place]} ns, which no clock gives", remedy=remedy)
    return row

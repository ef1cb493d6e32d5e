"""The sequential sign-flip test the slow way: sign vectors as tuples, one by one, straight from its definition."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Signs = tuple[int, ...]


def weights(deviations: Sequence[float]) -> list[float]:
    cap = 2 * statistics.median(abs(x) for x in deviations)
    return [min(abs(x), cap) for x in deviations]


def rejected_at(differences: Sequence[float], at: Sequence[int], alpha: float, shift: float = 0.0) -> int | None:
    """The look that rejects, None if none does."""
    deviations = [d - shift for d in differences]
    dead: set[Signs] = set()
    last = 0
    for sessions in at:
        if sessions > len(deviations):
            break
        seen = deviations[:sessions]
        dead = {(*old, *new) for old in dead for new in itertools.product((1, -1), repeat=sessions - last)}
        last = sessions
        share = alpha * math.log(1 + (math.e - 1) * sessions / at[-1])
        sums = {
            signs: math.fsum(s * w for s, w in zip(signs, weights(seen), strict=True))
            for signs in itertools.product((1, -1), repeat=sessions)
            if signs not in dead
        }
        for value in sorted({round(one, 9) for one in sums.values()}, reverse=True):
            tied = {signs for signs, one in sums.items() if round(one, 9) == value}
            if len(dead) + len(tied) > share * 2**sessions + 1e-9:
                break
            dead |= tied
        if tuple(-1 if x < 0 else 1 for x in seen) in dead:
            return sessions
    return None

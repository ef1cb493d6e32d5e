"""Device time, shared out over what is still to be measured."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Budget:
    """A total, or none. What one measurement leaves over is there for those after it."""

    def __init__(self, total_s: float | None, measurements: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._left_s = math.inf if total_s is None else total_s
        self._waiting = max(measurements, 1)
        self._now = now

    def allow(self) -> Allowance:
        """The next measurement's share of what is left."""
        share = self._left_s / self._waiting
        self._waiting = max(self._waiting - 1, 1)
        return Allowance(share, self._spend, self._now)

    def _spend(self, seconds: float) -> None:
        self._left_s = max(0.0, self._left_s - seconds)


class Allowance:
    """Time on the device for one measurement."""

    def __init__(self, limit_s: float, spend: Callable[[float], None], now: Callable[[], float]) -> None:
        self.limit_s = limit_s
        self.spent_s = 0.0
        self._spend = spend
        self._now = now

    @property
    def exhausted(self) -> bool:
        return self.spent_s >= self.limit_s

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        started = self._now()
        try:
            yield
        finally:
            took = max(0.0, self._now() - started)
            self.spent_s += took
            self._spend(took)


def unlimited() -> Allowance:
    return Budget(None, 1).allow()

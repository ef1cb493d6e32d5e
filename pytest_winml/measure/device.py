"""The real device: one fresh worker process for each session, while nothing else of ours runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.measure.protocols import habits_of
from pytest_winml.measure.vigil import disturbances, machine_state, observe
from pytest_winml.session.timed import run_timed_session
from pytest_winml.session.timing_messages import TimedArm, TimedRequest, WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.measure.ordering import Order
    from pytest_winml.records.placement import Placement
    from pytest_winml.session.messages import ProviderSettings
    from pytest_winml.session.timing_messages import TimedSession

_BLOCK_NS = 125_000_000


class WorkerDevice:
    """`exclusive(device)` is held while a session runs. What spoiled one is told blind to its times."""

    def __init__(
        self,
        pool: WorkerPool,
        settings: ProviderSettings,
        *,
        timeout_s: float,
        exclusive: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._timeout_s = timeout_s
        self._exclusive = exclusive
        self._placements: dict[str, Placement] = {}

    def run(self, order: Order) -> tuple[TimedSession, tuple[str, ...]]:
        target = order.arms[0][1].target
        with self._exclusive(target.device):
            before = machine_state()
            session = run_timed_session(self._pool, self._request(order), self._timeout_s)
            after = machine_state()
        expected = {arm: self._placements[key] for arm, key in _keys(order) if key in self._placements}
        placed = {arm.name: arm.placement for arm in session.arms}
        for arm, key in _keys(order):
            self._placements.setdefault(key, placed[arm])
        return session, disturbances(observe(session, before, after, expected))

    def _request(self, order: Order) -> TimedRequest:
        habits = habits_of(order.arms[0][1].target)
        return TimedRequest(
            settings=self._settings,
            arms=tuple(
                TimedArm(name=arm, target=subject.target, model_path=subject.path, feeds=subject.feeds)
                for arm, subject in order.arms
            ),
            blocks=order.blocks,
            warm_up=WarmUp(min_s=habits.warm_up_s, max_s=habits.longest_warm_up_s),
            cool_down_s=habits.cool_down_s,
            slow_down=order.slow_down,
            block_ns=_BLOCK_NS,
        )


def _keys(order: Order) -> list[tuple[str, str]]:
    """What an arm is, whatever it is called in this session."""
    return [(arm, f"{subject.key} {subject.target.id}") for arm, subject in order.arms]

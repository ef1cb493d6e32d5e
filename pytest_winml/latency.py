"""The object of a timed test, `winml_latency`, and what a run sets up for all of them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_winml.errors import GateFailed
from pytest_winml.records.target import as_target
from pytest_winml.runner.checking import Baselines, Gatekeeper
from pytest_winml.runner.timing import CaseTimer, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.execute.rwlock import DeviceLocks
    from pytest_winml.measure.recording import Recordings
    from pytest_winml.records.gate import Gate, GateResult
    from pytest_winml.records.identity import MachineIdentity
    from pytest_winml.records.latency import Latency, Objective, Verdict
    from pytest_winml.records.measurement import Comparison, Measured, Memory
    from pytest_winml.records.recipe import Recipe
    from pytest_winml.records.target import Target
    from pytest_winml.records.trace_difference import TraceDifference
    from pytest_winml.runner.case import CaseRunner
    from pytest_winml.runner.tracing import CaseTracer
    from pytest_winml.session.machine import Machine
    from pytest_winml.settings import TimingSettings


class WinmlLatency:
    """`measure()`, `check()` and `compare()`; each is done once a test, and kept for the report."""

    def __init__(self, timer: CaseTimer, gatekeeper: Gatekeeper, gate: Gate, *, strict: bool, rerun: str) -> None:
        self._timer = timer
        self._gatekeeper = gatekeeper
        self._gate = gate
        self._strict = strict
        self._rerun = rerun

    def measure(self) -> Latency:
        """Fresh processes, warmed up, timed in blocks that alternate with a canary's."""
        return self._timer.measure().latency

    def memory(self) -> Memory:
        """What the artifact takes on disk, and in a process that holds nothing else."""
        return self._timer.memory()

    def check(self) -> tuple[GateResult, ...]:
        """Measures, and fails the test when a limit of its gate is exceeded for certain."""
        results = self._gatekeeper.check(self._gate)
        failing = ("failed", "not applied") if self._strict else ("failed",)
        broken = [result for result in results if result.status in failing]
        if broken:
            raise GateFailed("; ".join(_why(result) for result in broken), remedy=f"to measure it again: {self._rerun}")
        return results

    def compare(
        self,
        recipe: Recipe | None = None,
        target: str | Target | None = None,
        *,
        objective: Objective = "p50",
        tolerance: float = 0.10,
    ) -> Verdict:
        """This case against the same model with another recipe, or on another target: which is faster?"""
        other = None if target is None else as_target(target)
        return self._timer.compare(recipe, other, objective=objective, tolerance=tolerance)

    def explain(self, recipe: Recipe) -> TraceDifference:
        """What became of the operators of the same model with another recipe: what grew, moved, came and went."""
        return self._timer.explain(recipe)

    @property
    def measured(self) -> Measured | None:
        return self._timer.measured

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(self._timer.comparisons)

    @property
    def gates(self) -> tuple[GateResult, ...]:
        return self._gatekeeper.results

    @property
    def notes(self) -> tuple[str, ...]:
        return self._gatekeeper.notes

    def save(self, name: str) -> str:
        return self._gatekeeper.save(name)


def _why(result: GateResult) -> str:
    return result.sentence if result.status == "failed" else f"{result.sentence} (--winml-strict)"


class TimingDesk:
    """What the timed tests of a run share: the device, its lock, the budget and the baselines."""

    def __init__(
        self,
        settings: TimingSettings,
        machine: Machine,
        pool: WorkerPool,
        *,
        recordings: Recordings,
        timeout_s: float,
        timed_items: int,
        workers: int,
        locks: DeviceLocks,
        on_progress: Callable[[str], None],
        on_wait: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._locks = locks
        self._machine = machine
        self._pool = pool
        self._recordings = recordings
        self._timeout_s = timeout_s
        self._timed_items = timed_items
        self._workers = workers
        self._on_progress = on_progress
        self._on_wait = on_wait

    def latency(
        self, runner: CaseRunner, gate: Gate, *, name: str, rerun: str, tracer: Callable[[], CaseTracer]
    ) -> WinmlLatency:
        from pytest_winml.providers.identity import read_identity

        timer = CaseTimer(runner, self._stopwatch, name=name, explain=lambda before: tracer().explain(before))

        def identity() -> MachineIdentity:
            return read_identity(runner.check_target(), self._machine.runtime())

        gatekeeper = Gatekeeper(runner, timer, self._baselines, identity)
        return WinmlLatency(
            timer,
            gatekeeper,
            self._settings.gate.overridden_by(gate),
            strict=self._settings.strict,
            rerun=rerun,
        )

    def _exclusive(self, device: str) -> AbstractContextManager[None]:
        return self._locks.timing(device, lambda: self._on_wait(f"waiting for the {device}: others build or time"))

    @cached_property
    def _stopwatch(self) -> Stopwatch:
        from pytest_winml.measure.budget import Budget
        from pytest_winml.measure.device import WorkerDevice

        share = None if self._settings.budget_s is None else self._settings.budget_s / self._workers
        return Stopwatch(
            device=WorkerDevice(
                self._pool,
                self._machine.settings,
                timeout_s=self._timeout_s,
                exclusive=self._exclusive,
            ),
            protocol=self._settings.protocol,
            budget=Budget(share, math.ceil(self._timed_items / self._workers)),
            recordings=self._recordings,
            on_progress=self._on_progress,
            saves=self._settings.save is not None,
        )

    @cached_property
    def _baselines(self) -> Baselines:
        from pytest_winml.measure.baselines import BaselineStore

        return Baselines(
            store=BaselineStore(self._settings.baselines),
            name=self._settings.baseline,
            ignore=self._settings.ignore_identity,
            confirm=self._timed_items > 1,
            saving=self._settings.save,
        )

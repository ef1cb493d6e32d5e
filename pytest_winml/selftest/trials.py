"""Comparisons whose right answer is known, and what their outcomes say about the harness on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from pytest_winml.measure.comparing import Question
from pytest_winml.records.selftest import Rate, SelfTest, Trial
from pytest_winml.stats.shares import at_least, at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_winml.records.latency import Verdict

TOLERANCE = 0.10
INJECTED = 0.10
MOST_FALSE_ALARMS = 0.05
LEAST_POWER = 0.80


class Bench(Protocol):
    """Compares one artifact with itself by a gate's question; answers with the verdict and its seconds of device."""

    subject: str
    most_sessions: int

    def compare(self, number: int, question: Question) -> tuple[Verdict, float]: ...


def run_trials(
    bench: Bench, comparisons: int, *, done: Sequence[Trial] = (), now: Callable[[], float] = time.monotonic
) -> Iterator[Trial]:
    """So many A/A comparisons and as many with a slowdown, in turn: whoever stops early has as many of either.

    `done` are trials of an earlier run: they are not repeated.
    """
    known = {trial.number for trial in done}
    for number in range(1, 2 * comparisons + 1):
        if number in known:
            continue
        injected = 0.0 if number % 2 else INJECTED
        question = Question(
            tolerance=TOLERANCE,
            alternative="slower",
            most_sessions=bench.most_sessions,
            slow_down={"B": injected} if injected else {},
        )
        started = now()
        verdict, device_s = bench.compare(number, question)
        yield Trial(
            number=number, injected=injected, verdict=verdict, device_s=device_s, elapsed_s=max(0.0, now() - started)
        )


def assess(
    trials: Sequence[Trial],
    *,
    subject: str,
    protocol: str,
    planned: int,
    seed: int | None = None,
    interrupted: bool = False,
) -> SelfTest:
    false_alarms = _rate([trial.alarm for trial in trials if not trial.injected], most=MOST_FALSE_ALARMS)
    power = _rate([trial.alarm for trial in trials if trial.injected], least=LEAST_POWER)
    return SelfTest(
        subject=subject,
        protocol=protocol,
        seed=seed,
        planned=planned,
        interrupted=interrupted,
        trials=tuple(trials),
        false_alarms=false_alarms,
        power=power,
        consistent=not (false_alarms.too_high or power.too_low),
    )


def _rate(alarms: Sequence[bool], *, least: float = 0.0, most: float = 1.0) -> Rate:
    hits, trials = sum(alarms), len(alarms)
    return Rate(
        hits=hits,
        trials=trials,
        share=hits / trials if trials else None,
        at_least=at_least(hits, trials),
        at_most=at_most(hits, trials),
        promised_least=least,
        promised_most=most,
    )

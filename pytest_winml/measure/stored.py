"""The candidate of today against sessions of another day, both relative to the canary that ran beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_winml.records.latency import Verdict
from pytest_winml.records.measurement import CANARY, TARGET
from pytest_winml.stats.location import trimmed_mean
from pytest_winml.stats.planning import dropped
from pytest_winml.stats.stored import compare_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_winml.measure.comparing import Question
    from pytest_winml.records.baseline import Baseline
    from pytest_winml.records.latency import Block
    from pytest_winml.records.measurement import Measured

_WHY = (
    "the baseline's artifact is not in the store any more, so figures of {day} were compared, relative to the canary."
)


def against_stored(baseline: Baseline, measured: Measured, question: Question) -> Verdict:
    if baseline.canary != measured.canary_key:
        return Verdict(
            outcome="NOT_COMPARABLE",
            objective=question.objective,
            route="stored",
            reasons=("its artifact is not in the store any more, and its figures are relative to another canary.",),
        )
    if question.objective != "p50":
        return Verdict(
            outcome="INCONCLUSIVE",
            objective=question.objective,
            route="stored",
            reasons=(f"its artifact is not in the store any more, and stored figures carry no {question.objective}.",),
        )
    verdict = compare_sessions([session.blocks for session in baseline.sessions], measured.sessions, question)
    why = _WHY.format(day=f"{baseline.created:%Y-%m-%d}")
    return msgspec.structs.replace(verdict, reasons=(why, *verdict.reasons))


def compare_sessions(
    before: Sequence[Sequence[Block]], after: Sequence[Sequence[Block]], question: Question
) -> Verdict:
    """Sessions of two days, each the raw blocks of its target and of the one canary that both days had."""
    return compare_stored(
        [_relative(blocks) for blocks in before],
        [_relative(blocks) for blocks in after],
        tolerance=question.tolerance,
        min_effect=question.min_effect,
        alternative=question.alternative,
    )


def _relative(blocks: Iterable[Block]) -> float:
    """log(target / canary) of one session, each the mean of its blocks' locations."""
    locations: dict[str, list[float]] = {TARGET: [], CANARY: []}
    for block in blocks:
        locations[block.arm].append(_location(block.times_ns))
    return _mean(locations[TARGET]) - _mean(locations[CANARY])


def _location(times_ns: Sequence[int]) -> float:
    """As in a paired session: the trimmed mean of log time, without the runs that still feel the switch."""
    import numpy as np

    steady = times_ns[dropped(len(times_ns)) :] or times_ns
    return float(trimmed_mean(np.log(np.asarray(steady, dtype=np.float64))))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)

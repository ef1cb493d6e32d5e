"""Timed tests as pytest-benchmark sees them: one series a test, in its tables, files and comparisons.

A plugin that is registered where pytest-benchmark is. Its `winml_latency` takes the place of ours and needs
`benchmark`, which is how pytest-benchmark knows its own tests at collection. The samples exist before pytest-benchmark
hears of them, and it has no call that takes them; what it documents is the mark `benchmark(timer=)` and
`benchmark.pedantic(rounds=)`. So a clock that replays the samples is put on the item, and nothing is run once a sample.

As with its own tests, a series stays when the test fails after it was taken, and there is none when taking it failed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.keys import BENCHMARK_PLUGIN, RUNNER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_winml.latency import WinmlLatency
    from pytest_winml.records.case import Case
    from pytest_winml.records.measurement import Measured
    from pytest_winml.records.report import RunReport

_NS_PER_S = 1e9
_OFF_UNDER_XDIST = "pytest-benchmark is off under xdist, by its own rule: these times are in our report alone."


class ReplayClock:
    """Answers with 0 and the next sample in turn while it replays, and is a plain timer otherwise."""

    __name__ = "winml"  # what pytest-benchmark writes as the series' timer

    def __init__(self) -> None:
        self._readings: Iterator[float] | None = None

    def __call__(self) -> float:
        return time.perf_counter() if self._readings is None else next(self._readings)

    def replay(self, benchmark: Any, times_ns: Sequence[int]) -> None:
        """Each round of `benchmark`, a clock reading before and one after, lasts as long as one sample."""
        self._readings = (reading for sample in times_ns for reading in (0.0, sample / _NS_PER_S))
        try:
            benchmark.pedantic(_nothing, rounds=len(times_ns))
        finally:
            self._readings = None


def _nothing() -> None:
    pass


_CLOCK: pytest.StashKey[ReplayClock] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The nearest mark is the only one that counts, so ours says what the user's says, and names the clock."""
    if "winml_latency" in getattr(item, "fixturenames", ()):
        nearest = item.get_closest_marker("benchmark")
        clock = item.stash[_CLOCK] = ReplayClock()
        said = dict(nearest.kwargs) if nearest else {}
        item.add_marker(pytest.mark.benchmark(**{**said, "timer": clock}), append=False)


# `winml_latency` comes first: where it skips, there is no `benchmark` yet that would complain that nobody used it.
@pytest.fixture
def winml_latency(
    winml_latency: WinmlLatency,
    winml_case: Case,  # noqa: ARG001 - brings the parameter along
    benchmark: Any,
    request: pytest.FixtureRequest,
) -> Iterator[WinmlLatency]:
    """The case's time, told to pytest-benchmark as well."""
    yield winml_latency
    case: Case = request.node.stash[RUNNER].case
    used_by_the_test = benchmark.stats is not None
    if winml_latency.measured is not None:
        benchmark.params = {**(benchmark.params or {}), "winml_case": case.id}
        benchmark.extra_info["winml"] = _extra_info(winml_latency, winml_latency.measured, case)
    if winml_latency.measured is None or benchmark.disabled or used_by_the_test:
        benchmark.skipped = True  # it would warn that nobody used it
    else:
        request.node.stash[_CLOCK].replay(benchmark, winml_latency.measured.latency.samples.times_ns)


def _extra_info(timed: WinmlLatency, measured: Measured, case: Case) -> dict[str, Any]:
    """What the verdicts and gates are, as plain data; the report has the rest."""
    import msgspec

    return {
        "case": case.id,
        "protocol": measured.protocol,
        "sessions": len(measured.sessions),
        "artifact": measured.artifact_key,
        "comparisons": msgspec.to_builtins(timed.comparisons),
        "gates": msgspec.to_builtins(timed.gates),
        "notes": [*measured.notes, *timed.notes],
    }


def xdist_lines(config: pytest.Config, report: RunReport) -> list[str]:
    """For the controller: that pytest-benchmark shows nothing of what was timed, unless the user wants it so."""
    off = config.getoption("benchmark_disable", False) or config.getoption("benchmark_skip", False)
    timed = any(item.measured for item in report.items)
    return [_OFF_UNDER_XDIST] if timed and config.pluginmanager.hasplugin(BENCHMARK_PLUGIN) and not off else []

"""The loop, the warm-up and the sizes, by a clock of our own."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from pytest_winml.errors import InvalidSamples
from pytest_winml.session.timing import (
    check_times,
    is_steady,
    quiet_collector,
    sized_blocks,
    time_block,
    time_slowed_block,
    warm_up,
)
from pytest_winml.session.timing_messages import WarmUp

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000


class Device:
    """A clock that stands still but for runs, each of which takes the next of `latencies`; the last one stays."""

    def __init__(self, *latencies: int, reading_ns: int = 0) -> None:
        self._latencies = list(latencies)
        self._reading_ns = reading_ns
        self.now = 5_000
        self.runs: list[object] = []

    def clock(self) -> int:
        self.now += self._reading_ns
        return self.now

    def run(self, binding: object) -> None:
        self.runs.append(binding)
        self.now += self._latencies.pop(0) if len(self._latencies) > 1 else self._latencies[0]


def quick(**changes: float) -> WarmUp:
    return WarmUp(min_iterations=4, min_s=0.0, max_s=1.0, window=int(changes.get("window", 2)), tolerance=0.02)


def test_each_run_is_one_sample_in_order_and_gets_the_binding() -> None:
    device = Device(30, 10, 20)
    assert list(time_block(device.run, "bound", 3, device.clock)) == [30, 10, 20]
    assert device.runs == ["bound"] * 3


def test_a_constant_device_gives_constant_samples() -> None:
    device = Device(7)
    assert list(time_block(device.run, None, 4, device.clock)) == [7] * 4


def test_between_the_readings_lies_the_run_and_one_reading() -> None:
    device = Device(1000, reading_ns=42)
    assert list(time_block(device.run, None, 2, device.clock)) == [1042, 1042]


@pytest.mark.parametrize(("latency", "said"), [(0, "stood still"), (-5, "went backwards")])
def test_a_clock_that_does_not_advance_is_named_and_gives_no_sample(latency: int, said: str) -> None:
    device = Device(100, latency, 100)
    times = time_block(device.run, None, 3, device.clock)
    with pytest.raises(InvalidSamples, match=f"block 3: a run took {latency} ns by the clock, which {said}") as caught:
        check_times(times, "block 3")
    assert "clock source" in str(caught.value.remedy)


@pytest.mark.parametrize("share", [0.1, 0.5, 5.0])
def test_slowing_down_adds_its_share_of_every_run(share: float) -> None:
    device = Device(1000, 2000, 4000, reading_ns=1)
    times = time_slowed_block(device.run, None, 3, share, device.clock)
    for time, latency in zip(times, (1001, 2001, 4001), strict=True):
        assert abs(time - latency * (1 + share)) <= 2


@pytest.mark.parametrize("latency", [0, -5])
def test_slowing_down_by_a_broken_clock_ends(latency: int) -> None:
    device = Device(latency)
    times = time_slowed_block(device.run, None, 2, 0.5, device.clock)
    with pytest.raises(InvalidSamples):
        check_times(times, "it")


def test_a_clock_that_goes_backwards_while_it_is_waited_for_ends_the_wait() -> None:
    readings = iter([100, 200, 150])
    assert list(time_slowed_block(lambda _: None, None, 1, 1.0, lambda: next(readings))) == [50]


def test_a_steady_device_is_warm_after_the_least() -> None:
    device = Device(MS)
    warmed = warm_up(device.run, None, quick(), "it", device.clock)
    assert (warmed.iterations, warmed.converged, warmed.median_ns, warmed.elapsed_ns) == (4, True, MS, 4 * MS)


def test_warming_up_waits_for_the_latency_to_settle() -> None:
    device = Device(9 * MS, 8 * MS, 7 * MS, 6 * MS, 5 * MS, 4 * MS, MS)
    warmed = warm_up(device.run, None, quick(), "it", device.clock)
    assert (warmed.iterations, warmed.converged, warmed.median_ns) == (10, True, MS)


def test_warming_up_lasts_the_least_time_too() -> None:
    device = Device(MS)
    settings = WarmUp(min_iterations=4, min_s=0.05, max_s=1.0, window=2)
    assert warm_up(device.run, None, settings, "it", device.clock).iterations == 50


def test_what_never_settles_is_cut_off_and_says_so() -> None:
    device = Device(*(2**index for index in range(31)))
    warmed = warm_up(device.run, None, quick(), "it", device.clock)
    assert not warmed.converged
    assert warmed.elapsed_ns >= 1_000_000_000


def test_a_run_longer_than_the_limit_is_the_only_one() -> None:
    device = Device(3_000_000_000)
    warmed = warm_up(device.run, None, quick(), "it", device.clock)
    assert (warmed.iterations, warmed.converged, warmed.median_ns) == (1, False, 3_000_000_000)


@pytest.mark.parametrize("latency", [0, -5])
def test_warming_up_by_a_broken_clock_ends(latency: int) -> None:
    device = Device(MS, latency)
    with pytest.raises(InvalidSamples, match="the warm-up of arm A"):
        warm_up(device.run, None, quick(), "the warm-up of arm A", device.clock)


def test_too_few_runs_are_not_steady() -> None:
    assert not is_steady([10, 10, 10], quick())
    assert is_steady([10, 10, 10, 10], quick())
    assert not is_steady([10, 10, 11, 11], quick())


def sizes(blocks: str, **latency_ns: float) -> list[int]:
    asked = [(arm, 0) for arm in blocks.split()]
    sized = sized_blocks(asked, latency_ns, block_ns=100 * MS, least=10, most=5000)
    assert [arm for arm, _ in sized] == blocks.split()
    return [size for _, size in sized]


def test_arms_that_are_compared_get_the_size_of_the_slower() -> None:
    assert sizes("A B B A", A=1 * MS, B=4 * MS) == [25] * 4


def test_the_canary_is_sized_by_itself() -> None:
    assert sizes("canary A canary", A=5 * MS, canary=2 * MS) == [50, 20, 50]


def test_a_size_stays_within_its_bounds_and_rounds_up() -> None:
    assert sizes("A", A=3 * MS) == [34]
    assert sizes("A", A=1000 * MS) == [10]
    assert sizes("A", A=50.0) == [5000]


def test_a_planned_size_is_kept() -> None:
    assert sized_blocks([("A", 7), ("A", 0)], {"A": MS}, block_ns=20 * MS, least=10, most=50) == (("A", 7), ("A", 20))


@pytest.fixture
def _collector() -> Iterator[None]:
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


@pytest.mark.usefixtures("_collector")
@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_quiet_inside_and_as_before_after_an_error(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()

    def fail() -> None:
        with quiet_collector():
            assert not gc.isenabled()
            assert gc.get_freeze_count() > 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled() == enabled
    assert gc.get_freeze_count() == 0

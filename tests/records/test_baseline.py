from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_winml.errors import InvalidSamples, MeasurementError
from pytest_winml.records.baseline import BaselineSession
from pytest_winml.records.latency import Block
from pytest_winml.records.measurement import CANARY, TARGET
from tests.records.samples import BASELINE, MACHINE


def but(**changes: Any) -> Any:
    return msgspec.structs.replace(BASELINE, **changes)


def block(arm: str, *times_ns: int) -> Block:
    return Block(arm=arm, times_ns=times_ns)


def test_the_times_of_an_arm_are_those_of_its_blocks_in_order() -> None:
    session = BaselineSession(blocks=(block("target", 1, 2), block("canary", 9), block("target", 3)))
    assert session.times_ns(TARGET) == (1, 2, 3)
    assert session.times_ns(CANARY) == (9,)


@pytest.mark.parametrize("blocks", [(), (block("canary", 1),)])
def test_a_session_without_a_time_of_its_target_is_no_baseline(blocks: tuple[Block, ...]) -> None:
    with pytest.raises(MeasurementError, match="without one time"):
        BaselineSession(blocks=blocks)


def test_another_arm_has_no_place_in_a_baseline() -> None:
    with pytest.raises(MeasurementError, match="not 'B'"):
        BaselineSession(blocks=(block("target", 1), block("B", 1)))


@pytest.mark.parametrize("times", [(), (5, 0), (5, -3)])
def test_times_that_no_clock_gives_are_refused(times: tuple[int, ...]) -> None:
    with pytest.raises(InvalidSamples):
        BaselineSession(blocks=(block("target", 5), block("canary", *times)))


def test_times_of_an_emulated_device_are_never_kept() -> None:
    emulated = msgspec.structs.replace(MACHINE, mode="emulated")
    with pytest.raises(MeasurementError, match="emulated"):
        but(machine=emulated)
    assert but(machine=emulated, sessions=()).sessions == (), "its size may be"


@pytest.mark.parametrize("when", ["", "yesterday", "2026-01-31T12:00:00", "2026-13-31T12:00:00+00:00"])
def test_a_time_without_meaning_or_zone_is_refused(when: str) -> None:
    with pytest.raises(MeasurementError, match="no time with its zone"):
        but(created_at=when)


def test_baselines_of_two_time_zones_are_in_the_order_they_were_made() -> None:
    assert but(created_at="2026-01-31T12:00:00+02:00").created < but(created_at="2026-01-31T11:00:00+00:00").created

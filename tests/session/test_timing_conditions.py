"""What is around a timed session is told, or is unknown; it never stops one."""

from __future__ import annotations

import mmap
import subprocess
import sys

import pytest

from pytest_winml.session import timing_conditions
from pytest_winml.session.timing_conditions import Growth, Moment, Scheduling, Watch, foreign_cpu_share, growth, known

SECOND = 1_000_000_000


def at(seconds: float, *, own: float = 0.0, machine: float | None = 0.0) -> Moment:
    return Moment(
        at_ns=int(seconds * SECOND),
        own_cpu_s=own,
        machine_cpu_s=machine,
        involuntary_switches=None,
        power=None,
        cpu_mhz=None,
    )


def test_what_others_used_is_the_machines_time_without_our_own() -> None:
    assert foreign_cpu_share(at(10, own=1, machine=50), at(12, own=3, machine=53), 2) == pytest.approx(1 / 4)


def test_a_share_stays_a_share_where_the_two_accounts_disagree() -> None:
    assert foreign_cpu_share(at(0), at(1, own=2, machine=1), 2) == 0
    assert foreign_cpu_share(at(0), at(1, own=0, machine=9), 2) == 1


def test_too_short_a_time_and_an_unknown_account_give_no_share() -> None:
    assert foreign_cpu_share(at(0), at(0.1, machine=0.1), 2) is None
    assert foreign_cpu_share(at(0, machine=None), at(1), 2) is None


def test_what_cannot_be_read_is_unknown() -> None:
    def broken() -> int:
        raise OSError("no such sensor")

    assert known(broken) is None


def test_conditions_come_about_with_nothing_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_conditions, "known", lambda _: None)
    conditions = Watch(Scheduling()).end()
    assert conditions.foreign_cpu_share is None
    assert conditions.power_before is None
    assert conditions.timed_ns > 0


def test_this_system_tells_its_clock_and_its_memory() -> None:
    conditions = Watch(Scheduling(priority="high", eco_qos_off=True)).end()
    assert conditions.clock
    assert 0 < conditions.clock_resolution_ns <= 1000
    assert (conditions.priority, conditions.eco_qos_off) == ("high", True)
    assert (conditions.involuntary_switches is None) == (sys.platform == "win32")
    assert (timing_conditions.peak_memory_bytes() or 0) > 1_000_000


def test_the_peak_of_a_process_is_its_own_and_not_that_of_who_started_it() -> None:
    ballast = b"\x01" * 400_000_000
    code = "from pytest_winml.session.timing_conditions import peak_memory_bytes; print(peak_memory_bytes())"
    path = f"import sys; sys.path[:] = {sys.path!r}; "
    told = subprocess.run([sys.executable, "-c", path + code], check=True, capture_output=True, text=True).stdout
    assert int(told) < len(ballast) // 2


def test_growth_is_of_what_happens_inside() -> None:
    grown = Growth()
    with growth(grown):
        ballast = mmap.mmap(-1, 50_000_000)  # not from a heap that may have that much to spare
        ballast.write(b"\x01" * len(ballast))
    assert len(ballast) <= (grown.memory_bytes or 0) + 10_000_000
    assert grown.threads == 0
    assert grown.elapsed_ns > 0

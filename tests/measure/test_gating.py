from __future__ import annotations

import pytest

from pytest_winml.measure.gating import by_bytes, by_time, by_verdict
from pytest_winml.records.gate import Limit, parse_option
from pytest_winml.records.latency import Block, Verdict, VerdictOutcome
from pytest_winml.records.measurement import TARGET, Measured, Memory


def limit(text: str) -> Limit:
    return parse_option(text).limits[0]


def measured(*times_ms: float) -> Measured:
    block = Block(arm=TARGET, times_ns=tuple(round(time * 1e6) for time in times_ms))
    return Measured(
        protocol="standard", artifact_key="a", canary_key="c", sessions=((block,),), memory=Memory(artifact_bytes=1),
        create_ms=1.0, first_run_ms=1.0, steady=True, device_s=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("REGRESSED", "failed"),
        ("IMPROVED", "passed"),
        ("EQUIVALENT", "passed"),
        ("INCONCLUSIVE", "not applied"),
        ("NO_BASELINE", "not applied"),
        ("NOT_COMPARABLE", "not applied"),
    ],
)
def test_a_gate_fails_only_for_what_is_certain(outcome: VerdictOutcome, status: str) -> None:
    assert by_verdict(limit("latency=10%"), Verdict(outcome=outcome), "baseline main").status == status


def test_a_verdict_becomes_one_sentence_with_effect_interval_and_what_was_compared() -> None:
    verdict = Verdict(outcome="REGRESSED", effect=0.123, interval=(0.098, 0.141), sessions=6, reasons=("Why.",))
    assert by_verdict(limit("latency=10%"), verdict, "baseline main").sentence == (
        "latency 10%: REGRESSED, 12.3 % slower (90 % interval +9.8 % to +14.1 %) against baseline main, "
        "co-resident, 6 sessions. Why."
    )


def test_a_time_below_its_limit_passes_and_one_at_it_fails() -> None:
    assert by_time(limit("latency=<8ms"), measured(7.9)).status == "passed"
    assert by_time(limit("latency=<8ms"), measured(8.0)).status == "failed"


def test_a_tail_that_the_samples_do_not_support_is_not_judged() -> None:
    result = by_time(limit("p99=<8ms"), measured(1.0, 2.0))
    assert (result.status, result.sentence) == ("not applied", "p99 <8ms: 2 samples are too few for a p99")


@pytest.mark.parametrize(
    ("text", "found", "before", "status"),
    [
        ("size=2%", 101, 100, "passed"),
        ("size=2%", 102, 100, "failed"),
        ("size=2%", 50, 100, "passed"),
        ("size=2%", 100, None, "not applied"),
        ("memory=<1kB", 999, None, "passed"),
        ("memory=<1kB", 1000, None, "failed"),
        ("memory=5%", None, 100, "not applied"),
        ("size=2%", 5, 0, "failed"),
    ],
)
def test_bytes_may_grow_by_their_share(text: str, found: int | None, before: int | None, status: str) -> None:
    assert by_bytes(limit(text), found, before).status == status

from __future__ import annotations

import msgspec

from pytest_winml.records.case import Case
from pytest_winml.records.gate import GateResult, Status, parse_option
from pytest_winml.records.latency import Block, Verdict
from pytest_winml.records.measurement import CANARY, TARGET, Comparison, Measured, Memory
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.records.report import ItemFinished
from pytest_winml.records.target import Target
from pytest_winml.report.timing import timing_lines

MEASURED = Measured(
    protocol="standard",
    artifact_key="a",
    canary_key="c",
    sessions=((Block(arm=CANARY, times_ns=(9,)), Block(arm=TARGET, times_ns=tuple(range(1_000_000, 1_000_100)))),) * 3,
    memory=Memory(artifact_bytes=131_500, load_bytes=700_000, peak_bytes=74_000_000),
    create_ms=31.0,
    first_run_ms=7.61,
    steady=True,
    device_s=20.0,
    notes=("times were still falling or rising when the warm-up ended.",),
)
SLOWER = Verdict(
    outcome="REGRESSED", effect=0.123, interval=(0.098, 0.141), sessions=6, mde=0.02, p_value=0.0156, seed=7
)


def item(**values: object) -> ItemFinished:
    case = Case(model=Model.onnx("detector.onnx"), recipe=Recipe(), target=Target("cpu")).ref
    base = ItemFinished(nodeid="test_a", case=case, outcome="passed", duration_s=1.0)
    return msgspec.structs.replace(base, **values)


def test_a_run_that_timed_nothing_says_nothing_of_time() -> None:
    assert timing_lines([item()], 100) == []


def test_figures_stand_in_a_table_and_an_unsupported_tail_is_no_number() -> None:
    assert timing_lines([item(measured=MEASURED)], 100) == [
        "",
        "timed                 p50      p90      p99      samples  size      memory",
        "--------------------  -------  -------  -------  -------  --------  -------",
        "detector-default-cpu  1.00 ms  1.00 ms  too few  3 x 100  131.5 kB  74.0 MB",
        "detector-default-cpu: times were still falling or rising when the warm-up ended.",
    ]


def test_a_verdict_tells_effect_interval_route_and_seed() -> None:
    comparison = Comparison(against="baseline main (re-measured)", verdict=SLOWER)
    (line,) = timing_lines([item(comparisons=(comparison,))], 200)
    assert line == (
        "detector-default-cpu: REGRESSED, p50 12.3 % slower (90 % interval +9.8 % to +14.1 %), 6 sessions, "
        "co-resident, could have found 2.0 %, seed 7, against baseline main (re-measured)"
    )


def test_verdicts_that_are_read_together_carry_q_values() -> None:
    sure, unsure = SLOWER, msgspec.structs.replace(SLOWER, p_value=0.4)
    untested = Verdict(outcome="NOT_COMPARABLE")
    lines = timing_lines(
        [item(comparisons=tuple(Comparison(against="x", verdict=one) for one in (sure, untested, unsure)))], 300
    )
    assert [line.rpartition(", ")[2] for line in lines] == ["q 0.031", "against x", "q 0.4"]


def test_gates_that_failed_or_could_not_be_applied_are_listed_and_those_that_passed_are_not() -> None:
    (limit,) = parse_option("latency=10%").limits
    statuses: tuple[tuple[Status, str], ...] = (
        ("failed", "REGRESSED"),
        ("passed", "EQUIVALENT"),
        ("not applied", "NO_BASELINE"),
    )
    gates = tuple(GateResult(limit=limit, status=status, sentence=f"latency 10%: {word}") for status, word in statuses)
    assert timing_lines([item(gates=gates)], 100) == [
        "",
        "gates failed:",
        "  detector-default-cpu: latency 10%: REGRESSED",
        "",
        "gates not applied:",
        "  detector-default-cpu: latency 10%: NO_BASELINE",
    ]

from __future__ import annotations

import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.records.gate import Gate, Limit, parse_limits, parse_option

WHERE = "@pytest.mark.winml_gate"


@pytest.mark.parametrize(
    ("text", "relative", "absolute"),
    [
        ("5%", 0.05, None),
        (" 12.5 % ", 0.125, None),
        ("<8ms", None, 8.0),
        ("< 800 us", None, 0.8),
        ("<1.5s", None, 1500.0),
    ],
)
def test_a_time_is_limited_by_a_share_or_by_itself(text: str, relative: float | None, absolute: float | None) -> None:
    (limit,) = parse_limits([("latency", text)], WHERE).limits
    assert limit.relative == pytest.approx(relative)
    assert limit.absolute == pytest.approx(absolute)


def test_bytes_are_limited_in_their_own_units() -> None:
    gate = parse_limits([("size", "<20MB"), ("memory", "<1.5GiB")], WHERE)
    assert [limit.absolute for limit in gate.limits] == [20e6, 1.5 * 1024**3]


@pytest.mark.parametrize("value", ["", "5", "0%", "-5%", "8ms", "<8", "<8MB", "<0ms", "nan%", "99999%", 5, None, 0.05])
def test_what_is_no_limit_is_a_usage_problem_that_shows_one(value: object) -> None:
    with pytest.raises(UsageProblem, match="is no limit") as problem:
        parse_limits([("latency", value)], WHERE)
    assert "write latency='5%' or latency='<8ms'" in str(problem.value)


def test_an_unknown_metric_suggests_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="did you mean 'latency'"):
        parse_limits([("latencies", "5%")], WHERE)


@pytest.mark.parametrize("text", ["latency", "latency=", "=5%", ",", "latency=5%,size"])
def test_an_option_that_cannot_be_read_says_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageProblem):
        parse_option(text)


def test_the_option_names_several_limits() -> None:
    assert [limit.metric for limit in parse_option("latency=5%, p99=10%,size=2%").limits] == ["latency", "p99", "size"]


def test_one_metric_limited_twice_is_a_usage_problem() -> None:
    with pytest.raises(UsageProblem, match="limits latency twice"):
        parse_option("latency=5%,latency=6%")


def test_the_nearer_gate_wins_metric_by_metric() -> None:
    far = parse_option("latency=5%,size=2%")
    near = parse_option("latency=9%")
    assert far.overridden_by(near).limits == (
        Limit(metric="latency", text="9%", relative=0.09),
        Limit(metric="size", text="2%", relative=0.02),
    )
    assert not Gate()

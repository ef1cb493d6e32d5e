from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given

from pytest_winml.records.chrome_trace import to_chrome_trace
from pytest_winml.records.trace import OpTrace, PartitionRun, TracedInference
from tests.records.traces import HYBRID, WHOLE, any_trace, on_npu, trace

if TYPE_CHECKING:
    from pathlib import Path

Event = dict[str, Any]


def events(one: OpTrace, phase: str = "X") -> list[Event]:
    return [event for event in to_chrome_trace(one)["traceEvents"] if event["ph"] == phase]


def span(event: Event) -> tuple[int, int]:
    """In whole nanoseconds, as a viewer keeps them."""
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def by_name(one: OpTrace, name: str) -> list[Event]:
    return [event for event in events(one) if event["name"] == name]


def names_of(one: OpTrace, kind: str) -> dict[tuple[int, int], str]:
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in events(one, "M") if event["name"] == kind}


@given(one=any_trace)
def test_every_event_is_well_formed_json(one: OpTrace) -> None:
    content = to_chrome_trace(one)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    for event in content["traceEvents"]:
        assert event["ph"] in ("X", "C", "M")
        assert {"name", "pid", "tid", "ts", "args"} <= event.keys()
        assert isinstance(event["pid"], int)
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0
    for event in content["traceEvents"]:
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())


@given(one=any_trace)
def test_slices_of_a_lane_are_apart_or_one_inside_the_other(one: OpTrace) -> None:
    """Anything else is cut off by the viewer."""
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events(one):
        lanes[event["pid"], event["tid"]].append(span(event))
    for spans in lanes.values():
        open_until: list[int] = []
        for start, end in sorted(spans, key=lambda place: (place[0], -place[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


@given(one=any_trace)
def test_all_that_an_inference_holds_is_inside_it(one: OpTrace) -> None:
    whole = [span(event) for event in events(one) if event["cat"] == "inference"]
    for event in events(one):
        start, end = span(event)
        assert any(first <= start and end <= last for first, last in whole)


@given(one=any_trace)
def test_every_lane_has_a_name(one: OpTrace) -> None:
    processes, lanes = names_of(one, "process_name"), names_of(one, "thread_name")
    for event in events(one):
        assert (event["pid"], 0) in processes
        assert (event["pid"], event["tid"]) in lanes


def test_every_operator_is_drawn_once_in_the_first_inference_that_counts() -> None:
    for operator in HYBRID.operators:
        assert len(by_name(HYBRID, operator.name)) == 1
        start, end = span(by_name(HYBRID, operator.name)[0])
        assert 1_000_000 <= start <= end <= 1_400_000


def test_inferences_and_partitions_are_as_wide_as_they_took() -> None:
    assert span(by_name(HYBRID, "warm-up 0")[0]) == (0, 900_000)
    assert span(by_name(HYBRID, "inference 1")[0]) == (1_000_000, 1_400_000)
    assert [span(event) for event in by_name(HYBRID, "partition 0")][-1] == (1_000_000, 1_200_000)
    assert [span(event) for event in by_name(HYBRID, "partition 1")][-1] == (1_200_000, 1_270_000)
    assert by_name(HYBRID, "inference 1")[0]["args"]["start"] == "measured"


def test_operators_divide_their_partition_by_their_figures_and_say_so() -> None:
    assert [span(by_name(WHOLE, name)[0]) for name in ("conv1", "conv2", "mm", "Transpose", "flat")] == [
        (0, 216_000), (216_000, 288_000), (288_000, 342_000), (342_000, 360_000), (360_000, 360_000),
    ]  # fmt: skip
    assert by_name(WHOLE, "conv1")[0]["args"]["width"] == (
        "its share of the cycles over all hardware threads of this block, mean of 5 inferences; not when it ran"
    )


def test_eps_are_processes_and_meanings_are_lanes() -> None:
    assert sorted(names_of(HYBRID, "process_name").values()) == [
        "CPU", "Hexagon", "QNN", "session on qnn:npu (emulated)",
    ]  # fmt: skip
    assert sorted(names_of(HYBRID, "thread_name").values()) == [
        "inferences",
        "operators by cycles over all hardware threads",
        "operators by kernel wall time",
    ]


def test_counters_share_the_time_line() -> None:
    found = [(event["name"], event["ts"], event["args"]) for event in events(HYBRID, "C")]
    assert found == [
        ("CPU (percent)", 0.0, {"percent": 12.5}),
        ("memory (bytes)", 0.0, {"bytes": 1_000_000}),
        ("CPU (percent)", 500.0, {"percent": 50.0}),
        ("device (percent)", 500.0, {"percent": 80.0}),
    ]
    assert to_chrome_trace(HYBRID)["otherData"]["notes"] == ["emulated: no time here is the device's"]


def test_without_a_measured_start_it_is_said_that_counters_do_not_line_up() -> None:
    loose = tuple(msgspec.structs.replace(one, start_us=None) for one in HYBRID.inferences)
    assert (
        "do not line up" in to_chrome_trace(msgspec.structs.replace(HYBRID, inferences=loose))["otherData"]["notes"][0]
    )


def test_without_a_time_the_axis_is_none() -> None:
    counted = trace(on_npu("a", "Conv", 3000), on_npu("b", "Add", 1000, partition=1))
    about = to_chrome_trace(counted)["otherData"]
    assert about["axis"] == "not a time"
    assert "no wall time: 1 us stands for 1000 cycles" in about["notes"]
    assert [span(by_name(counted, name)[0]) for name in ("a", "b")] == [(0, 3000), (3000, 4000)]


@pytest.mark.parametrize(("time_us", "end"), [(100.0, 100_000), (None, 400_000)])
def test_partitions_that_took_more_than_their_inference_are_narrowed(time_us: float | None, end: int) -> None:
    inference = TracedInference(
        number=0, time_us=time_us,
        partitions=(PartitionRun(partition=0, time_us=300.0), PartitionRun(partition=1, time_us=100.0)),
    )  # fmt: skip
    one = msgspec.structs.replace(HYBRID, inferences=(inference,))
    assert span(by_name(one, "partition 1")[0]) == (end * 3 // 4, end)


def test_partitions_without_times_divide_the_inference_by_cycles() -> None:
    inference = TracedInference(
        number=0, time_us=100.0,
        partitions=(PartitionRun(partition=0, cycles=300), PartitionRun(partition=1, cycles=100)),
    )  # fmt: skip
    one = msgspec.structs.replace(HYBRID, inferences=(inference,))
    assert span(by_name(one, "partition 1")[0]) == (75_000, 100_000)
    assert by_name(one, "partition 1")[0]["args"]["width"] == "its share of the inference's cycles"


def test_it_is_written_where_it_is_asked_to(tmp_path: Path) -> None:
    content = HYBRID.to_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8")) == content

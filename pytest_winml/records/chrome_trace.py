"""A trace in the Chrome trace event format, which Perfetto opens: inferences, partitions, operators, counters.

Few of these have a measured start. What has none is laid end to end inside what holds it, in proportion to its figure,
and says so in its `args`. Places are whole nanoseconds, so that a part never reaches over the whole.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_winml.records.traced import (
    CYCLES,
    PARTITION_TIME,
    Meaning,
    PartitionRun,
    TracedInference,
    TracedOperator,
    TraceRecord,
    ep_key,
    short_ep,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Event = dict[str, Any]

_SESSION = 1
_HARDWARE = 2
_FIRST_EP = 10
_CYCLES_PER_US = 1000
_IN_ORDER = "no start is measured: laid end to end"
_COUNTERS = (
    ("CPU", "percent", "cpu_percent"),
    ("memory", "bytes", "memory_bytes"),
    ("device", "percent", "device_percent"),
    ("device memory", "bytes", "device_memory_bytes"),
)


class _Slot(NamedTuple):
    """A stretch of the time line, in nanoseconds."""

    start: int
    end: int

    def divided(self, weights: Sequence[float]) -> list[_Slot]:
        """End to end, in proportion; nothing to go by leaves nothing wide."""
        total = math.fsum(weights)
        slots: list[_Slot] = []
        done, start = 0.0, self.start
        for weight in weights:
            done += weight
            end = self.start + round((self.end - self.start) * min(done / total, 1.0)) if total > 0 else start
            slots.append(_Slot(start, max(start, end)))
            start = slots[-1].end
        return slots


class _Lane(NamedTuple):
    pid: int
    tid: int

    def slice(self, name: str, category: str, slot: _Slot, args: dict[str, Any]) -> Event:
        return {
            "ph": "X", "name": name, "cat": category, "pid": self.pid, "tid": self.tid, "ts": slot.start / 1000,
            "dur": (slot.end - slot.start) / 1000, "args": args,
        }  # fmt: skip


def to_chrome_trace(trace: TraceRecord) -> dict[str, Any]:
    pids = _pids(trace)
    slots = _inference_slots(trace)
    events = [*_names(trace, pids), *_inferences(trace, slots), *_counters(trace)]
    shown = False
    for inference, slot in slots:
        events += _partitions(trace, inference, slot, pids, with_operators=not inference.warm_up and not shown)
        shown = shown or not inference.warm_up
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": _about(trace)}


def _pids(trace: TraceRecord) -> dict[str, int]:
    return {key: _FIRST_EP + number for number, key in enumerate(trace.eps)}


def _names(trace: TraceRecord, pids: dict[str, int]) -> Iterator[Event]:
    emulated = " (emulated)" if trace.metadata.emulated else ""
    yield _named("process_name", _SESSION, f"session on {trace.metadata.target}{emulated}")
    yield _named("thread_name", _SESSION, "inferences", tid=1)
    if trace.hardware is not None:
        yield _named("process_name", _HARDWARE, trace.hardware.device or "hardware")
    for key, pid in pids.items():
        yield _named("process_name", pid, short_ep(trace.eps[key]))
        for meaning, tid in _lanes(trace, key).items():
            yield _named("thread_name", pid, f"operators by {meaning}" if meaning else "partitions", tid=tid)


def _lanes(trace: TraceRecord, ep: str) -> dict[Meaning | None, int]:
    """Figures of different meanings are not drawn in one lane; an EP without operators has its partitions alone."""
    here = {one.meaning for one in trace.operators if ep_key(one.ep) == ep}
    if len(here) > 1:
        here.discard(PARTITION_TIME)  # which is what the slice of a partition shows
    lanes: list[Meaning | None] = [meaning for meaning in trace.meanings if meaning in here]
    return {meaning: number for number, meaning in enumerate(lanes or [None], 1)}


def _inference_slots(trace: TraceRecord) -> list[tuple[TracedInference, _Slot]]:
    """Where the clock was not read, one begins where the last has ended."""
    found: list[tuple[TracedInference, _Slot]] = []
    at = 0
    for inference in trace.inferences or (TracedInference(number=0),):
        start = at if inference.start_us is None else max(at, _ns(inference.start_us))
        end = start + _ns(_duration_us(trace, inference))
        found.append((inference, _Slot(start, end)))
        at = end
    return found


def _duration_us(trace: TraceRecord, inference: TracedInference) -> float:
    if _number(inference.time_us) is not None:
        return _number(inference.time_us) or 0.0
    runs = math.fsum(_run_us(run) for run in _runs(trace, inference))
    loose = [one for one in trace.operators if one.partition is None]
    return runs or math.fsum(_figure_us(one.figure, one.meaning) for one in loose)


def _runs(trace: TraceRecord, inference: TracedInference) -> tuple[PartitionRun, ...]:
    """Of this inference, or else the means of all."""
    if inference.partitions:
        return inference.partitions
    means = {one.index: one for one in trace.partitions}
    places = dict.fromkeys([*means, *(one.partition for one in trace.operators if one.partition is not None)])
    return tuple(_mean_run(trace, place) for place in places)


def _mean_run(trace: TraceRecord, place: int) -> PartitionRun:
    mean = next((one for one in trace.partitions if one.index == place), None)
    if mean is not None and (_number(mean.time_us) is not None or _number(mean.cycles) is not None):
        return PartitionRun(partition=place, time_us=mean.time_us, cycles=round(_number(mean.cycles) or 0))
    inside = [one for one in trace.operators if one.partition == place]
    return PartitionRun(partition=place, time_us=math.fsum(_figure_us(one.figure, one.meaning) for one in inside))


def _run_us(run: PartitionRun) -> float:
    time = _number(run.time_us)
    return time if time is not None else (_number(run.cycles) or 0.0) / _CYCLES_PER_US


def _figure_us(figure: float | None, meaning: Meaning) -> float:
    value = _number(figure) or 0.0
    return value / _CYCLES_PER_US if meaning == CYCLES else value


def _inferences(trace: TraceRecord, slots: Iterable[tuple[TracedInference, _Slot]]) -> Iterator[Event]:
    for inference, slot in slots:
        name = f"warm-up {inference.number}" if inference.warm_up else f"inference {inference.number}"
        args = {
            "time_us": _number(inference.time_us),
            "start": _IN_ORDER if inference.start_us is None else "measured",
            "width": "wall time" if _number(inference.time_us) is not None else _nominal(trace),
        }
        yield _Lane(_SESSION, 1).slice(name, "inference", slot, args)


def _partitions(
    trace: TraceRecord, inference: TracedInference, slot: _Slot, pids: dict[str, int], *, with_operators: bool
) -> Iterator[Event]:
    runs = _runs(trace, inference)
    taken: dict[str, int] = {}
    drawn: set[int] = set()
    for run, part in zip(runs, _run_slots(runs, slot), strict=True):
        ep = _ep_of(trace, run.partition)
        taken[ep] = part.end
        args = {**_figures(run.cycles, run.time_us), "start": _IN_ORDER, "width": _run_width(runs)}
        for meaning, tid in _lanes(trace, ep).items():
            lane = _Lane(pids[ep], tid)
            yield lane.slice(f"partition {run.partition}", "partition", part, args)
            if with_operators:
                inside = [one for one in _in_lane(trace, ep, meaning) if one.partition == run.partition]
                drawn |= {id(one) for one in inside}
                yield from _operators(trace, inside, part, lane)
    if with_operators:
        rest = [one for one in trace.operators if id(one) not in drawn]
        for ep, pid in pids.items():
            yield from _loose(trace, rest, _Slot(taken.get(ep, slot.start), slot.end), (ep, pid))


def _in_lane(trace: TraceRecord, ep: str, meaning: Meaning | None) -> Iterator[TracedOperator]:
    return (one for one in trace.operators if ep_key(one.ep) == ep and one.meaning == meaning)


def _run_slots(runs: Sequence[PartitionRun], slot: _Slot) -> list[_Slot]:
    """As wide as they took, narrower together where that is more than the inference; without times, all of it."""
    widths = [_run_us(run) for run in runs]
    timed = all(_number(run.time_us) is not None for run in runs)
    taken = min(_ns(math.fsum(widths)), slot.end - slot.start) if timed else slot.end - slot.start
    return _Slot(slot.start, slot.start + taken).divided(widths)


def _run_width(runs: Sequence[PartitionRun]) -> str:
    timed = all(_number(run.time_us) is not None for run in runs)
    return "its time, or less where the inference is shorter" if timed else "its share of the inference's cycles"


def _loose(trace: TraceRecord, rest: Iterable[TracedOperator], slot: _Slot, of: tuple[str, int]) -> Iterator[Event]:
    """What ran outside of partitions, such as the CPU's nodes one by one."""
    ep, pid = of
    mine = [one for one in rest if ep_key(one.ep) == ep]
    for meaning, tid in _lanes(trace, ep).items():
        inside = [one for one in mine if one.meaning == meaning]
        if inside and meaning is not None:
            taken = _ns(math.fsum(_figure_us(one.figure, meaning) for one in inside))
            part = _Slot(slot.start, min(slot.start + taken, slot.end))
            lane = _Lane(pid, tid)
            yield lane.slice("outside of partitions", "partition", part, {"start": _IN_ORDER})
            yield from _operators(trace, inside, part, lane)


def _operators(trace: TraceRecord, operators: Sequence[TracedOperator], slot: _Slot, lane: _Lane) -> Iterator[Event]:
    weights = [_number(one.figure) or 0.0 for one in operators]
    for one, part in zip(operators, slot.divided(weights), strict=True):
        args = {
            "op_type": one.op_type,
            "onnx_nodes": [node.name or node.op_type for node in one.onnx_nodes],
            **_figures(one.cycles, one.time_us),
            "share": _number(one.share),
            "calls": one.calls,
            "shapes": one.shapes,
            "width": f"its share of the {one.meaning} of this block, {_mean(trace)}; not when it ran",
        }
        yield lane.slice(one.name or f"{one.op_type} (unnamed)", one.op_type, part, args)


def _counters(trace: TraceRecord) -> Iterator[Event]:
    for sample in trace.hardware.samples if trace.hardware else ():
        for name, unit, field in _COUNTERS:
            value = _number(getattr(sample, field))
            if value is not None and math.isfinite(sample.at_us):
                yield {
                    "ph": "C", "name": f"{name} ({unit})", "pid": _HARDWARE, "tid": 0, "ts": max(sample.at_us, 0.0),
                    "args": {unit: value},
                }  # fmt: skip


def _about(trace: TraceRecord) -> dict[str, Any]:
    measured = any(_number(one.time_us) is not None for one in trace.inferences)
    placed = bool(trace.inferences) and all(one.start_us is not None for one in trace.inferences)
    notes = [] if measured else [_nominal(trace)]
    if trace.hardware is not None and not placed:
        notes.append("counters are on the window's clock, and inferences have no measured start: they do not line up")
    if trace.metadata.emulated:
        notes.append("emulated: no time here is the device's")
    return {
        "target": trace.metadata.target,
        "status": trace.status,
        "error": trace.error,
        "reason": trace.reason,
        "axis": "microseconds" if measured else "not a time",
        "notes": [*notes, *trace.notes],
    }


def _nominal(trace: TraceRecord) -> str:
    if CYCLES in trace.meanings:
        return f"no wall time: 1 us stands for {_CYCLES_PER_US} cycles"
    return "no wall time: the sum of its parts"


def _mean(trace: TraceRecord) -> str:
    return f"mean of {trace.metadata.runs} inferences" if trace.metadata.runs > 1 else "one inference"


def _ep_of(trace: TraceRecord, partition: int) -> str:
    everywhere = ((one.index, one.ep) for one in trace.partitions)
    traced = ((one.partition, one.ep) for one in trace.operators)
    return next((ep_key(ep) for place, ep in (*everywhere, *traced) if place == partition), ep_key(trace.metadata.ep))


def _named(kind: str, pid: int, name: str, tid: int = 0) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _figures(cycles: float | None, time_us: float | None) -> dict[str, float | None]:
    return {"cycles": _number(cycles), "time_us": _number(time_us)}


def _number(value: float | None) -> float | None:
    """Neither below zero nor without end: a width."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _ns(time_us: float) -> int:
    return round(time_us * 1000)

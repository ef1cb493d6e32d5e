"""From the blocks of QNN's profile to figures of one inference. Warm-up runs count in none.

An operator's cycles are work over all hardware threads, and no time. Microseconds are the accelerator's for a whole
block; on the emulator they are the host's and are left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_winml.monitors.qnn_csv import UNKNOWN_CYCLES
from pytest_winml.monitors.qnn_names import graph_of
from pytest_winml.records.trace import PartitionRun, TracedInference, TracedOperator, TracedPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.monitors.qnn_csv import Block, Profile
    from pytest_winml.monitors.qnn_names import NamedOperator
    from pytest_winml.monitors.qnn_op_map import OpMap
    from pytest_winml.records.trace import Meaning
    from pytest_winml.session.monitoring import ObservedRun

MEANING: Meaning = "cycles over all hardware threads"
_GRAPH_HASH = re.compile(r"_\d+(_\d+_\d+)\Z")

Spread = dict[str, float | int | None]


class QnnFigures:
    """`counted` are the runs that are in the figures: no warm-up, and none with a block that was cut short."""

    def __init__(self, profile: Profile, runs: Sequence[ObservedRun], provider: str, *, emulated: bool) -> None:
        self._profile = profile
        self._runs = runs
        self._provider = provider
        self._emulated = emulated
        cut = {cut.run for cut in profile.cuts}
        self.counted = tuple(run.number for run in runs if not run.warm_up and run.number not in cut)
        self._by_run: dict[int | None, list[Block]] = defaultdict(list)
        self._by_partition: dict[int, list[Block]] = defaultdict(list)
        counted = set(self.counted)
        for block in profile.blocks:
            self._by_run[block.run].append(block)
            if block.run in counted:
                self._by_partition[block.partition].append(block)

    def operators(self, named: Sequence[NamedOperator]) -> tuple[tuple[TracedOperator, ...], dict[str, Spread]]:
        """The most expensive first, and how their cycles spread over the inferences, by name."""
        cycles = [self._cycles(operator) for operator in named]
        means = [sum(values) / len(values) if values else None for values in cycles]
        total = sum(mean for mean in means if mean is not None)
        made = [
            self._operator(operator, mean, total if mean is not None else 0.0)
            for operator, mean in zip(named, means, strict=True)
        ]
        spreads = {one.name: _spread(values) for one, values in zip(named, cycles, strict=True)}
        made.sort(key=lambda operator: -(operator.cycles or 0))
        return tuple(made), spreads

    def _cycles(self, operator: NamedOperator) -> list[int]:
        """Of each counted inference that says it; one that ran the partition twice has both in its sum."""
        if operator.partition is None or operator.row is None:
            return []
        samples, sums, unknown = self._profile.partitions[operator.partition].samples, Counter[int](), set()
        for block in self._by_partition[operator.partition]:
            value = samples[block.sample][operator.row]
            if value == UNKNOWN_CYCLES:
                unknown.add(block.run)
            elif block.run is not None:
                sums[block.run] += value
        return [sums[run] for run in self.counted if run not in unknown]

    def _operator(self, operator: NamedOperator, mean: float | None, total: float) -> TracedOperator:
        calls = 0 if operator.partition is None else len(self._by_partition[operator.partition])
        return TracedOperator(
            name=operator.name,
            op_type=operator.op_type,
            ep=self._provider,
            meaning=MEANING,
            onnx_nodes=operator.onnx_nodes,
            ep_name=operator.ep_name,
            ep_op_type=operator.ep_op_type,
            partition=operator.partition,
            calls=calls,
            cycles=mean,
            share=mean / total if mean is not None and total else None,
        )

    def partitions(self, op_map: OpMap) -> tuple[TracedPartition, ...]:
        return tuple(
            TracedPartition(
                index=index,
                ep=self._provider,
                name=_stable_name(graph.name) if (graph := graph_of(partition.operators, op_map)) else None,
                operators=sum(operator.kind in ("named", "nameless") for operator in partition.operators),
                cycles=self._mean([block.cycles for block in self._by_partition[index]]),
                time_us=self._time([block.accelerator_us for block in self._by_partition[index]]),
            )
            for index, partition in enumerate(self._profile.partitions)
        )

    def inferences(self) -> tuple[TracedInference, ...]:
        return tuple(
            TracedInference(
                number=run.number,
                warm_up=run.warm_up,
                time_us=self._sum_us([block.accelerator_us for block in self._by_run[run.number]]),
                partitions=tuple(self._partition_run(block) for block in self._by_run[run.number]),
            )
            for run in self._runs
        )

    def _partition_run(self, block: Block) -> PartitionRun:
        time_us = None if self._emulated or block.accelerator_us is None else float(block.accelerator_us)
        return PartitionRun(partition=block.partition, cycles=block.cycles, time_us=time_us)

    def summary(self) -> dict[str, float | int | str | None]:
        blocks = [block for blocks in self._by_partition.values() for block in blocks]
        threads = [block.hvx_threads for block in blocks if block.hvx_threads is not None]
        return {
            "accelerator_cycles": self._mean([block.cycles for block in blocks]),
            "accelerator_us": self._time([block.accelerator_us for block in blocks]),
            "qnn_execute_us": self._time([block.execute_us for block in blocks]),
            "hvx_threads": max(threads, default=None),
            "partitions": len(self._by_partition),
            "rows": self._profile.lines,
        }

    def _mean(self, values: Sequence[int | None]) -> float | None:
        """Of one inference; None as soon as one value is not known, for a part is no sum."""
        known = [value for value in values if value is not None]
        return sum(known) / len(self.counted) if self.counted and known and len(known) == len(values) else None

    def _time(self, values: Sequence[int | None]) -> float | None:
        return None if self._emulated else self._mean(values)

    def _sum_us(self, values: Sequence[int | None]) -> float | None:
        known = [value for value in values if value is not None]
        return float(sum(known)) if known and len(known) == len(values) and not self._emulated else None

    def notes(self) -> list[str]:
        notes = [
            f"run {cut.run}: a block of {cut.rows} rows has no end (line {cut.line}); the run is in no figure"
            for cut in self._profile.cuts
            if cut.run is not None
        ]
        if strays := len(self._by_run[None]):
            notes.append(f"{strays} blocks belong to no run of the window and are in no figure")
        if unchecked := sum(block.cycles is None for block in self._profile.blocks):
            notes.append(f"{unchecked} blocks do not say their accelerator cycles, so that sums were not checked")
        if unknown := sum(UNKNOWN_CYCLES in sample for part in self._profile.partitions for sample in part.samples):
            notes.append(f"{unknown} blocks have operators whose cycles are UNKNOWN")
        return notes


def _stable_name(graph: str) -> str:
    """QNN puts a hash of the model's path into it."""
    return _GRAPH_HASH.sub(r"\1", graph)


def _spread(values: Sequence[int]) -> Spread:
    if not values:
        return {"count": 0, "avg_cycles": None, "min_cycles": None, "p90_cycles": None, "max_cycles": None}
    ordered = sorted(values)
    place = 0.9 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return {
        "count": len(ordered),
        "avg_cycles": sum(ordered) / len(ordered),
        "min_cycles": ordered[0],
        "p90_cycles": ordered[low] + (place - low) * (ordered[high] - ordered[low]),
        "max_cycles": ordered[-1],
    }

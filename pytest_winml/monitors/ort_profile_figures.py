"""From the calls of a profile to figures of one inference. Warm-up runs count in none."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_winml.monitors.ort_profile_reading import CPU
from pytest_winml.records.trace import Meaning, PartitionRun, TracedInference, TracedOperator, TracedPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_winml.monitors.ort_profile_names import ModelNames
    from pytest_winml.monitors.ort_profile_reading import Call, Level, Operator, Profile
    from pytest_winml.records.placement import Placement
    from pytest_winml.records.trace import OnnxNode

MEANING: dict[Level, Meaning] = {
    "node": "kernel wall time",
    "partition": "partition wall time",
    "ep": "EP's own operator time",
}


class Figures:
    """`counted` runs come after `warm_up` ones. Partitions are numbered in the order they first ran."""

    def __init__(self, profile: Profile, warm_up: int, provider: str) -> None:
        self._profile = profile
        self._warm_up = warm_up
        self._provider = provider
        self._times: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._calls: Counter[int] = Counter()
        self._partition_of: dict[int, int] = {}
        self._parent: dict[int, int] = {}
        self._orphans = 0
        self._read_calls()
        self.counted = len(profile.runs) - warm_up

    def _read_calls(self) -> None:
        partition: Call | None = None
        for call in self._profile.calls():
            operator = self._profile.operators[call.operator]
            if operator.level == "partition":
                partition = call
                self._partition_of.setdefault(call.operator, len(self._partition_of))
            elif operator.level == "ep":
                self._adopt(call, partition)
            self._times[call.operator][call.run] += call.own_us if operator.level == "node" else call.duration_us
            if call.run >= self._warm_up:
                self._calls[call.operator] += 1

    def _adopt(self, call: Call, partition: Call | None) -> None:
        """An EP's operator belongs to the partition that ran when it began."""
        if partition is not None and call.start_us <= partition.start_us + partition.duration_us:
            self._parent.setdefault(call.operator, partition.operator)
        else:
            self._orphans += 1

    def ran_on(self, provider: str) -> bool:
        return any(self._ep(number) == provider for number in self._calls)

    def _ep(self, number: int) -> str:
        own = self._profile.operators[number].provider
        if own:
            return own
        parent = self._parent.get(number)
        return self._profile.operators[parent].provider if parent is not None else self._provider

    def _mean_us(self, number: int) -> float:
        times = self._times[number]
        return sum(spent for run, spent in times.items() if run >= self._warm_up) / self.counted

    def _numbers(self, level: Level | None = None) -> list[int]:
        """Operators of the counted inferences, in the order they ran."""
        return [n for n in self._times if self._calls[n] and level in (None, self._profile.operators[n].level)]

    def operators(self, names: ModelNames, placement: Placement) -> tuple[tuple[TracedOperator, ...], int]:
        """And how many of the placed nodes are in none of them."""
        nodes, missing = self._onnx_nodes(names, placement)
        totals: Counter[Level] = Counter()
        for number in self._numbers():
            totals[self._profile.operators[number].level] += sum(self._times_counted(number))
        taken: Counter[str] = Counter()
        made = []
        for number in self._numbers():
            total = totals[self._profile.operators[number].level]
            made.append(self._operator(number, names, nodes.get(number, ()), total, taken))
        made.sort(key=lambda operator: -(operator.time_us or 0))
        return tuple(made), missing

    def _times_counted(self, number: int) -> list[int]:
        return [spent for run, spent in self._times[number].items() if run >= self._warm_up]

    def _operator(
        self, number: int, names: ModelNames, nodes: tuple[OnnxNode, ...], total: int, taken: Counter[str]
    ) -> TracedOperator:
        operator = self._profile.operators[number]
        name = self._name(number, names, nodes)
        taken[name] += 1
        mean = self._mean_us(number)
        return TracedOperator(
            name=name if taken[name] == 1 else f"{name}#{taken[name]}",
            op_type=_op_type(operator, nodes),
            ep=self._ep(number),
            meaning=MEANING[operator.level],
            onnx_nodes=nodes,
            ep_name=operator.name,
            ep_op_type=operator.op_type or None,
            partition=self._partition(number),
            calls=self._calls[number],
            time_us=mean,
            share=mean * self.counted / total if total else None,
            shapes=operator.shapes,
        )

    def _name(self, number: int, names: ModelNames, nodes: tuple[OnnxNode, ...]) -> str:
        """A compiled graph's own name holds a hash of the model's path: its place is what stays the same."""
        operator = self._profile.operators[number]
        if operator.level == "partition":
            return f"partition {self._partition_of[number]}"
        return names.name_of(operator, nodes)

    def _partition(self, number: int) -> int | None:
        return self._partition_of.get(self._parent.get(number, number))

    def _onnx_nodes(self, names: ModelNames, placement: Placement) -> tuple[dict[int, tuple[OnnxNode, ...]], int]:
        found: dict[int, tuple[OnnxNode, ...]] = {}
        numbers = self._numbers("node")
        operators = [self._profile.operators[number] for number in numbers]
        placed = [name for name, ep in _placed(placement) if any(ep == one.provider for one in operators)]
        groups = names.groups(operators, placed)
        found.update(zip(numbers, groups, strict=True))
        behind = {node.name for group in groups for node in group}
        # Which partition a node went to is told only where there is one.
        partitions = self._numbers("partition")
        if len(partitions) == 1 and not placement.ep_context:
            found[partitions[0]] = names.known(node.name for node in placement.target_nodes)
        for number in self._numbers("ep"):
            found[number] = names.known([self._profile.operators[number].name])
        missing = {node.name for node in names.known(placed)} - behind
        return found, len(missing)

    def partitions(self, placement: Placement) -> tuple[TracedPartition, ...]:
        """`operators` counts the EP's own where it tells them, else the nodes given to it, else nothing."""
        inside = Counter(self._parent.values())
        alone = len(placement.target_nodes) if len(self._partition_of) == 1 else 0
        return tuple(
            TracedPartition(
                index=index,
                ep=self._ep(number),
                name=self._profile.operators[number].name,
                operators=inside[number] or alone,
                time_us=self._mean_us(number),
            )
            for number, index in self._partition_of.items()
        )

    def inferences(self) -> tuple[TracedInference, ...]:
        return tuple(
            TracedInference(
                number=place + 1,
                warm_up=place < self._warm_up,
                time_us=float(run.duration_us),
                partitions=tuple(self._partition_runs(place)),
            )
            for place, run in enumerate(self._profile.runs)
        )

    def _partition_runs(self, run: int) -> Iterator[PartitionRun]:
        for number, index in self._partition_of.items():
            if run in self._times[number]:
                yield PartitionRun(partition=index, time_us=float(self._times[number][run]))

    def summary(self) -> dict[str, float | int | str | None]:
        """The levels beside each other; `model_run_us` holds nodes and partitions, and what ORT itself takes."""
        runs = self._profile.runs[self._warm_up :]
        session = {f"{name}_us": spent for name, spent in sorted(self._profile.session_us.items()) if "::" not in name}
        return {
            **session,
            "model_run_us": sum(run.duration_us for run in runs) / len(runs),
            "cpu_nodes_us": self._level_us("node", cpu=True),
            "ep_nodes_us": self._level_us("node", cpu=False),
            "partitions_us": sum(self._mean_us(number) for number in self._numbers("partition")),
            "events": self._profile.events,
        }

    def _level_us(self, level: Level, *, cpu: bool) -> float:
        return sum(self._mean_us(number) for number in self._numbers(level) if (self._ep(number) == CPU) is cpu)

    def statistics(self, operators: Sequence[TracedOperator]) -> dict[str, dict[str, float | int | None]]:
        """By the operators' names; of times of one inference."""
        numbers = {(self._profile.operators[n].name, MEANING[self._profile.operators[n].level]): n for n in self._times}
        return {
            operator.name: _spread(self._times_counted(numbers[str(operator.ep_name), operator.meaning]))
            for operator in operators
        }

    def notes(self) -> list[str]:
        notes = [f"{count} events of category {cat} are no operators" for cat, count in self._profile.unread.items()]
        if self._orphans:
            notes.append(f"{self._orphans} events of an EP began in no partition of an inference")
        return notes


def _placed(placement: Placement) -> Iterator[tuple[str, str]]:
    for node in (*placement.target_nodes, *placement.boundary_nodes):
        yield node.name, node.ep
    for fallen in placement.fallback_nodes:
        yield fallen.name, fallen.ep


def _op_type(operator: Operator, nodes: tuple[OnnxNode, ...]) -> str:
    """ONNX's where one node is behind it; a fused operator is of the type that ORT made of its nodes."""
    if operator.level == "partition":
        return "partition"
    if len(nodes) == 1:
        return nodes[0].op_type
    return operator.op_type or "unknown"


def _spread(times: Sequence[int]) -> dict[str, float | int | None]:
    ordered = sorted(times)
    place = 0.9 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return {
        "count": len(ordered),
        "avg_us": sum(ordered) / len(ordered),
        "min_us": ordered[0],
        "p90_us": ordered[low] + (place - low) * (ordered[high] - ordered[low]),
        "max_us": ordered[-1],
        "total_us": sum(ordered),
    }

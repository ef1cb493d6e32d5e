"""Where the time of an inference goes and where each node ran: one schema for every EP.

What can be asked of it is in `records/trace.py`.

Schema versions (`TRACE_SCHEMA`):
1  first.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from pytest_winml import units
from pytest_winml.records.base import Record
from pytest_winml.records.placement import FallbackNode

TRACE_SCHEMA = 1

TraceLevel = Literal["basic", "detail"]
TraceStatus = Literal["ok", "no_data", "parse_failed", "basic_fallback", "not_run", "cpu_fallback"]
# What the figures of an operator mean; times of different meanings are never added or compared.
Meaning = Literal[
    "cycles over all hardware threads",  # QNN: work, not wall time
    "kernel wall time",  # ORT's profile of CPU nodes
    "partition wall time",  # ORT's profile of a fused node
    "EP's own operator time",  # events that an EP adds to ORT's profile
]
CYCLES: Meaning = "cycles over all hardware threads"
PARTITION_TIME: Meaning = "partition wall time"
# Of these there are figures; a trace of another status has an error, or none of the target's work.
WITH_FIGURES: tuple[TraceStatus, ...] = ("ok", "basic_fallback")


class OnnxNode(Record, frozen=True, kw_only=True):
    """A node of the model as the user has it; `name` is "" for a nameless one."""

    name: str
    op_type: str


class TracedOperator(Record, frozen=True, kw_only=True):
    """One operator of an EP, over all traced inferences: figures are means of one inference.

    `name` is stable between processes and across compile; `ep_name` is what the EP itself called it, and `op_type` is
    ONNX's, or the EP's own where no ONNX node is behind it (`onnx_nodes` is then empty: the EP inserted it).
    `share` is of all that was traced with the same meaning.
    """

    name: str
    op_type: str
    ep: str
    meaning: Meaning
    onnx_nodes: tuple[OnnxNode, ...] = ()
    ep_name: str | None = None
    ep_op_type: str | None = None
    partition: int | None = None
    calls: int = 0
    cycles: float | None = None
    time_us: float | None = None
    share: float | None = None
    shapes: str | None = None
    details: dict[str, float | int | str | None] = msgspec.field(default_factory=dict)

    @property
    def figure(self) -> float | None:
        """Cycles or microseconds, by what the operator's figures mean."""
        value = self.cycles if self.meaning == CYCLES else self.time_us
        return value if value is not None and math.isfinite(value) else None

    @property
    def is_partition(self) -> bool:
        return self.meaning == PARTITION_TIME

    def holds(self, *, name: str | None = None, op_type: str | None = None) -> bool:
        """Whether it is, or was made of, a node with that name and type."""
        nodes = (OnnxNode(name=self.name, op_type=self.op_type), *self.onnx_nodes)
        return any(name in (None, node.name) and op_type in (None, node.op_type) for node in nodes)

    def __repr__(self) -> str:
        """Short, since pytest shows it where an assertion about operators fails."""
        part = "" if self.share is None else f": {units.percent(self.share)}"
        return f"<{self.op_type} {self.name!r} on {short_ep(self.ep)}{part}>"


class TracedPartition(Record, frozen=True, kw_only=True):
    """A part of the graph that one EP took whole."""

    index: int
    ep: str
    name: str | None = None
    operators: int = 0
    cycles: float | None = None
    time_us: float | None = None


class PartitionRun(Record, frozen=True, kw_only=True):
    partition: int
    cycles: int | None = None
    time_us: float | None = None


class TracedInference(Record, frozen=True, kw_only=True):
    """One inference of the window; warm-up runs come first and count in no figure.

    `start_us` is since the window's beginning, on the clock of the hardware samples.
    """

    number: int
    warm_up: bool = False
    start_us: float | None = None
    time_us: float | None = None
    partitions: tuple[PartitionRun, ...] = ()


class TraceMetadata(Record, frozen=True, kw_only=True):
    """`options` are what the session was opened with, the monitor's among them; `inputs` a digest of the feeds."""

    case: str | None = None
    model: str | None = None
    artifact_key: str | None = None
    target: str
    ep: str
    emulated: bool = False
    level: TraceLevel = "basic"
    backend: str
    runs: int = 0
    warm_up: int = 0
    started_at: str | None = None
    options: dict[str, str] = msgspec.field(default_factory=dict)
    inputs: str | None = None


class HardwareSample(Record, frozen=True, kw_only=True):
    """At one moment of the window, in microseconds since its beginning."""

    at_us: float
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    device_percent: float | None = None
    device_memory_bytes: int | None = None


class HardwareUse(Record, frozen=True, kw_only=True):
    """`missing` says, by counter, why there is no figure."""

    device: str | None = None
    samples: tuple[HardwareSample, ...] = ()
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class TraceRecord(Record, frozen=True, kw_only=True):
    """`error` says what could not be read and where; `reason` why a lesser level was taken."""

    schema_version: int = TRACE_SCHEMA
    metadata: TraceMetadata
    status: TraceStatus = "not_run"
    error: str | None = None
    reason: str | None = None
    summary: dict[str, float | int | str | None] = msgspec.field(default_factory=dict)
    operators: tuple[TracedOperator, ...] = ()
    fallback_nodes: tuple[FallbackNode, ...] = ()
    partitions: tuple[TracedPartition, ...] = ()
    inferences: tuple[TracedInference, ...] = ()
    statistics: dict[str, dict[str, float | int | None]] = msgspec.field(default_factory=dict)
    artifacts: dict[str, str] = msgspec.field(default_factory=dict)
    hardware: HardwareUse | None = None
    notes: tuple[str, ...] = ()

    @property
    def eps(self) -> dict[str, str]:
        """Every EP there is in the trace, by its key; the target's first."""
        there = [one.ep for one in self.operators]
        there += [one.ep for one in self.partitions]
        there += [one.ep for one in self.fallback_nodes]
        return {ep_key(ep): ep for ep in (self.metadata.ep, *there)}

    @property
    def meanings(self) -> tuple[Meaning, ...]:
        """What the figures mean, the target's own operators first and whole partitions last."""
        target = ep_key(self.metadata.ep)
        first: dict[Meaning, bool] = {}
        for one in self.operators:
            first[one.meaning] = first.get(one.meaning, False) or ep_key(one.ep) == target
        return tuple(sorted(first, key=lambda meaning: (meaning == PARTITION_TIME, not first[meaning])))


def short_ep(ep: str) -> str:
    return ep.removesuffix("ExecutionProvider") or ep


def ep_key(ep: str) -> str:
    """`QNNExecutionProvider`, `QNN` and `qnn` are one EP."""
    return short_ep(ep.strip()).lower().removesuffix("executionprovider")

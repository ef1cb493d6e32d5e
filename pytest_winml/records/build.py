"""What a build did, stage by stage, and how it ended."""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_winml.records.artifact import ArtifactIO, StageRun, TensorSpec
from pytest_winml.records.base import Record
from pytest_winml.records.case import CaseRef

# 1  first
BUILD_RESULTS_SCHEMA_VERSION = 1

BuildStatus = Literal["built", "reused", "skipped", "failed", "timed out"]


class ModelDescription(Record, frozen=True, kw_only=True):
    """What a model file says of itself, read in a worker since the file is not trusted."""

    io: ArtifactIO
    opset: int
    precision: str
    quantized: bool
    compiled: bool = False
    nodes: int
    external_files: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Quantized or compiled already: such a graph is not optimized by default nor quantized again."""
        return self.quantized or self.compiled

    def with_ranges(self, known: tuple[TensorSpec, ...]) -> ModelDescription:
        """The same inputs and outputs with the value ranges that an earlier stage knew of."""
        ranges = {spec.name: (spec.low, spec.high) for spec in known}
        io = ArtifactIO(
            inputs=tuple(_ranged(spec, ranges) for spec in self.io.inputs),
            outputs=tuple(_ranged(spec, ranges) for spec in self.io.outputs),
        )
        return msgspec.structs.replace(self, io=io)


def _ranged(spec: TensorSpec, ranges: dict[str, tuple[float | None, float | None]]) -> TensorSpec:
    low, high = ranges.get(spec.name, (spec.low, spec.high))
    return msgspec.structs.replace(spec, low=low, high=high)


class BuildOutcome(Record, frozen=True, kw_only=True):
    """One (model, recipe, target) of a build-only run. `error_class` tells a model's fault from infrastructure."""

    case: CaseRef
    status: BuildStatus
    stages: tuple[StageRun, ...] = ()
    stopped_before: str | None = None
    stage: str | None = None
    error_class: str | None = None
    infrastructure: bool = False
    reason: str | None = None
    artifact_key: str | None = None
    precision: str | None = None
    size_bytes: int | None = None


class BuildResults(Record, frozen=True, kw_only=True):
    schema_version: int = BUILD_RESULTS_SCHEMA_VERSION
    run_id: str
    outcomes: tuple[BuildOutcome, ...]

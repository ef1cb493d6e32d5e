"""A built file, what its tensors look like, and how it came to be."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_winml.records.base import Record


class TensorSpec(Record, frozen=True, kw_only=True):
    """One input or output. A dimension is a size, or a name where it is not fixed. The range is of values fed in.

    A shape of None is one that the file does not tell, not even by its number of dimensions; `()` is a scalar.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    low: float | None = None
    high: float | None = None

    @property
    def is_static(self) -> bool:
        return self.shape is not None and all(isinstance(size, int) for size in self.shape)

    @property
    def shape_text(self) -> str:
        """For messages."""
        return "no shape in the file" if self.shape is None else f"shape {self.shape}"


class ArtifactIO(Record, frozen=True, kw_only=True):
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class StageRun(Record, frozen=True, kw_only=True):
    """One stage of one build: built now, or reused.

    `no_op` says the graph is what it was before; `did_not_fire` are optimizations that found nothing to do, each with
    the reason where it is known.
    """

    stage: str
    key: str
    reused: bool
    elapsed_s: float
    no_op: bool = False
    did_not_fire: dict[str, str] = msgspec.field(default_factory=dict)


class Provenance(Record, frozen=True, kw_only=True):
    """Where the bytes come from: the model's source, what was done to it, and the file's own digest."""

    source: str
    stages: tuple[str, ...]
    precision: str
    opset: int
    sha256: str
    size_bytes: int
    runs: tuple[StageRun, ...] = ()


class Artifact(Record, frozen=True, kw_only=True):
    path: Path
    key: str
    provenance: Provenance
    io: ArtifactIO

"""The calibration set of a build: its identity goes into the key, its samples are drawn only when a stage is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_winml.data.calibration import OWN_DATA, RANDOM_DATA, CalibrationSource, calibration_source, write_feeds
from pytest_winml.data.digits import manifest
from pytest_winml.errors import BuildError, WinmlError
from pytest_winml.pipeline.product import Stage, at_stage
from pytest_winml.store.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_winml.records.artifact import TensorSpec
    from pytest_winml.records.case import Case


@dataclass(frozen=True, slots=True)
class PendingFeeds:
    source: CalibrationSource
    inputs: Sequence[TensorSpec]
    samples: int
    seed: int
    identity: dict[str, Any]

    def write(self, folder: Path) -> Path:
        path = folder / "feeds.npz"
        write_feeds(self.source, self.inputs, samples=self.samples, seed=self.seed, path=path)
        return path


def calibration_for(case: Case, inputs: Sequence[TensorSpec], rootdir: Path) -> PendingFeeds:
    """Raises a `BuildError` where the recipe's choice has no data; nothing is fallen back to."""
    try:
        return _chosen(case, inputs, rootdir)
    except WinmlError as error:
        raise at_stage(error, case.model.name, Stage.QUANTIZE.word) from error


def _chosen(case: Case, inputs: Sequence[TensorSpec], rootdir: Path) -> PendingFeeds:
    chosen = case.recipe.calibration
    embedded = case.model.source if case.model.kind == "embedded" else None
    source = calibration_source(chosen.data, embedded=embedded, rootdir=rootdir, inputs=inputs)
    identity = {
        "samples": chosen.samples,
        "seed": chosen.seed,
        **({"random": _ranges(inputs)} if chosen.data == RANDOM_DATA else {"data": _digest(chosen.data, rootdir)}),
    }
    return PendingFeeds(source=source, inputs=inputs, samples=chosen.samples, seed=chosen.seed, identity=identity)


def _ranges(inputs: Sequence[TensorSpec]) -> list[list[Any]]:
    """All that decides seeded random data, besides the seed."""
    return [
        [spec.name, spec.dtype, None if spec.shape is None else list(spec.shape), spec.low, spec.high]
        for spec in inputs
    ]


def _digest(data: str, rootdir: Path) -> str:
    if data == OWN_DATA:
        return next(images.sha256 for images in manifest().image_sets if images.name == "calibration")
    path = rootdir / data
    files = sorted(path.glob("*.npy")) if path.is_dir() else [path]
    if not all(file.is_file() for file in files):
        raise BuildError(f"calibration data {path} does not exist", remedy="relative paths start at pytest's rootdir.")
    return sha256_of(files)

"""Calibration inputs: where the samples come from, and the file a quantization reads them from.

    source = calibration_source("inputs.npz", embedded=None, rootdir=rootdir)
    chosen = gather(source, io.inputs, samples=32, seed=0)      # chosen.digest belongs into the stage's key
    feeds = chosen.write(folder / "feeds.npz")

Samples come from the model's own data set, from files the user gives, or from seeded random data that somebody chose. A
source that cannot give them is an error, never another source.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from pytest_winml.data.digits import EMBEDDED_MODELS, calibration
from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import BuildError, InfrastructureError, unknown_name
from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_winml.records.artifact import TensorSpec

    Arrays = dict[str, NDArray[Any]]

OWN_DATA, RANDOM_DATA = "model", "random"
_UNIX = 3  # what a zip archive says of the system that made it: the same on every one, for the same bytes


class CalibrationSource(Protocol):
    """Somewhere samples come from. `take` draws `count` of them; the leading axis of every array counts samples."""

    @property
    def name(self) -> str: ...

    def take(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> Arrays: ...


class CalibrationFeeds(Record, frozen=True, kw_only=True):
    """A written calibration set."""

    path: str
    samples: int
    digest: str
    source: str


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Samples that fit a model's inputs: checked, and known by their content."""

    source: str
    arrays: Arrays

    @property
    def samples(self) -> int:
        return min(len(array) for array in self.arrays.values())

    @property
    def digest(self) -> str:
        """Over names, types, shapes and values, so that it is the same whatever file they came from or go to."""
        import hashlib

        import numpy as np

        digest = hashlib.sha256()
        for name, array in sorted(self.arrays.items()):
            digest.update(msgspec.json.encode([name, array.dtype.str, array.shape]))
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def write(self, path: Path) -> CalibrationFeeds:
        """The same samples give the same bytes, on every system."""
        partial = path.with_name(f".{path.name}.partial")
        try:
            _write_npz(partial, self.arrays)
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise InfrastructureError(
                f"calibration inputs {path} cannot be written ({error})", remedy="check space and permissions."
            ) from error
        return CalibrationFeeds(path=os.fspath(path), samples=self.samples, digest=self.digest, source=self.source)


@dataclass(frozen=True, slots=True)
class EmbeddedData:
    """The training images of the models inside this package."""

    model: str

    @property
    def name(self) -> str:
        return f"the data set of {self.model}"

    def take(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> Arrays:
        if self.model not in EMBEDDED_MODELS:
            raise unknown_name("embedded model", self.model, EMBEDDED_MODELS)
        if len(inputs) != 1:
            raise BuildError(f"{self.name} feeds one input, and the model has {len(inputs)}")
        images = calibration().images
        return {inputs[0].name: images[_drawn(self.name, len(images), count, seed)][:, None]}


@dataclass(frozen=True, slots=True)
class FileData:
    """An .npz with an array per input, or a folder with `<input>.npy` per input; the leading axis counts samples.

    For a model of one input also: a single such .npy, or a folder of .npy files that are one sample each.
    """

    path: Path

    @property
    def name(self) -> str:
        return f"calibration data {self.path}"

    def take(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> Arrays:
        stored = self._stored(inputs)
        check_feeds(stored, inputs, self.name)
        rows = _drawn(self.name, len(next(iter(stored.values()))), count, seed)
        return {name: array[rows] for name, array in stored.items()}

    def _stored(self, inputs: Sequence[TensorSpec]) -> Arrays:
        if self.path.is_dir():
            return self._folder(inputs)
        loaded = _load(self.path)
        if isinstance(loaded, dict):
            return loaded
        if len(inputs) == 1:
            return {inputs[0].name: loaded}
        raise BuildError(
            f"{self.name} is one array, and the model has {len(inputs)} inputs",
            remedy=f"give an .npz with the arrays {_listed(spec.name for spec in inputs)}.",
        )

    def _folder(self, inputs: Sequence[TensorSpec]) -> Arrays:
        files = sorted(self.path.glob("*.npy"))
        if not files:
            raise BuildError(f"{self.name} holds no .npy file", remedy="give one `<input>.npy` per input, or an .npz.")
        names = {spec.name for spec in inputs}
        if len(inputs) > 1 or names <= {file.stem for file in files}:
            return {file.stem: _array(file) for file in files}
        return {inputs[0].name: _stacked(inputs[0], files)}


@dataclass(frozen=True, slots=True)
class RandomData:
    """Uniform in each input's range. It shows that a graph quantizes, not how well."""

    @property
    def name(self) -> str:
        return "random data"

    def take(self, inputs: Sequence[TensorSpec], count: int, seed: int) -> Arrays:
        if loose := [spec for spec in inputs if not spec.is_static]:
            raise BuildError(
                f"{self.name} cannot be made for input {loose[0].name!r}, which has {loose[0].shape_text}: not fixed",
                remedy=f"give it one: Model.onnx(..., shapes={{{loose[0].name!r}: (...)}}).",
            )
        return random_feeds(
            [msgspec.structs.replace(spec, shape=(count, *(spec.shape or ()))) for spec in inputs], seed
        )


def calibration_source(
    data: str, *, embedded: str | None, rootdir: Path, inputs: Sequence[TensorSpec] = ()
) -> CalibrationSource:
    """What `Calibration(data=)` means: `"model"`, `"random"`, or a path. `embedded` names a model of this package."""
    if data == RANDOM_DATA:
        return RandomData()
    if data != OWN_DATA:
        return FileData(rootdir / data)
    if embedded is None:
        raise BuildError(
            f"the model brings no data set to calibrate its inputs with ({_listed(spec.name for spec in inputs)})",
            remedy='give inputs with Calibration(data="inputs.npz"), or choose Calibration(data="random") where only '
            "placement and speed matter.",
        )
    return EmbeddedData(embedded)


def gather(source: CalibrationSource, inputs: Sequence[TensorSpec], *, samples: int, seed: int) -> CalibrationSet:
    """`samples` of the source, drawn by `seed` where it has more; a `BuildError` says why they fit no input."""
    if samples < 1:
        raise BuildError(f"{samples} calibration samples were asked for", remedy="ask for at least one.")
    if not inputs:
        raise BuildError("the model has no input to calibrate", remedy="quantize it with precision='dynamic'.")
    arrays = source.take(inputs, samples, seed)
    check_feeds(arrays, inputs, source.name)
    return CalibrationSet(source=source.name, arrays={spec.name: arrays[spec.name] for spec in inputs})


def write_feeds(
    source: CalibrationSource, inputs: Sequence[TensorSpec], *, samples: int, seed: int, path: Path
) -> CalibrationFeeds:
    return gather(source, inputs, samples=samples, seed=seed).write(path)


def read_feeds(path: Path, inputs: Sequence[TensorSpec]) -> Arrays:
    """What `write` wrote, checked against the inputs of the model at hand."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise BuildError(f"calibration inputs {path} are not an .npz file")
    check_feeds(loaded, inputs, f"calibration inputs {path}")
    return loaded


def check_feeds(arrays: Mapping[str, NDArray[Any]], inputs: Sequence[TensorSpec], what: str) -> None:
    """Every input, nothing else, of its type and shape, at least one sample, all finite."""
    specs = {spec.name: spec for spec in inputs}
    if missing := [name for name in specs if name not in arrays]:
        raise BuildError(
            f"{what}: input {missing[0]!r} is missing", remedy=f"give {_listed(specs)}; it holds {_listed(arrays)}."
        )
    if strange := [name for name in arrays if name not in specs]:
        problem = unknown_name("input", strange[0], specs)
        raise BuildError(f"{what}: {problem.message}", remedy=problem.remedy)
    for name, spec in specs.items():
        _check_array(arrays[name], spec, what)
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name!r} {count}" for name, count in sorted(counts.items()))
        raise BuildError(f"{what}: the inputs have unlike numbers of samples ({told})")
    if not all(counts.values()):
        raise BuildError(f"{what} holds no sample", remedy="a calibration needs at least one.")


def _check_array(array: NDArray[Any], spec: TensorSpec, what: str) -> None:
    import numpy as np

    if str(array.dtype.name) != spec.dtype or array.dtype.byteorder == ">":
        raise BuildError(
            f"{what}: input {spec.name!r} is {array.dtype}, the model takes {spec.dtype}",
            remedy=f"convert it with .astype({spec.dtype!r}).",
        )
    if array.ndim == 0 or not _fits(array.shape[1:], spec.shape):
        raise BuildError(
            f"{what}: input {spec.name!r} has samples of shape {array.shape[1:]}, the model takes {spec.shape}",
            remedy="the leading axis counts samples, and each sample has the whole shape of the input.",
        )
    if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
        sample = int(np.argwhere(~finite)[0][0])
        raise BuildError(f"{what}: sample {sample} of input {spec.name!r} holds NaN or infinity")


def _fits(shape: tuple[int, ...], asked: tuple[int | str, ...] | None) -> bool:
    if asked is None:  # the file does not tell
        return True
    if len(shape) != len(asked):
        return False
    return all(size == wish or isinstance(wish, str) for size, wish in zip(shape, asked, strict=True))


def _drawn(name: str, available: int, count: int, seed: int) -> NDArray[Any]:
    """Which samples: `count` different ones by the seed, in their stored order."""
    import numpy as np

    if count > available:
        raise BuildError(
            f"{name} holds {available} samples, and {count} were asked for",
            remedy=f"ask for at most {available}: Calibration(samples={available}).",
        )
    return np.sort(np.random.default_rng(seed).permutation(available)[:count])


def _stacked(spec: TensorSpec, files: Sequence[Path]) -> NDArray[Any]:
    import numpy as np

    samples = [_array(file) for file in files]
    for file, sample in zip(files, samples, strict=True):
        _check_array(sample[None], spec, f"calibration data {file}")
    return np.stack(samples)


def _array(path: Path) -> NDArray[Any]:
    loaded = _load(path)
    if isinstance(loaded, dict):
        raise BuildError(f"calibration data {path} is an archive, and one array was expected")
    return loaded


def _load(path: Path) -> Arrays | NDArray[Any]:
    import numpy as np

    if not path.is_file():
        raise BuildError(f"calibration data {path} does not exist", remedy="relative paths start at pytest's rootdir.")
    try:
        # Opened here because numpy leaves a broken archive open, and Windows then cannot replace it.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
        raise BuildError(
            f"calibration data {path} cannot be read ({error})", remedy="write it with numpy.savez, without objects."
        ) from error


def _write_npz(path: Path, arrays: Arrays) -> None:
    """As numpy would, but for what differs from run to run, and for inputs that have the name of a parameter there."""
    import numpy as np

    with ZipFile(path, "w", ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            entry = ZipInfo(f"{name}.npy")
            entry.create_system = _UNIX
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"

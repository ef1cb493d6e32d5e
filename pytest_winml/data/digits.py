"""Two small trained networks and their images, so that every claim can be tried without a download.

Both read the handwritten digits of E. Alpaydin and C. Kaynak (UCI Machine Learning Repository, doi:10.24432/C50P49,
CC BY 4.0). `fixtures/train_digits.py` made them; the manifest beside the files says with what and how well they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import msgspec

from pytest_winml.errors import ModelError, unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMBEDDED_MODELS: tuple[str, ...] = ("digits-cnn", "digits-vit")
EMBEDDED_PRECISIONS: tuple[str, ...] = ("fp32", "w8a16", "w8a8")

# 1: the first.
MANIFEST_SCHEMA_VERSION = 1

_FOLDER = Path(__file__).parent / "models"
_GREY_LEVELS = 16
_REINSTALL = "reinstall pytest-winml, or make the files again with fixtures/train_digits.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSet:
    """`images` float32 (n, 1, 8, 8) in [0, 1], as the input `image` takes them one at a time; `labels` int64 (n,)."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


class EmbeddedFile(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    precision: str
    file: str
    sha256: str
    size_bytes: int
    held_out_top1: float
    """Share of the held-out images read rightly on ONNX Runtime's CPU EP."""


class EmbeddedImages(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    file: str
    sha256: str
    size_bytes: int
    images: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int
    source: str
    seed: int
    tools: dict[str, str]
    calibration_images_used: int
    image_sets: tuple[EmbeddedImages, ...]
    files: tuple[EmbeddedFile, ...]


class _Versioned(msgspec.Struct, frozen=True):
    schema_version: int


def model_path(name: str, precision: str) -> Path:
    if name not in EMBEDDED_MODELS:
        raise unknown_name("embedded model", name, EMBEDDED_MODELS)
    if precision not in EMBEDDED_PRECISIONS:
        raise unknown_name(f"precision of {name}", precision, EMBEDDED_PRECISIONS)
    return _FOLDER / f"{name}.{precision}.onnx"


def held_out() -> ImageSet:
    """Images neither the training nor the calibration saw: what accuracy is measured on."""
    return _images("held_out.npz")


def calibration() -> ImageSet:
    """The training images, in shuffled order; the QDQ files were calibrated on the first of them."""
    return _images("calibration.npz")


def manifest() -> Manifest:
    path = _FOLDER / "digits.json"
    try:
        content = path.read_bytes()
        # The version is read on its own first: a later schema need not have the fields of this one.
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version != MANIFEST_SCHEMA_VERSION:
            raise ModelError(
                f"{path} has schema version {version}, and this version reads {MANIFEST_SCHEMA_VERSION}",
                remedy=_REINSTALL,
            )
        return msgspec.json.decode(content, type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"the manifest of the embedded models cannot be read: {error}", remedy=_REINSTALL) from error


def _images(file: str) -> ImageSet:
    import numpy as np

    try:
        # Opened here because numpy leaves a broken archive open, and Windows then cannot replace it.
        with (_FOLDER / file).open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return ImageSet(
                images=stored["images"].astype(np.float32) / np.float32(_GREY_LEVELS),
                labels=stored["labels"].astype(np.int64),
            )
    except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
        raise ModelError(f"the embedded images {file} cannot be read: {error}", remedy=_REINSTALL) from error

"""Which model: an ONNX file, a Hugging Face model, a function that makes one, or one that ships with this package."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name

if TYPE_CHECKING:
    import os

    from onnx import ModelProto

Kind = Literal["onnx", "build", "embedded", "hf"]
WEIGHTS = ("pretrained", "random")
LONGEST_NAME = 100
_UNSAFE_IN_IDS = re.compile(r"[^A-Za-z0-9_.+-]+")


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `Model.onnx(path)`, `Model.hf(id)`, `Model.build(name, function)` or `Model.embedded(name)`."""

    kind: Kind
    name: str
    source: str
    shapes: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    function: Callable[[], Any] | None = None
    task: str | None = None
    weights: str = "pretrained"
    config_json: str = "{}"
    revision: str | None = None
    component: str | None = None

    def __post_init__(self) -> None:
        if not self.name or _UNSAFE_IN_IDS.search(self.name):
            raise UsageProblem(
                f"model name {self.name!r} cannot stand in a test id",
                remedy="use letters, digits and . _ + - in name=.",
            )
        if len(self.name) > LONGEST_NAME:
            raise UsageProblem(
                f"model name {self.name[:40]}... has {len(self.name)} characters, and {LONGEST_NAME} are the most that "
                "a test id and the files named after it can do with",
                remedy="give the model a shorter name=.",
            )
        for tensor, shape in self.shapes.items():
            if not isinstance(shape, tuple) or not all(isinstance(size, int) and size > 0 for size in shape):
                raise UsageProblem(f"model {self.name!r}: shape {shape!r} of {tensor!r} must be positive whole numbers")
        for tensor, limits in self.ranges.items():
            if not _is_range(limits):
                raise UsageProblem(
                    f"model {self.name!r}: range {limits!r} of {tensor!r} must be (low, high), two finite numbers"
                )

    @property
    def id(self) -> str:
        return self.name

    @property
    def shown_source(self) -> str:
        """The source as reports show it: an absolute path would tell of the machine, so only its name is left."""
        path = PurePath(self.source.replace("\\", "/"))
        absolute = path.is_absolute() or PureWindowsPath(self.source).is_absolute() or self.source.startswith("/")
        return path.name if absolute else self.source

    @classmethod
    def onnx(
        cls,
        path: str | os.PathLike[str],
        *,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        inputs: Mapping[str, tuple[float, float]] | None = None,
        name: str | None = None,
    ) -> Model:
        """A file; a relative path is relative to the rootdir. `inputs` gives (low, high) of the values fed in."""
        source = str(path)
        return cls(
            kind="onnx",
            name=name or _safe(PurePath(source.replace("\\", "/")).stem),
            source=source,
            shapes={key: _as_shape(value) for key, value in (shapes or {}).items()},
            ranges=dict(inputs or {}),
        )

    @classmethod
    def hf(
        cls,
        id_or_dir: str | os.PathLike[str],
        *,
        task: str,
        weights: str = "pretrained",
        config: Mapping[str, Any] | None = None,
        revision: str | None = None,
        component: str | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        inputs: Mapping[str, tuple[float, float]] | None = None,
        name: str | None = None,
    ) -> Model:
        """A Hugging Face model: a hub id or a local directory, safetensors only, none of its own code.

        `weights="random"` builds the architecture of `config` (with its `model_type`) with seeded weights and no
        download. `component` chooses one part of a composite model, such as the encoder of an encoder/decoder pair.
        """
        if weights not in WEIGHTS:
            raise unknown_name("weights", weights, WEIGHTS)
        source = str(id_or_dir)
        stem = _safe(PurePath(source.replace("\\", "/")).name)
        return cls(
            kind="hf",
            name=name or (f"{stem}.{_safe(component)}" if component else stem),
            source=source,
            shapes={key: _as_shape(value) for key, value in (shapes or {}).items()},
            ranges=dict(inputs or {}),
            task=task,
            weights=weights,
            config_json=msgspec.json.encode(dict(config or {}), order="deterministic").decode(),
            revision=revision,
            component=component,
        )

    @classmethod
    def build(cls, name: str, function: Callable[[], ModelProto]) -> Model:
        """What `function()` returns. It is called once a run, in the test process."""
        source = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
        return cls(kind="build", name=name, source=source, function=function)

    @classmethod
    def embedded(cls, name: str) -> Model:
        """One of the trained models inside this package: `digits-cnn`, `digits-vit`."""
        return cls(kind="embedded", name=name, source=name)


def _as_shape(value: Any) -> Any:
    """A list is as good as a tuple; anything else is left for the check to name."""
    return tuple(value) if isinstance(value, list) else value


def _is_range(limits: object) -> bool:
    if not isinstance(limits, tuple | list) or len(limits) != 2:  # noqa: PLR2004 - low and high
        return False
    low, high = limits
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    return numbers and math.isfinite(low) and math.isfinite(high) and low <= high


def _safe(stem: str) -> str:
    return _UNSAFE_IN_IDS.sub("_", stem) or "model"

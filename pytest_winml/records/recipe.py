"""How a model becomes an artifact."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name

Exporter = Literal["torchscript", "dynamo"]
EXPORTERS = ("torchscript", "dynamo")
PRECISIONS = ("auto", "fp32", "fp16", "w8a8", "w8a16", "w4a16", "dynamic")
OPTIMIZE_WORDS = ("default", "none")


CALIBRATION_METHODS = ("minmax", "entropy", "percentile")


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a static quantization learns its ranges from.

    `data` is `"model"` (the model's own data set), `"random"` (seeded, obeying the inputs' ranges: chosen, never
    fallen back to), or the path of an .npz file whose arrays are named as the inputs, samples first.
    """

    samples: int = 32
    method: str = "minmax"
    per_channel: bool = False
    seed: int = 0
    data: str = "model"

    def __post_init__(self) -> None:
        if type(self.samples) is not int or self.samples < 1:
            raise UsageProblem(f"Calibration(samples={self.samples!r}): a calibration needs at least one sample")
        if self.method not in CALIBRATION_METHODS:
            raise unknown_name("calibration method", self.method, CALIBRATION_METHODS)


class Overrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one part of a graph is to be quantized unlike the rest: node names left out, and types of tensors."""

    exclude_nodes: tuple[str, ...] = ()
    tensor_types: dict[str, str] = msgspec.field(default_factory=dict)


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Recipe()` is the target's own policy; `Recipe(optimize="none", precision="fp32")` leaves the model as it is."""

    opset: int | None = None
    exporter: str = "torchscript"
    optimize: str | tuple[str, ...] = "default"
    precision: str = "auto"
    compile: Literal["auto"] | bool = "auto"
    calibration: Calibration = Calibration()
    overrides: Overrides = Overrides()
    name: str | None = None

    def __post_init__(self) -> None:
        if self.opset is not None and (type(self.opset) is not int or self.opset < 1):
            raise UsageProblem(f"opset={self.opset!r} is no opset", remedy="write a whole number such as 17.")
        if self.exporter not in EXPORTERS:
            raise unknown_name("exporter", self.exporter, EXPORTERS)
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        if self.compile not in ("auto", True, False):
            raise UsageProblem(f'compile={self.compile!r}: expected "auto", True or False')
        if isinstance(self.optimize, str):
            if self.optimize not in OPTIMIZE_WORDS:
                raise UsageProblem(
                    f"optimize={self.optimize!r} is neither 'default' nor 'none'",
                    remedy=f"name single optimizations as a tuple: optimize=({self.optimize!r},).",
                )
        else:
            if not isinstance(self.optimize, tuple | list) or not all(isinstance(one, str) for one in self.optimize):
                raise UsageProblem(f"optimize={self.optimize!r} is neither a word nor a tuple of names")
            if not self.optimize:
                raise UsageProblem("optimize=() names no optimization", remedy='write optimize="none".')
            names = tuple(name.replace("-", "_") for name in self.optimize)
            msgspec.structs.force_setattr(self, "optimize", names)

    @property
    def id(self) -> str:
        """The name, or what differs from `Recipe()`, in the order of the fields."""
        if self.name:
            return self.name
        parts = [
            f"opset{self.opset}" if self.opset else "",
            self.exporter if self.exporter != "torchscript" else "",
            {"default": "", "none": "unoptimized"}[self.optimize]
            if isinstance(self.optimize, str)
            else "+".join(self.optimize),
            self.precision if self.precision != "auto" else "",
            {"auto": "", True: "compiled", False: "uncompiled"}[self.compile],
            _digest("cal", self.calibration, Calibration()),
            _digest("over", self.overrides, Overrides()),
        ]
        return "-".join(part for part in parts if part) or "default"


def _digest(word: str, value: msgspec.Struct, default: msgspec.Struct) -> str:
    """A short mark for settings too long to stand in an id; the same settings always get the same one."""
    if value == default:
        return ""
    return f"{word}{hashlib.sha256(msgspec.json.encode(value, order='deterministic')).hexdigest()[:6]}"

"""How a model becomes an artifact."""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name

Exporter = Literal["torchscript", "dynamo"]
EXPORTERS = ("torchscript", "dynamo")
PRECISIONS = ("auto", "fp32", "fp16", "w8a8", "w8a16", "w4a16", "dynamic")
OPTIMIZE_WORDS = ("default", "none")


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Recipe()` is the target's own policy; `Recipe(optimize="none", precision="fp32")` leaves the model as it is."""

    opset: int | None = None
    exporter: str = "torchscript"
    optimize: str | tuple[str, ...] = "default"
    precision: str = "auto"
    compile: Literal["auto"] | bool = "auto"
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
        ]
        return "-".join(part for part in parts if part) or "default"

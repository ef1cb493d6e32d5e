"""Whether an ONNX file computes what PyTorch computes: per output, over several inputs, the worst of each measure.

For a reference r and a candidate x of n elements,

    cosine  = Σ r·x / (‖r‖ ‖x‖)        1 where both are zero, 0 where one is
    max_abs = max |r - x|
    rms     = sqrt(Σ r² / n)

An export agrees when cosine ≥ 0.9999 and max_abs ≤ 1e-3 rms. Rounding in float32 stays some hundred times below that;
a wrong input order, a lost mask or a folded branch does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

MIN_COSINE = 0.9999
MAX_DIFFERENCE_TO_RMS = 1e-3
DEGENERATE_RMS = 1e-6


@dataclass(frozen=True)
class Agreement:
    cosine: float
    max_abs: float
    rms: float

    @property
    def holds(self) -> bool:
        return self.cosine >= MIN_COSINE and self.max_abs <= MAX_DIFFERENCE_TO_RMS * self.rms

    def worst_with(self, other: Agreement) -> Agreement:
        return Agreement(min(self.cosine, other.cosine), max(self.max_abs, other.max_abs), min(self.rms, other.rms))


def agreement(reference: NDArray[Any], candidate: NDArray[Any]) -> Agreement:
    """In float64. Shapes are equal; NaN on either side is no agreement at all."""
    import numpy as np

    r, x = (array.astype(np.float64).ravel() for array in (reference, candidate))
    rms = math.sqrt(float(np.mean(r * r))) if r.size else 0.0
    norms = float(np.linalg.norm(r)) * float(np.linalg.norm(x))
    cosine = float(r @ x) / norms if norms else float(r.any() == x.any())
    max_abs = float(np.max(np.abs(r - x))) if r.size else 0.0
    if math.isnan(cosine) or math.isnan(max_abs):
        return Agreement(0.0, math.inf, rms)
    return Agreement(cosine, max_abs, rms)


def compare(
    what: str, pairs: Iterable[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]]
) -> dict[str, Agreement]:
    """The worst agreement of each output over pairs of (PyTorch's outputs, the file's); a `BuildError` if one fails."""
    worst: dict[str, Agreement] = {}
    for reference, candidate in pairs:
        for name, expected in reference.items():
            found = candidate[name]
            if found.shape != expected.shape:
                raise BuildError(f"{what}: output {name!r} has shape {found.shape}, PyTorch gives {expected.shape}")
            here = agreement(expected, found)
            worst[name] = worst[name].worst_with(here) if name in worst else here
            if not here.holds:
                raise BuildError(
                    f"{what}: the ONNX file and PyTorch disagree on {name!r}: cosine {here.cosine:.6f}, "
                    f"largest difference {here.max_abs:.3g} where the output's rms is {here.rms:.3g}",
                    remedy="try the other exporter or another opset.",
                )
    return worst

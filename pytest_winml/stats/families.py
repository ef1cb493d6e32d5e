"""Many comparisons at once: a hundred true nothings, judged at 5 % each, give five alarms.

For one that gates, an alarm is confirmed: it stands only if a second test with another seed and fresh sessions alarms
too, which leaves 5 % of 5 %. For many that are read together, q-values: taking all with q <= 10 % as real, about
one in ten of them is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pytest_winml.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.latency import Verdict

_CONFIRMATION = 0x9E3779B9  # an odd constant: neighbouring seeds do not become each other's confirmation


def q_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """Benjamini and Hochberg:  q_(i) = min over j >= i of  p_(j) * n / j,  in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.size and not bool(((p >= 0) & (p <= 1)).all()):
        raise UsageProblem(f"these are not all p-values: {tuple(p_values)}")
    order = np.argsort(p)
    scaled = p[order] * p.size / np.arange(1, p.size + 1)
    q = np.empty_like(p)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return tuple(q.tolist())


def needs_confirmation(verdict: Verdict) -> bool:
    """Only an alarm is run again; what passes has passed."""
    return verdict.outcome == "REGRESSED"


def confirmation_seed(seed: int) -> int:
    """The seed of the second test, the same whenever it is asked for."""
    return (seed ^ _CONFIRMATION) + 1


def confirmed(first: Verdict, second: Verdict) -> Verdict:
    """An alarm that the second test shares stands; otherwise nothing is certain, and both are told.

    The figures are the second test's: the first was picked for being large, and overstates.
    """
    if first.outcome != "REGRESSED":
        return first
    if second.outcome == "REGRESSED":
        return msgspec.structs.replace(second, reasons=("a second test with fresh sessions agrees.", *second.reasons))
    return msgspec.structs.replace(
        second,
        outcome="INCONCLUSIVE" if second.outcome == "INCONCLUSIVE" else second.outcome,
        reasons=("a first test called it slower, a second with fresh sessions does not.", *second.reasons),
    )

"""The interval that belongs to the sequential test: every effect that the test, run against it, has not rejected.

The lower end is  sup { c : "slower by more than c" is established },  the upper end the same with the arms exchanged,
each at the test's own error, 5 % a side: 90 % together, whenever one looks and stops. With six sessions one sign
vector in 64 may be rejected, so that the interval is bounded at the first look: there it is (min d, max d).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.stats.sign_flip import Looks, walk

if TYPE_CHECKING:
    from pytest_winml.stats.location import Floats

_STEPS = 22  # halvings: a four-millionth of the range of the differences


def lower_end(differences: Floats, looks: Looks, known: tuple[float, ...] = ()) -> float:
    """By bisection between a shift below all differences, which is rejected, and one above all, which is not.

    `known` are shifts that decided something. They are asked first, so that the interval agrees with the decision.
    """
    low, high = float(differences.min()), float(differences.max())
    if low == high:
        return low
    for shift in known:
        if low < shift < high:
            low, high = (shift, high) if _rejected(differences, looks, shift) else (low, shift)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _rejected(differences, looks, middle) else (low, middle)
    return low


def interval(differences: Floats, looks: Looks, known: tuple[float, ...] = ()) -> tuple[float, float] | None:
    """In log latency. None before the first look, and where so few sessions can reject nothing."""
    reached = [sessions for sessions in looks.at if sessions <= differences.size]
    if not reached or not any(looks.vectors(sessions) for sessions in reached):
        return None
    low = lower_end(differences, looks, known)
    high = -lower_end(-differences, looks, tuple(-shift for shift in known))
    return (low, high) if low <= high else (high, low)


def _rejected(differences: Floats, looks: Looks, shift: float) -> bool:
    return walk(differences, looks, shift=shift).rejected_at is not None

"""Operators in words, short enough for what pytest prints below a failed assertion."""

from __future__ import annotations

import math
from textwrap import shorten
from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.records.traced import CYCLES, short_ep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.traced import Meaning, TracedOperator

    _Line = tuple[str, TracedOperator | None]  # a line without an operator stands above others

# pytest puts up to eight characters before a line, on a terminal of 80.
WIDTH = 72
MOST_LINES = 9
_SHORT: dict[Meaning, str] = {
    "cycles over all hardware threads": "cycles",
    "kernel wall time": "kernel time",
    "partition wall time": "partition time",
    "EP's own operator time": "EP's time",
}


def cut(text: str, width: int) -> str:
    """Without its middle: a node's name says most at its ends."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def short_name(name: str, op_type: str, width: int) -> str:
    """Exporters end a name with the op type, which stands beside it anyway: that goes before anything else."""
    if len(name) > width and name.endswith(f"/{op_type}"):
        name = f"{name.removesuffix(op_type)}…"
    return cut(name, width)


def node_text(op_type: str, name: str, width: int) -> str:
    """`Conv 'conv1'`, or `Conv (unnamed)`."""
    if not name:
        return cut(f"{op_type} (unnamed)", width)
    room = max(width - len(op_type) - 3, 8)
    return f"{op_type} {cut(repr(short_name(name, op_type, room)), room + 2)}"


def figure_text(figure: float | None, meaning: Meaning) -> str:
    """The number alone for cycles, since the unit stands above it; a time with its unit."""
    if figure is None or not math.isfinite(figure):
        return "-"
    return units.cycles(figure) if meaning == CYCLES else units.milliseconds(figure / 1000)


def operator_text(one: TracedOperator, width: int = WIDTH, *, of: bool = False) -> str:
    """`Conv 'conv1' on QNN, 34.2 %`; `of` what, where the meaning does not stand above it."""
    tail = f" on {short_ep(one.ep)}"
    if one.share is not None:
        tail += f", {units.percent(one.share)}" + (f" of {_SHORT[one.meaning]}" if of else "")
    return node_text(one.op_type, one.name, width - len(tail)) + tail


def operator_lines(operators: Sequence[TracedOperator]) -> list[str]:
    """One line each, below a line that says which work the shares are of."""
    return _first([(f"  {operator_text(one, WIDTH - 2)}", one) for one in operators])


def reasoned_lines(operators: Sequence[TracedOperator], reasons: Sequence[str | None]) -> list[str]:
    """Those with one reason together below it."""
    groups: dict[str | None, list[TracedOperator]] = {}
    for one, reason in zip(operators, reasons, strict=True):
        groups.setdefault(reason, []).append(one)
    lines: list[_Line] = []
    for reason, group in groups.items():
        indent = "  " if reason is None else "    "
        if reason is not None:
            lines.append(("  " + shorten(reason, WIDTH - 2, placeholder=" …"), None))
        lines += [(indent + operator_text(one, WIDTH - len(indent), of=True), one) for one in group]
    return _first(lines)


def _first(lines: Sequence[_Line]) -> list[str]:
    """As many as fit, and a last line for the operators that have no room."""
    if len(lines) <= MOST_LINES:
        return [text for text, _ in lines]
    kept = list(lines[: MOST_LINES - 1])
    while kept[-1][1] is None:
        kept.pop()
    hidden = sum(one is not None for _, one in lines[len(kept) :])
    return [*(text for text, _ in kept), f"  and {hidden} more"]

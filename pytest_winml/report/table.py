"""Tables of plain text that fit a width."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "
_NARROWEST_COLUMN = 8


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Columns as wide as their content; when that is too much, the widest gives way and its cells wrap."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    available = width - len(_GAP) * (len(header) - 1)
    while sum(widths) > available and max(widths) > _NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    lines = _row(header, widths)
    lines.append(_GAP.join("-" * size for size in widths))
    for row in rows:
        lines += _row(row, widths)
    return lines


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    wrapped = [wrap(cell, size) for cell, size in zip(cells, widths, strict=True)]
    height = max(len(part) for part in wrapped)
    return [
        _GAP.join(
            (part[line] if line < len(part) else "").ljust(size) for part, size in zip(wrapped, widths, strict=True)
        ).rstrip()
        for line in range(height)
    ]


def wrap(text: str, width: int) -> list[str]:
    """Breaks at spaces, and inside a word only when the word alone is too long. Line breaks and indents stay."""
    return [line for paragraph in text.splitlines() or [""] for line in _wrap_paragraph(paragraph, width)]


def _wrap_paragraph(text: str, width: int) -> list[str]:
    body = text.lstrip(" ")
    indent = " " * (len(text) - len(body))
    if body and 0 < len(indent) < width:
        return [indent + line for line in _wrap_paragraph(body, width - len(indent))]
    lines: list[str] = []
    line = ""
    for word in body.split(" "):
        rest = word
        while len(rest) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(rest[:width])
            rest = rest[width:]
        joined = f"{line} {rest}" if line else rest
        if len(joined) > width:
            lines.append(line)
            line = rest
        else:
            line = joined
    return [*lines, line] if line or not lines else lines

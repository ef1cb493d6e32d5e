"""Reading a log in which UTF-8 and UTF-16LE lie side by side, as native libraries on Windows leave it.

No mark says where one encoding ends, so the decoder looks for the cheapest explanation of the bytes. Reading `n` bytes
as characters costs a little for what logs are made of and much for what they are not (a NUL or an invalid sequence in
UTF-8, an unpaired surrogate in UTF-16); changing the encoding costs something too, less after the end of a line. With
`cost[i][e]` the least cost of the first `i` bytes, the last character being read in encoding `e`,

    cost[i + len(c)][e] = min over d of  cost[i][d] + change(d, e, i) + price(c, e)

and the path back from the cheaper `cost[n][·]` is the text. Long unmistakable runs are settled by one expression, and
only the gaps between them are searched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_NARROW: Final = 0
_WIDE: Final = 1
_REPLACEMENT = "\ufffd"
_BOM = "\ufeff"
# Bell, backspace and escape are what coloured logs and progress bars add to plain text.
_PLAIN = rb"\x07-\x0d\x1b\x20-\x7e"
_ODD_BYTE = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_CERTAIN = re.compile(rb"(?P<wide>(?:[" + _PLAIN + rb"]\x00){8,})|(?P<narrow>[" + _PLAIN + rb"]{32,}(?!\x00))")

_CHANGE_IN_LINE = 10.0
_CHANGE_AFTER_LINE = 1.0
_NARROW_NUL = 12.0
_NARROW_CONTROL = 4.0
_INVALID = 8.0
_HALF_UNIT = 2.0
_WIDE_OTHER = 4.0
_WIDE_LATIN = 2.0
_WIDE_CONTROL = 6.0


class _Step(NamedTuple):
    length: int
    text: str
    price: float


class _Run(NamedTuple):
    data: bytes
    encoding: int | None  # None: not known


_EDGE = _Run(b"", None)


def decode_mixed(data: bytes) -> str:
    """The text of a log: never raises, leaves plain UTF-8 as it is, and finds UTF-16LE at any offset in it."""
    if not _ODD_BYTE.search(data):
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            pass
    runs = list(_runs(data))
    parts = []
    for index, run in enumerate(runs):
        if run.encoding is None:
            before = runs[index - 1] if index else _EDGE
            after = runs[index + 1] if index + 1 < len(runs) else _EDGE
            parts.append(_search(run.data, before, after))
        else:
            parts.append(run.data.decode("utf-16-le" if run.encoding == _WIDE else "ascii"))
    return "".join(parts)


def _runs(data: bytes) -> Iterator[_Run]:
    end = 0
    for match in _CERTAIN.finditer(data):
        if match.start() > end:
            yield _Run(data[end : match.start()], None)
        yield _Run(match.group(), _WIDE if match.lastgroup == "wide" else _NARROW)
        end = match.end()
    if end < len(data):
        yield _Run(data[end:], None)


def _search(data: bytes, before: _Run, after: _Run) -> str:
    """The cheapest reading of `data` between two runs whose encoding is certain, or the edges of the log."""
    size = len(data)
    cost = [[float("inf")] * 2 for _ in range(size + 1)]
    came: list[list[tuple[int, int, str]]] = [[(0, 0, "")] * 2 for _ in range(size + 1)]
    cost[0] = [_change(before.encoding, encoding, before.data) for encoding in (_NARROW, _WIDE)]
    if before is _EDGE:  # the log may have been cut in the middle of a unit
        half = _Step(1, "", _HALF_UNIT) if data[0] == 0 else _Step(1, _REPLACEMENT, _INVALID)
        cost[1][_WIDE], came[1][_WIDE] = half.price, (0, _WIDE, half.text)
    for start in range(size):
        passed = data[max(0, start - 2) : start]
        for encoding, read in ((_NARROW, _narrow_step), (_WIDE, _wide_step)):
            step = read(data, start)
            end = start + step.length
            for previous in (_NARROW, _WIDE):
                total = cost[start][previous] + _change(previous, encoding, passed) + step.price
                if total < cost[end][encoding]:
                    cost[end][encoding] = total
                    came[end][encoding] = (start, previous, step.text)
    last = min((_NARROW, _WIDE), key=lambda encoding: cost[size][encoding] + _change(after.encoding, encoding, data))
    return _walk_back(came, size, last)


def _walk_back(came: list[list[tuple[int, int, str]]], end: int, encoding: int) -> str:
    parts = []
    while end > 0:
        end, encoding, text = came[end][encoding]
        parts.append(text)
    return "".join(reversed(parts))


def _change(one: int | None, other: int, passed: bytes) -> float:
    """The price of two encodings side by side, after the bytes `passed`."""
    if one is None or one == other:
        return 0.0
    return _CHANGE_AFTER_LINE if passed.endswith((b"\n", b"\n\0")) else _CHANGE_IN_LINE


def _narrow_step(data: bytes, start: int) -> _Step:
    """One UTF-8 character. A stray NUL is half of a UTF-16 unit that was cut: it says nothing and is dropped."""
    first = data[start]
    if first == 0:
        return _Step(1, "", _NARROW_NUL)
    if first < 0x80:  # noqa: PLR2004 - ASCII
        return _Step(1, chr(first), _NARROW_CONTROL if _ODD_BYTE.match(data, start) else 1.0)
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4  # noqa: PLR2004 - UTF-8 lead bytes
    try:
        return _Step(length, data[start : start + length].decode("utf-8"), 1.0 * length)
    except UnicodeDecodeError:
        return _Step(1, _REPLACEMENT, _INVALID)


def _wide_step(data: bytes, start: int) -> _Step:
    """One UTF-16LE character: a unit, a pair of surrogates, or the first half of a unit that was cut."""
    unit = data[start : start + 2]
    if len(unit) < 2:  # noqa: PLR2004 - a unit has two bytes
        return _Step(1, chr(unit[0]), _HALF_UNIT) if 0 < unit[0] < 0x80 else _Step(1, _REPLACEMENT, _INVALID)  # noqa: PLR2004
    try:
        text = unit.decode("utf-16-le")
    except UnicodeDecodeError:
        return _surrogates(data, start)
    return _Step(2, "" if text == _BOM else text, _wide_price(text))


def _surrogates(data: bytes, start: int) -> _Step:
    pair = data[start : start + 4]
    try:
        return _Step(4, pair.decode("utf-16-le"), 2 * _WIDE_OTHER)
    except UnicodeDecodeError:
        return _Step(2, _REPLACEMENT, 2 * _INVALID)


def _wide_price(text: str) -> float:
    if text.isascii():
        return _WIDE_CONTROL if _ODD_BYTE.match(text.encode()) else 1.0
    if text <= "\xff":
        return _WIDE_LATIN
    return _WIDE_OTHER if text.isprintable() else _INVALID

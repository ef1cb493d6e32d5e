"""What a row of QNN's profile says, taken by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = (
    "Msg Timestamp",
    "Message",
    "Time",
    "Unit of Measurement",
    "Timing Source",
    "Event Level",
    "Event Identifier",
)
SOURCES_COLUMN = "ONNX Source Ops"

OperatorKind = Literal["named", "nameless", "input", "output"]
_PSEUDO: dict[bytes, OperatorKind] = {b"Input ": "input", b"Output ": "output"}

# A name may hold anything, this pattern too: the name is all that comes before the last one that ends the column.
_IDENTIFIER = re.compile(rb"(?s)(?:(?P<name>.*):|(?P<pseudo>Input |Output ))?OpId_(?P<id>[0-9]{1,18}) \(cycles\)")
_ENDS_BEFORE_SOURCES = re.compile(rb"OpId_[0-9]+ \(cycles\)(?=,)")


class Operator(Record, frozen=True, kw_only=True):
    """`op_id` is of this process only. `name` is "" for what the compiler inserted without naming it."""

    name: str
    kind: OperatorKind
    op_id: int
    sources: str | None = None


def read_operator(tail: bytes, known: frozenset[str], *, with_sources: bool) -> Operator | None:
    """From the last columns of a NODE row; None where no operator is in them.

    Names and sources may both hold commas and identifiers. A name that is `known` decides between the ways to read
    them; where none is, the longest name that leaves a column for the sources is taken.
    """
    found = [operator for operator in _readings(tail, with_sources=with_sources) if operator is not None]
    if not found:
        return None
    return next((operator for operator in found if operator.name in known), found[0])


def _readings(tail: bytes, *, with_sources: bool) -> Iterator[Operator | None]:
    if not with_sources:
        yield _operator(tail, None)
        return
    ends = [match.end() for match in _ENDS_BEFORE_SOURCES.finditer(tail)]
    for end in reversed(ends):
        yield _operator(tail[:end], tail[end + 1 :])


def _operator(identifier: bytes, sources: bytes | None) -> Operator | None:
    match = _IDENTIFIER.fullmatch(identifier)
    if match is None:
        return None
    name = (match["name"] or b"").decode("utf-8", "backslashreplace")
    kind: OperatorKind = _PSEUDO[match["pseudo"]] if match["pseudo"] else "named" if name else "nameless"
    return Operator(
        name=name,
        kind=kind,
        op_id=int(match["id"]),
        sources=None if sources is None else sources.decode("utf-8", "backslashreplace"),
    )

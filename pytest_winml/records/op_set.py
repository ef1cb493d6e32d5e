"""Which operators an EP makes of a graph, and how many of each: what must stay the same where figures may not.

Schema versions of a saved op set (`OP_SET_SCHEMA`):
1  first: op type, EP, count.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import UsageProblem
from pytest_winml.records.base import Record
from pytest_winml.records.trace_share import check_ran, placed_operators

if TYPE_CHECKING:
    from pytest_winml.records.traced import TracedOperator, TraceRecord

OP_SET_SCHEMA = 1
# A partition is named after the graph's hash, which depends on where the model lies.
_PARTITION = "(partition)"


class OpCount(Record, frozen=True, kw_only=True, order=True):
    op_type: str
    ep: str
    count: int


class OpSet(Record, frozen=True, kw_only=True):
    """A multiset of (op type, EP), in one order whatever order things ran in."""

    schema_version: int = OP_SET_SCHEMA
    ops: tuple[OpCount, ...]

    @classmethod
    def of(cls, trace: TraceRecord) -> OpSet:
        check_ran(trace)
        return cls._counted(Counter(op_key(one) for one in placed_operators(trace)))

    @classmethod
    def _counted(cls, counts: Counter[tuple[str, str]]) -> OpSet:
        return cls(ops=tuple(OpCount(op_type=key[0], ep=key[1], count=counts[key]) for key in sorted(counts)))

    def minus(self, other: OpSet) -> OpSet:
        """What is here and not there."""
        return self._counted(self.counter() - other.counter())

    def save(self, path: str | Path) -> None:
        """As text that a version control system shows the changes of."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        Path(path).write_bytes(text + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> OpSet:
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except FileNotFoundError:
            raise UsageProblem(
                f"there is no saved op set {str(path)!r}", remedy="save one: trace.op_set().save(path)."
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise UsageProblem(f"{str(path)!r} is no saved op set: {error}") from None

    def counter(self) -> Counter[tuple[str, str]]:
        return Counter({(one.op_type, one.ep): one.count for one in self.ops})


def op_key(one: TracedOperator) -> tuple[str, str]:
    return (_PARTITION if one.is_partition else one.op_type), one.ep

"""What can be asked of a trace. The schema is in `records/traced.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.records import chrome_trace, trace_difference, trace_json, trace_requirements, trace_share
from pytest_winml.records.op_set import OpSet
from pytest_winml.records.trace_difference import LEAST_CHANGE, TraceDifference
from pytest_winml.records.traced import (
    TRACE_SCHEMA,
    HardwareSample,
    HardwareUse,
    Meaning,
    OnnxNode,
    PartitionRun,
    TracedInference,
    TracedOperator,
    TracedPartition,
    TraceLevel,
    TraceMetadata,
    TraceRecord,
    TraceStatus,
)

if TYPE_CHECKING:
    from pytest_winml.records.trace_share import Operators, Share

__all__ = [
    "TRACE_SCHEMA", "HardwareSample", "HardwareUse", "Meaning", "OnnxNode", "OpTrace", "PartitionRun", "TraceLevel",
    "TraceMetadata", "TraceStatus", "TracedInference", "TracedOperator", "TracedPartition",
]  # fmt: skip


class OpTrace(TraceRecord, frozen=True, kw_only=True):
    """Where each operator ran and which part of the work it took.

    EPs are named as ORT names them, or for short: `QNNExecutionProvider`, `qnn`. Limits and shares are of one.
    """

    def share(
        self,
        op_type: str | None = None,
        name: str | None = None,
        ep: str | None = None,
        meaning: Meaning | None = None,
    ) -> Share:
        """Of all that was traced with the same meaning.

        An op type that is not in the trace, or only inside others, takes 0. A name stands for all operators that hold
        that node. Where meanings would be mixed, or part of the answer was not traced, it is a `UsageProblem`.
        """
        return trace_share.share(self, op_type=op_type, name=name, ep=ep, meaning=meaning)

    def top(self, n: int = 10, meaning: Meaning | None = None) -> tuple[TracedOperator, ...]:
        """The largest operators of one meaning, the target's own unless said, with their shares."""
        found = meaning or next(iter(self.meanings), None)
        return tuple(one for one, _ in trace_share.by_share(self, found))[:n] if found else ()

    def ops_on(self, ep: str) -> Operators:
        """All operators on an EP, in the order of the trace. What fell back is there even if nobody traced it."""
        return trace_share.ops_on(self, ep)

    def op_set(self) -> OpSet:
        """Op types by EP, with their numbers: `.save(path)` it, and `require_op_set(path)` later."""
        return OpSet.of(self)

    def diff(self, other: OpTrace, least: float = LEAST_CHANGE) -> TraceDifference:
        """From this trace to the other. `least`: the smallest growth that counts, as a share of all work."""
        return trace_difference.difference(self, other, least)

    def to_json(self) -> str:
        """With every null; a figure that is no finite number is null, and named in `notes`."""
        return trace_json.encoded(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> OpTrace:
        return trace_json.decoded(text, cls)

    def to_chrome_trace(self, path: str | Path | None = None) -> dict[str, Any]:
        """As the Chrome trace event format, for Perfetto; also written to `path`."""
        content = chrome_trace.to_chrome_trace(self)
        if path is not None:
            Path(path).write_bytes(msgspec.json.encode(content))
        return content

    def require_no_fallback(self) -> None:
        __tracebackhide__ = True
        _hold(trace_requirements.no_fallback(self))

    def require_on_target(self, op_type: str | None = None, name: str | None = None) -> None:
        """It is in the trace, and nowhere but on the target, be it inside another operator."""
        __tracebackhide__ = True
        _hold(trace_requirements.on_target(self, op_type, name))

    def require_share(
        self,
        op_type: str | None = None,
        name: str | None = None,
        ep: str | None = None,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> None:
        __tracebackhide__ = True
        _hold(trace_requirements.share_within(self.share(op_type, name, ep), at_most, at_least))

    def require_partitions(self, at_most: int) -> None:
        """Of the target."""
        __tracebackhide__ = True
        _hold(trace_requirements.partitions_within(self, at_most))

    def require_op_set(self, saved: OpSet | OpTrace | str | Path) -> None:
        """`saved`: what `op_set()` gave, the path it was saved at, or another trace."""
        __tracebackhide__ = True
        _hold(trace_requirements.same_op_set(self, saved))


def _hold(complaint: str | None) -> None:
    """Its frames are hidden, so that pytest ends at the user's line."""
    __tracebackhide__ = True
    if complaint is not None:
        raise AssertionError(complaint)

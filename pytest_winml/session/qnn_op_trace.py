"""QNN's framework op trace: the EP's own account of which node it refused, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "qnn_op_trace.json"


class _RefusedNode(msgspec.Struct, frozen=True):
    node_name: str
    op_type: str
    reason: str


class _Summary(msgspec.Struct, frozen=True):
    supported_nodes: int | None = None


class _OpTrace(msgspec.Struct, frozen=True):
    unsupported_nodes: list[_RefusedNode] = msgspec.field(default_factory=list)
    summary: _Summary = _Summary()


class Reasons:
    """Refusals by node. Nodes without a name are told apart by their order, which ORT and the EP share."""

    def __init__(self, path: Path) -> None:
        self.found = path.is_file()
        self._by_node: dict[tuple[str, str], list[str]] = defaultdict(list)
        trace = _read(path) if self.found else _OpTrace()
        self.supported_nodes = trace.summary.supported_nodes
        for node in trace.unsupported_nodes:
            self._by_node[node.node_name, node.op_type].append(node.reason)

    def take(self, name: str, op_type: str) -> str | None:
        """The next reason given for such a node; a named node's reason is the same however often it is asked."""
        reasons = self._by_node.get((name, op_type))
        if not reasons:
            return None
        return reasons[0] if name or len(reasons) == 1 else reasons.pop(0)


def _read(path: Path) -> _OpTrace:
    """A trace of another schema gives no reasons; that the EP gives none is then what the placement says."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_OpTrace)
    except msgspec.DecodeError:
        return _OpTrace()

"""What pytest prints where an assertion about placement fails."""

from __future__ import annotations

from pytest_winml import units
from pytest_winml.records.placement import FallbackNode

_SHOWN = 20


def explain_placement(op: str, left: object, right: object) -> list[str] | None:
    """For `placement.fallback_nodes == ()`: every node that left the target, with the EP's reason."""
    if op != "==" or right != () or not isinstance(left, tuple) or not left:
        return None
    nodes = [node for node in left if isinstance(node, FallbackNode)]
    if len(nodes) != len(left):
        return None
    lines = [f"{units.count(len(nodes), 'node')} not on the target:"]
    lines += [repr(node)[1:-1] for node in nodes[:_SHOWN]]
    return lines if len(nodes) <= _SHOWN else [*lines, f"and {len(nodes) - _SHOWN} more"]

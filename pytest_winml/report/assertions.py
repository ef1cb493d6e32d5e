"""What pytest prints where an assertion about placement or a trace fails."""

from __future__ import annotations

from pytest_winml import units
from pytest_winml.records.placement import FallbackNode
from pytest_winml.records.trace_requirements import inside_lines
from pytest_winml.records.trace_share import Operators, Share
from pytest_winml.records.trace_text import operator_lines, reasoned_lines
from pytest_winml.records.traced import TracedOperator

_SHOWN = 20
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def explain(op: str, left: object, right: object) -> list[str] | None:
    """What broke the assertion, or None where it is not about us."""
    if isinstance(left, Share):
        return _explain_share(op, left, f"{float(left)!r} {op} {right!r}")
    if isinstance(right, Share):
        return _explain_share(_FLIPPED.get(op, op), right, f"{left!r} {op} {float(right)!r}")
    return _explain_placement(op, left, right) or _explain_operators(op, left, right)


def _explain_placement(op: str, left: object, right: object) -> list[str] | None:
    """For `placement.fallback_nodes == ()`: every node that left the target, with the EP's reason."""
    if op != "==" or right != () or not isinstance(left, tuple) or not left:
        return None
    nodes = [node for node in left if isinstance(node, FallbackNode)]
    if len(nodes) != len(left):
        return None
    lines = [f"{units.count(len(nodes), 'node')} not on the target:"]
    lines += [repr(node)[1:-1] for node in nodes[:_SHOWN]]
    return lines if len(nodes) <= _SHOWN else [*lines, f"and {len(nodes) - _SHOWN} more"]


def _explain_share(op: str, share: Share, compared: str) -> list[str]:
    """Too much is shown by what was asked for, anything else by what takes the work instead."""
    head = f"{compared}: {share.asked} takes {units.percent(share)} of the {share.meaning}"
    if op in ("<", "<="):
        return [head, *operator_lines(share.chosen)]
    return [head, *inside_lines(share), *operator_lines(share.whole)]


def _explain_operators(op: str, left: object, right: object) -> list[str] | None:
    """For `trace.ops_on(ep) == ()` and any other tuple or list of operators that should be empty."""
    if op != "==" or right not in ((), []) or not isinstance(left, tuple | list) or not left:
        return None
    operators = [one for one in left if isinstance(one, TracedOperator)]
    if len(operators) != len(left):
        return None
    where = f" on {left.ep}" if isinstance(left, Operators) else ""
    reasons = left.reasons if isinstance(left, Operators) else [None] * len(operators)
    return [f"{units.count(len(operators), 'operator')}{where}:", *reasoned_lines(operators, reasons)]

"""What people require of a trace: each answers None, or the complaint with the operators that break it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.errors import UsageProblem
from pytest_winml.records.op_set import OpCount, OpSet, op_key
from pytest_winml.records.trace_share import (
    NO_REASON,
    Share,
    as_operator,
    check_ran,
    filled,
    placed_operators,
    reasons_of,
)
from pytest_winml.records.trace_text import WIDTH, cut, figure_text, operator_lines, reasoned_lines
from pytest_winml.records.traced import CYCLES, PARTITION_TIME, TracedPartition, TraceRecord, ep_key, short_ep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_SHOWN = 8
_SHOWN_NAMES = 3


def no_fallback(trace: TraceRecord) -> str | None:
    nodes = trace.fallback_nodes
    if nodes:
        here = units.count(len(nodes), "node is", "nodes are")
        return _text(f"{here} not on {trace.metadata.target}:", _fallback_lines(trace))
    return _nothing_ran(trace)


def on_target(trace: TraceRecord, op_type: str | None = None, name: str | None = None) -> str | None:
    """Fused into an operator of the target is on the target."""
    if op_type is None and name is None:
        raise UsageProblem("on the target: what?", remedy="say op_type= or name=, or require_no_fallback().")
    check_ran(trace)
    asked = " ".join(filter(None, (op_type, repr(name) if name else None)))
    there = [one for one in placed_operators(trace) if one.holds(name=name, op_type=op_type)]
    nodes = [node for node in trace.fallback_nodes if op_type in (None, node.op_type) and name in (None, node.name)]
    away = [one for one in there if ep_key(one.ep) != ep_key(trace.metadata.ep)]
    away += [as_operator(node) for node in nodes if not any(one.holds(name=node.name) for one in away)]
    if away:
        where = f"{asked} is not on {trace.metadata.target}, but here:"
        return _text(where, reasoned_lines(away, reasons_of(trace, away)))
    if not there:
        types = sorted({one.op_type for one in trace.operators if not one.is_partition})
        shown = ", ".join(types[:_SHOWN]) + (", …" if len(types) > _SHOWN else "")
        return f"no {asked} in the trace; there are: {shown or 'no operators'}"
    return None


def share_within(share: Share, at_most: float | None = None, at_least: float | None = None) -> str | None:
    """Too much is shown by what was asked for, too little by what there is instead."""
    limits = [limit for limit in (at_most, at_least) if limit is not None]
    if not limits or not all(0 <= limit <= 1 for limit in limits):
        raise UsageProblem(
            f"{limits or 'nothing'} is no limit of a share", remedy="say at_most= or at_least=, between 0 and 1."
        )
    taken = f"{share.asked} takes {units.percent(share)} of the {share.meaning}"
    if at_most is not None and share > at_most:
        limit = f"{taken}; at most {units.percent(at_most)} is allowed:"
        return _text(limit, operator_lines(share.chosen))
    if at_least is not None and share < at_least:
        limit = f"{taken}; at least {units.percent(at_least)} is required:"
        return _text(limit, [*inside_lines(share), *operator_lines(share.whole)])
    return None


def partitions_within(trace: TraceRecord, at_most: int) -> str | None:
    mine = [one for one in trace.partitions if ep_key(one.ep) == ep_key(trace.metadata.ep)]
    if len(mine) <= at_most:
        return _nothing_ran(trace)
    head = f"{units.count(len(mine), 'partition')} on {trace.metadata.target}, at most {at_most} allowed"
    if trace.fallback_nodes:
        return _text(f"{head}; not on the target:", _fallback_lines(trace))
    lines = [f"  {one.index}: {units.count(one.operators, 'operator')}{_cost(one)}" for one in mine]
    return _text(f"{head}:", _first(lines))


def same_op_set(trace: TraceRecord, saved: OpSet | TraceRecord | str | Path) -> str | None:
    now, wanted = OpSet.of(trace), _op_set(saved)
    more, fewer = now.minus(wanted), wanted.minus(now)
    lines = [f"  -{one.count} {one.op_type} on {short_ep(one.ep)}" for one in fewer.ops]
    lines += [f"  +{one.count} {one.op_type} on {short_ep(one.ep)}: of {_names(trace, one)}" for one in more.ops]
    return _text("the operators are not those that were saved:", _first(lines)) if lines else None


def _nothing_ran(trace: TraceRecord) -> str | None:
    """What holds of nothing is no good news."""
    check_ran(trace)
    return f"nothing ran on {trace.metadata.target}" if trace.status == "cpu_fallback" else None


def _first(lines: Sequence[str]) -> list[str]:
    shown = [cut(line, WIDTH) for line in lines[:_SHOWN]]
    return shown if len(lines) <= _SHOWN else [*shown, f"  and {len(lines) - _SHOWN} more"]


def inside_lines(share: Share) -> list[str]:
    """A type that has no operator of its own may be inside others."""
    if not share.inside:
        return []
    types = ", ".join(dict.fromkeys(one.op_type for one in share.inside))
    return [cut(f"  {share.asked} has no operator of its own: it is inside {types}", WIDTH)]


def _op_set(saved: OpSet | TraceRecord | str | Path) -> OpSet:
    if isinstance(saved, OpSet):
        return saved
    return OpSet.of(saved) if isinstance(saved, TraceRecord) else OpSet.load(saved)


def _names(trace: TraceRecord, counted: OpCount) -> str:
    """Of all that are of the kind: which of them are new, a multiset does not know."""
    key = (counted.op_type, counted.ep)
    names = [one.name or "(unnamed)" for one in placed_operators(trace) if op_key(one) == key]
    return ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")


def _fallback_lines(trace: TraceRecord) -> list[str]:
    """Each node with its share, where it was traced under its own name."""
    traced = {one.name: one for one in filled(trace) if one.name and not one.is_partition}
    nodes = trace.fallback_nodes
    operators = [traced.get(node.name) or as_operator(node) for node in nodes]
    return reasoned_lines(operators, [node.reason or NO_REASON for node in nodes])


def _cost(one: TracedPartition) -> str:
    parts = [f"{figure_text(one.cycles, CYCLES)} cycles"] if one.cycles is not None else []
    parts += [figure_text(one.time_us, PARTITION_TIME)] if one.time_us is not None else []
    return "".join(f", {part}" for part in parts)


def _text(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, *lines])

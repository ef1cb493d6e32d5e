"""A trace, and what changed between two, as lines a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.records.trace_share import NO_REASON, status_text
from pytest_winml.records.trace_text import cut, figure_text, node_text
from pytest_winml.records.traced import CYCLES, PARTITION_TIME, ep_key, short_ep
from pytest_winml.report.table import table_lines, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_winml.records.placement import FallbackNode
    from pytest_winml.records.trace import OpTrace
    from pytest_winml.records.trace_difference import MeaningTotal, OperatorChange, TraceDifference
    from pytest_winml.records.traced import Meaning, TracedOperator

_SHOWN = 10
_SHOWN_NODES = 20
_NAME_WIDTH = 34
_NONE = "-"
_EMULATED = "emulated: cycles are the emulator's count, and its times are not shown"


def trace_lines(trace: OpTrace, width: int) -> list[str]:
    """What was traced and how it ended, the largest operators by meaning, what fell back, partitions, notes."""
    lines = [*wrap(_headline(trace), width), *wrap(f"status: {status_text(trace)}", width)]
    if trace.metadata.emulated:
        lines += wrap(_EMULATED, width)
    for meaning in trace.meanings:
        lines += ["", *_operator_lines(trace, meaning, width)]
    if trace.fallback_nodes:
        number = units.count(len(trace.fallback_nodes), "node")
        lines += ["", f"not on the target: {number}", *_node_lines(trace.fallback_nodes, width)]
    if trace.partitions:
        lines += ["", *_partition_lines(trace, width)]
    for note in trace.notes:
        lines += ["", *wrap(f"note: {note}", width)]
    return lines


def difference_lines(diff: TraceDifference, width: int) -> list[str]:
    """What grew and shrank, what moved to another EP, what is new and gone, by how much in all."""
    lines = [line for total in diff.totals for line in wrap(_total_text(total), width)]
    if diff.empty:
        lines.append("the same operators on the same EPs, and none grew or shrank")
    lines += _change_lines("grew", diff.grew, width)
    lines += _change_lines("shrank", diff.shrank, width)
    lines += _listed("moved to another EP", [_moved_text(one) for one in diff.moved], width)
    lines += _listed("of another type", [_moved_text(one) for one in diff.retyped], width)
    lines += _listed("new", [_operator_text(one) for one in diff.appeared], width)
    lines += _listed("gone", [_operator_text(one) for one in diff.disappeared], width)
    for what, nodes in (("no longer on the target", diff.new_fallback), ("back on the target", diff.gone_fallback)):
        if nodes:
            lines += ["", f"{what}: {units.count(len(nodes), 'node')}", *_node_lines(nodes, width)]
    if diff.partitions_before != diff.partitions_after:
        lines += ["", f"partitions: {diff.partitions_before} before, {diff.partitions_after} after"]
    for note in diff.notes:
        lines += ["", *wrap(f"note: {note}", width)]
    return lines[1:] if lines and not lines[0] else lines


def _headline(trace: OpTrace) -> str:
    about = trace.metadata
    what = about.case or about.model or "trace"
    emulated = ", emulated" if about.emulated else ""
    runs = f"{units.count(about.runs, 'run')} after {units.count(about.warm_up, 'warm-up')}"
    return f"{what} on {about.target}{emulated}: {about.level} trace by {about.backend}, {runs}"


def _operator_lines(trace: OpTrace, meaning: Meaning, width: int) -> list[str]:
    number = sum(one.meaning == meaning for one in trace.operators)
    shown = trace.top(_SHOWN, meaning)
    many = f"the {len(shown)} largest of {number} operators" if number > len(shown) else units.count(number, "operator")
    header = ("operator", "type", "EP", "share", "cycles" if meaning == CYCLES else "time", "calls")
    rows = [_operator_row(trace, one) for one in shown]
    return [*wrap(f"{many}, by {meaning}", width), *table_lines(header, rows, width)]


def _operator_row(trace: OpTrace, one: TracedOperator) -> tuple[str, ...]:
    share = _NONE if one.share is None else units.percent(one.share)
    name = cut(one.name, _NAME_WIDTH) or "(unnamed)"
    figure = _figure_text(trace, one.ep, one.figure, one.meaning)
    return name, one.op_type, short_ep(one.ep), share, figure, str(one.calls)


def _figure_text(trace: OpTrace, ep: str, figure: float | None, meaning: Meaning) -> str:
    emulators_time = trace.metadata.emulated and meaning != CYCLES and ep_key(ep) == ep_key(trace.metadata.ep)
    return _NONE if emulators_time else figure_text(figure, meaning)


def _node_lines(nodes: Sequence[FallbackNode], width: int) -> list[str]:
    """By reason, since many nodes tend to share one."""
    groups: dict[tuple[str, str], list[FallbackNode]] = {}
    for node in nodes[:_SHOWN_NODES]:
        groups.setdefault((node.ep, node.reason or NO_REASON), []).append(node)
    lines: list[str] = []
    for (ep, reason), group in groups.items():
        lines += wrap(f"  on {short_ep(ep)}: {reason}", width)
        lines += [f"    {node_text(node.op_type, node.name, width - 4)}" for node in group]
    return [*lines, f"  and {len(nodes) - _SHOWN_NODES} more"] if len(nodes) > _SHOWN_NODES else lines


def _partition_lines(trace: OpTrace, width: int) -> list[str]:
    partitions = trace.partitions
    header = ("partition", "EP", "operators", "cycles", "time")
    rows = [
        (
            str(one.index),
            short_ep(one.ep),
            str(one.operators),
            figure_text(one.cycles, CYCLES),
            _figure_text(trace, one.ep, one.time_us, PARTITION_TIME),
        )
        for one in partitions[:_SHOWN]
    ]
    lines = table_lines(header, rows, width)
    return [*lines, f"and {len(partitions) - _SHOWN} more"] if len(partitions) > _SHOWN else lines


def _total_text(total: MeaningTotal) -> str:
    before, after = (figure_text(figure, total.meaning) for figure in (total.before, total.after))
    return f"{total.meaning}: {before} before, {after} after"


def _change_lines(what: str, changes: Sequence[OperatorChange], width: int) -> list[str]:
    if not changes:
        return []
    header = (what, "type", "EP", "before", "after", "change", "of all")
    lines = ["", *table_lines(header, [_change_row(one) for one in changes[:_SHOWN]], width)]
    return [*lines, f"and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else lines


def _change_row(one: OperatorChange) -> tuple[str, ...]:
    after = one.after
    return (
        cut(after.name, _NAME_WIDTH) or "(unnamed)",
        after.op_type,
        short_ep(after.ep),
        figure_text(one.before.figure, one.before.meaning),
        figure_text(after.figure, after.meaning),
        _NONE if one.growth is None else units.signed_percent(one.growth),
        _NONE if one.weight is None else units.signed_percent(one.weight),
    )


def _moved_text(one: OperatorChange) -> str:
    before, after = one.before, one.after
    name = node_text(before.op_type, before.name, 60)
    retyped = f" as {after.op_type}" if before.op_type != after.op_type else ""
    moved = f": {short_ep(before.ep)} → {short_ep(after.ep)}" if one.moved else ""
    return f"{name}{moved}{retyped}"


def _operator_text(one: TracedOperator) -> str:
    share = "" if one.share is None else f", {units.percent(one.share)} of the {one.meaning}"
    return f"{node_text(one.op_type, one.name, 60)} on {short_ep(one.ep)}{share}"


def _listed(what: str, texts: Sequence[str], width: int) -> list[str]:
    if not texts:
        return []
    lines = ["", f"{what}: {units.count(len(texts), 'operator')}", *_indented(texts[:_SHOWN], width)]
    return [*lines, f"  and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else lines


def _indented(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in wrap(f"  {text}", width)]

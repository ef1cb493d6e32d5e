"""A trace, and what changed between two, as lines a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.records.trace_share import NO_REASON, status_text
from pytest_winml.records.trace_text import figure_text, node_text, short_name
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
_NARROWEST_NAME = 16
_NONE = "-"
_OF_ALL = "change is of the operator itself, and of all: of all work that is counted the same way."
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
    if diff.grew or diff.shrank:
        lines += ["", *wrap(_OF_ALL, width)]
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
    rows = [(one, _operator_cells(trace, one)) for one in shown]
    return [*wrap(f"{many}, by {meaning}", width), *_named_table(header, rows, width)]


def _operator_cells(trace: OpTrace, one: TracedOperator) -> tuple[str, ...]:
    share = _NONE if one.share is None else units.percent(one.share)
    figure = _figure_text(trace, one.ep, one.figure, one.meaning)
    return one.op_type, short_ep(one.ep), share, figure, str(one.calls)


def _named_table(
    header: Sequence[str], rows: Sequence[tuple[TracedOperator, tuple[str, ...]]], width: int
) -> list[str]:
    """Names in what room the rest leaves; where two would read the same, they stay whole and wrap."""
    others = [max(map(len, column)) for column in zip(header[1:], *(cells for _, cells in rows), strict=True)]
    room = max(width - sum(others) - 2 * len(others), _NARROWEST_NAME)
    whole = [one.name or "(unnamed)" for one, _ in rows]
    short = [short_name(name, one.op_type, room) for name, (one, _) in zip(whole, rows, strict=True)]
    names = short if len(set(short)) == len(set(whole)) else whole
    return table_lines(header, [(name, *cells) for name, (_, cells) in zip(names, rows, strict=True)], width)


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
    lines = ["", *_named_table(header, [(one.after, _change_cells(one)) for one in changes[:_SHOWN]], width)]
    return [*lines, f"and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else lines


def _change_cells(one: OperatorChange) -> tuple[str, ...]:
    after = one.after
    return (
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

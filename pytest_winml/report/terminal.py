"""The end of a run on the terminal: model x target, worst first, with what was skipped and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.header import target_line
from pytest_winml.report.notes import EMULATED_NOTE, note_lines
from pytest_winml.report.table import table_lines, wrap
from pytest_winml.report.timing import timing_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_winml.records.placement import FallbackNode, Placement
    from pytest_winml.records.report import ItemFinished, Outcome, RunReport

_HEADER = ("model", "recipe", "target", "runs", "placement", "outcome")
_WORST_FIRST: tuple[Outcome, ...] = ("error", "failed", "xpassed", "skipped", "xfailed", "passed")
_SHOWN_NODES = 3
_EMULATED = "emulated: placement and arithmetic are the NPU's own; times are not, and none is reported."
_WIDEST = 140


def summary_lines(report: RunReport, width: int) -> list[str]:
    """The table of cases, the reasons of skips, notes, and what emulation means."""
    if not report.items:
        return ["no winml item finished"]
    width = min(width, _WIDEST)
    groups = _group(report.items)
    host = report.started.environment
    lines = wrap(f"{host.runtime or 'no ONNX Runtime'} on {host.os} {host.machine}, {host.cpu}", width)
    rows = [_case_row(group, recipe) for group, recipe in zip(groups, _recipe_cells(groups), strict=True)]
    lines += ["", *table_lines(_HEADER, rows, width)]
    lines += timing_lines(report.items, width)
    lines += _skips(report.items, width)
    lines += note_lines(((item.case, _own_notes(item)) for item in report.items), width)
    if any(item.availability and item.availability.mode == "emulated" for item in report.items):
        lines += ["", *wrap(_EMULATED, width)]
    return lines


def emulation_lines(report: RunReport) -> list[str]:
    """As the header says it, for a run whose header could not."""
    emulated = (item for item in report.items if item.availability and item.availability.mode == "emulated")
    targets = {item.case.target.id: item for item in emulated}
    return [
        f"winml: {target_line(item.case.target, item.availability)}"
        for _, item in sorted(targets.items())
        if item.availability
    ]


def _group(items: Iterable[ItemFinished]) -> list[list[ItemFinished]]:
    """Items of one case together; cases with the worst outcome first, then by id, whatever order they ran in."""
    by_case: dict[str, list[ItemFinished]] = defaultdict(list)
    for item in items:
        by_case[item.case.id].append(item)
    return sorted(
        by_case.values(), key=lambda group: (min(_WORST_FIRST.index(item.outcome) for item in group), group[0].case.id)
    )


def _own_notes(item: ItemFinished) -> tuple[str, ...]:
    """Without what is said once for the whole run."""
    return tuple(note for note in item.notes if not note.startswith(EMULATED_NOTE))


def _recipe_cells(groups: Sequence[Sequence[ItemFinished]]) -> list[str]:
    """The precision says most in least room; where it makes two rows of a model and target alike, the id stands."""
    short = [(group[0].case.model, _target_cell(group[0]), _short_recipe(group)) for group in groups]
    seen = Counter(short)
    return [cells[-1] if seen[cells] == 1 else _full_recipe(group) for cells, group in zip(short, groups, strict=True)]


def _short_recipe(group: Sequence[ItemFinished]) -> str:
    recipe = group[0].case.recipe
    return recipe.name or _precision(group) or recipe.precision


def _full_recipe(group: Sequence[ItemFinished]) -> str:
    recipe, precision = group[0].case.recipe, _precision(group)
    return recipe.id if precision in (None, recipe.precision) else f"{recipe.id} ({precision})"


def _precision(group: Sequence[ItemFinished]) -> str | None:
    return next((item.artifact.precision for item in group if item.artifact), None)


def _case_row(group: Sequence[ItemFinished], recipe: str) -> tuple[str, ...]:
    first = group[0]
    placement = next((item.placement for item in group if item.placement), None)
    return (
        first.case.model,
        recipe,
        _target_cell(first),
        first.availability.mode if first.availability else "unknown",
        placement_text(placement) if placement else "-",
        _outcome_cell(group),
    )


def _target_cell(item: ItemFinished) -> str:
    resolved = item.availability.resolved if item.availability else None
    target = item.case.target
    return target.id if resolved in (None, target.spec) else f"{target.id} → {resolved}"


def _outcome_cell(group: Sequence[ItemFinished]) -> str:
    counts = Counter(item.outcome for item in group)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in _WORST_FIRST if counts[outcome])


def placement_text(placement: Placement) -> str:
    """`58 of 58 nodes, 1 partition`, or how many are elsewhere, which, and where."""
    elsewhere = placement.fallback_nodes
    parts = [_nodes_text(placement)]
    if placement.target != "cpu":
        parts.append(units.count(placement.partitions, "partition"))
    if placement.ep_context:
        parts.append("compiled")
    text = ", ".join(parts)
    if elsewhere:
        shown = ", ".join(_node_text(node) for node in elsewhere[:_SHOWN_NODES])
        more = f" and {len(elsewhere) - _SHOWN_NODES} more" if len(elsewhere) > _SHOWN_NODES else ""
        eps = dict.fromkeys(_short_ep(node.ep) for node in elsewhere)
        text += f"; on {', '.join(eps)}: {shown}{more}"
    return text


def _nodes_text(placement: Placement) -> str:
    """What a compiled model holds is counted where the EP left an account of it."""
    elsewhere = len(placement.fallback_nodes)
    if placement.ep_context and placement.compiled_nodes is None:
        return f"all but {units.count(elsewhere, 'node')}" if elsewhere else "all nodes"
    inside = placement.compiled_nodes if placement.compiled_nodes is not None else len(placement.target_nodes)
    return f"{inside} of {inside + elsewhere} nodes"


def _node_text(node: FallbackNode) -> str:
    return f"{node.op_type} {node.name}" if node.name else f"{node.op_type} (unnamed)"


def _short_ep(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def _skips(items: Sequence[ItemFinished], width: int) -> list[str]:
    reasons = Counter(
        (item.case.target.spec, item.skip_reason or "no reason given") for item in items if item.outcome == "skipped"
    )
    lines: list[str] = []
    for (spec, reason), number in sorted(reasons.items()):
        lines += ["", *wrap(f"skipped {spec} ({units.count(number, 'test')}): {reason}", width)]
    return lines

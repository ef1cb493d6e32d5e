"""What changed between two traces of one model: what grew, what ran elsewhere, what is new.

An operator is found again by its name, then by the ONNX nodes behind it, then by its place among those of its type.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_winml.records.base import Record
from pytest_winml.records.placement import FallbackNode
from pytest_winml.records.trace_share import filled, status_text
from pytest_winml.records.traced import WITH_FIGURES, Meaning, TracedOperator, ep_key

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from pytest_winml.records.traced import TraceRecord

# Of all work: less than this is noise of small operators, and none of the answer to "what became slower".
LEAST_CHANGE = 0.005


class OperatorChange(Record, frozen=True, kw_only=True):
    """One operator in both traces. `weight` is what it won or lost, as a share of all work of the larger trace.

    `weight` is None where the figures do not mean the same, or are not there; where there are only shares, their
    difference.
    """

    before: TracedOperator
    after: TracedOperator
    weight: float | None = None

    @property
    def moved(self) -> bool:
        return ep_key(self.before.ep) != ep_key(self.after.ep)

    @property
    def growth(self) -> float | None:
        """Relative to itself: +0.5 is half as much again; None for what cannot be divided."""
        before, after = self.before.figure, self.after.figure
        if self.before.meaning != self.after.meaning or not before or after is None:
            return None
        growth = after / before - 1
        return growth if math.isfinite(growth) else None


class MeaningTotal(Record, frozen=True, kw_only=True):
    """All that was traced with one meaning, in cycles or microseconds; None where a trace has none or not all of it."""

    meaning: Meaning
    before: float | None
    after: float | None


class TraceDifference(Record, frozen=True, kw_only=True):
    """From one trace to another, the weightiest first. Operators are there with their shares.

    `retyped` are of another op type on the same EP. `notes` say why figures are not set against each other.
    """

    totals: tuple[MeaningTotal, ...] = ()
    grew: tuple[OperatorChange, ...] = ()
    shrank: tuple[OperatorChange, ...] = ()
    moved: tuple[OperatorChange, ...] = ()
    retyped: tuple[OperatorChange, ...] = ()
    appeared: tuple[TracedOperator, ...] = ()
    disappeared: tuple[TracedOperator, ...] = ()
    new_fallback: tuple[FallbackNode, ...] = ()
    gone_fallback: tuple[FallbackNode, ...] = ()
    partitions_before: int = 0
    partitions_after: int = 0
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing worth telling; totals may still differ by noise."""
        parts = (
            self.grew, self.shrank, self.moved, self.retyped, self.appeared, self.disappeared, self.new_fallback,
            self.gone_fallback,
        )  # fmt: skip
        return not any(parts) and self.partitions_before == self.partitions_after


def difference(before: TraceRecord, after: TraceRecord, least: float = LEAST_CHANGE) -> TraceDifference:
    """`least`: the smallest change that counts as growth, as a share of all work."""
    totals = _totals(before, after)
    pairs, gone, new = _matched(filled(before), filled(after))
    changes = [_change(one, other, totals) for one, other in pairs]
    grew = [one for one in changes if one.weight is not None and one.weight > 0 and one.weight >= least]
    shrank = [one for one in changes if one.weight is not None and one.weight < 0 and one.weight <= -least]
    moved = [one for one in changes if one.moved]
    retyped = [one for one in changes if not one.moved and _type_of(one.before) != _type_of(one.after)]
    return TraceDifference(
        totals=totals,
        grew=_weightiest_first(grew),
        shrank=_weightiest_first(shrank),
        moved=tuple(moved),
        retyped=tuple(retyped),
        appeared=_largest_first(new),
        disappeared=_largest_first(gone),
        new_fallback=_only_in_first(after.fallback_nodes, before.fallback_nodes),
        gone_fallback=_only_in_first(before.fallback_nodes, after.fallback_nodes),
        partitions_before=len(before.partitions),
        partitions_after=len(after.partitions),
        notes=_notes(before, after),
    )


def _matched(
    before: Sequence[TracedOperator], after: Sequence[TracedOperator]
) -> tuple[list[tuple[TracedOperator, TracedOperator]], list[TracedOperator], list[TracedOperator]]:
    """Pairs in the order of the first trace, and what is left of each."""
    left, right = dict(enumerate(before)), dict(enumerate(after))
    pairs: dict[int, int] = {}
    for key in (_name, _nodes, _kind):
        there = _by_key(right, key)
        for label, place in _by_key(left, key).items():
            if label in there:
                pairs[place] = there[label]
                del left[place], right[there[label]]
    found = [(before[place], after[pairs[place]]) for place in sorted(pairs)]
    return found, list(left.values()), list(right.values())


def _by_key(
    operators: dict[int, TracedOperator], key: Callable[[TracedOperator], Hashable | None]
) -> dict[tuple[Hashable, int], int]:
    """(key, its how-manieth) → place; without those that have no key."""
    seen: Counter[Hashable] = Counter()
    found: dict[tuple[Hashable, int], int] = {}
    for place, one in operators.items():
        label = key(one)
        if label is not None:
            found[label, seen[label]] = place
            seen[label] += 1
    return found


def _name(one: TracedOperator) -> Hashable | None:
    return (one.is_partition, one.name) if one.name else None


def _nodes(one: TracedOperator) -> Hashable | None:
    names = tuple(sorted(node.name for node in one.onnx_nodes if node.name))
    return (one.is_partition, names) if names else None


def _kind(one: TracedOperator) -> Hashable:
    return one.is_partition, _type_of(one)


def _type_of(one: TracedOperator) -> str | None:
    """A partition's is a hash of where the model lies."""
    return None if one.is_partition else one.op_type


def _change(before: TracedOperator, after: TracedOperator, totals: Iterable[MeaningTotal]) -> OperatorChange:
    return OperatorChange(before=before, after=after, weight=_weight(before, after, totals))


def _weight(before: TracedOperator, after: TracedOperator, totals: Iterable[MeaningTotal]) -> float | None:
    if before.meaning != after.meaning:
        return None
    total = next(one for one in totals if one.meaning == before.meaning)
    whole = max(total.before or 0.0, total.after or 0.0)
    if whole > 0 and before.figure is not None and after.figure is not None:
        return (after.figure - before.figure) / whole
    if before.share is not None and after.share is not None:
        return after.share - before.share
    return None


def _totals(before: TraceRecord, after: TraceRecord) -> tuple[MeaningTotal, ...]:
    meanings = sorted({*before.meanings, *after.meanings})
    return tuple(
        MeaningTotal(meaning=meaning, before=_total(before, meaning), after=_total(after, meaning))
        for meaning in meanings
    )


def _total(trace: TraceRecord, meaning: Meaning) -> float | None:
    figures = [one.figure for one in trace.operators if one.meaning == meaning]
    known = [figure for figure in figures if figure is not None]
    return math.fsum(known) if known and len(known) == len(figures) else None


def _weightiest_first(changes: Iterable[OperatorChange]) -> tuple[OperatorChange, ...]:
    return tuple(sorted(changes, key=lambda one: abs(one.weight or 0.0), reverse=True))


def _largest_first(operators: Iterable[TracedOperator]) -> tuple[TracedOperator, ...]:
    return tuple(sorted(operators, key=lambda one: one.share or 0.0, reverse=True))


def _only_in_first(these: Iterable[FallbackNode], those: Iterable[FallbackNode]) -> tuple[FallbackNode, ...]:
    """Reasons are wording, and make no node another one."""
    left = Counter(_node_key(node) for node in those)
    found: dict[tuple[str, ...], list[FallbackNode]] = defaultdict(list)
    for node in these:
        found[_node_key(node)].append(node)
    return tuple(node for key, nodes in found.items() for node in nodes[left[key] :])


def _node_key(node: FallbackNode) -> tuple[str, ...]:
    return node.name, node.op_type, node.domain, ep_key(node.ep)


def _notes(before: TraceRecord, after: TraceRecord) -> tuple[str, ...]:
    notes = [
        f"the trace {which} has no figures: {status_text(trace)}"
        for which, trace in (("before", before), ("after", after))
        if trace.status not in WITH_FIGURES
    ]
    for what, one, other in (
        ("target", before.metadata.target, after.metadata.target),
        ("level", before.metadata.level, after.metadata.level),
        ("emulated", before.metadata.emulated, after.metadata.emulated),
    ):
        if one != other:
            notes.append(f"{what}: {one} before, {other} after")
    if before.operators and after.operators and not set(before.meanings) & set(after.meanings):
        notes.append(f"{before.meanings[0]} before, {after.meanings[0]} after: not compared")
    return tuple(notes)

"""Which part of the traced work something takes: of one meaning only, since cycles and microseconds do not add up."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name
from pytest_winml.records.target import EXECUTION_PROVIDERS
from pytest_winml.records.traced import (
    WITH_FIGURES,
    Meaning,
    TracedOperator,
    TraceRecord,
    ep_key,
    short_ep,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_winml.records.placement import FallbackNode

NO_REASON = "the EP gives no reason"


class Share(float):
    """A share of one that can say what it is made of: a float everywhere else, and a plain one after arithmetic.

    `whole` is all that was traced with that meaning, the largest first, and `chosen` what was asked for.
    `inside` are operators that hold a node of the type in question without being of it.
    """

    __slots__ = ("asked", "chosen", "inside", "meaning", "whole")

    asked: str
    meaning: Meaning | None
    chosen: tuple[TracedOperator, ...]
    whole: tuple[TracedOperator, ...]
    inside: tuple[TracedOperator, ...]

    # A copy is made of the number alone, and gets the rest after that.
    def __new__(
        cls,
        value: float,
        *,
        asked: str = "",
        meaning: Meaning | None = None,
        chosen: tuple[TracedOperator, ...] = (),
        whole: tuple[TracedOperator, ...] = (),
        inside: tuple[TracedOperator, ...] = (),
    ) -> Self:
        self = super().__new__(cls, value)
        self.asked, self.meaning, self.chosen, self.whole, self.inside = asked, meaning, chosen, whole, inside
        return self


class Operators(tuple[TracedOperator, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """The operators on one EP, and beside each why it is not on the target, where it should be there."""

    ep: str
    reasons: tuple[str | None, ...]

    @classmethod
    def on(cls, ep: str, operators: Iterable[TracedOperator], reasons: tuple[str | None, ...]) -> Operators:
        self = cls(operators)
        self.ep, self.reasons = ep, reasons
        return self


def share(
    trace: TraceRecord,
    *,
    op_type: str | None = None,
    name: str | None = None,
    ep: str | None = None,
    meaning: Meaning | None = None,
) -> Share:
    check_figures(trace)
    asked = _asked(op_type, name, ep)
    key = None if ep is None else known_ep(trace, ep)

    def fits(one: TracedOperator) -> bool:
        return op_type in (None, one.op_type) and key in (None, ep_key(one.ep)) and one.holds(name=name)

    _check_that_all_was_traced(
        asked, [one for one in _unseen(trace) if fits(one) or (op_type is None and name is None)]
    )
    if name is not None and not any(one.holds(name=name) for one in trace.operators):
        raise _unknown_operator(trace, name)
    chosen = [one for one in trace.operators if fits(one) and meaning in (None, one.meaning)]
    if meaning is None:
        chosen = _finest(chosen)
    found = _known_meaning(trace, meaning) if meaning else _one_meaning(chosen, trace, asked)
    if ep is not None and op_type is None and name is None:
        _check_that_eps_compare(trace, found, ep)
    places = {id(one) for one in chosen}
    pairs = by_share(trace, found)
    part = tuple(one for one, original in pairs if id(original) in places)
    whole = tuple(one for one, _ in pairs)
    holders = [one for one in trace.operators if op_type is not None and not chosen and one.holds(op_type=op_type)]
    return Share(_sum(part, whole, asked), asked=asked, meaning=found, chosen=part, whole=whole, inside=tuple(holders))


def by_share(trace: TraceRecord, meaning: Meaning) -> tuple[tuple[TracedOperator, TracedOperator], ...]:
    """The operators of a meaning with their shares filled in, the largest first, each with the one it was made of."""
    same = [one for one in trace.operators if one.meaning == meaning]
    figures = [one.figure for one in same]
    known = [figure for figure in figures if figure is not None]
    total = math.fsum(known)
    countable = len(known) == len(same) and total > 0
    shares = [(figure or 0.0) / total for figure in figures] if countable else [_given(one) for one in same]
    pairs = [
        (msgspec.structs.replace(one, share=portion) if portion != one.share else one, one)
        for one, portion in zip(same, shares, strict=True)
    ]
    return tuple(sorted(pairs, key=lambda pair: -1.0 if pair[0].share is None else pair[0].share, reverse=True))


def filled(trace: TraceRecord) -> tuple[TracedOperator, ...]:
    """The operators in the trace's own order, with their shares."""
    found = {id(original): one for meaning in trace.meanings for one, original in by_share(trace, meaning)}
    return tuple(found[id(one)] for one in trace.operators)


def placed_operators(trace: TraceRecord) -> tuple[TracedOperator, ...]:
    """All that ran, with the nodes of an EP that nobody traced: what has no figure was there all the same."""
    return (*filled(trace), *_unseen(trace))


def _unseen(trace: TraceRecord) -> tuple[TracedOperator, ...]:
    traced = {ep_key(one.ep) for one in trace.operators}
    return tuple(as_operator(node) for node in trace.fallback_nodes if ep_key(node.ep) not in traced)


def as_operator(node: FallbackNode) -> TracedOperator:
    """A node without figures."""
    return TracedOperator(name=node.name, op_type=node.op_type, ep=node.ep, meaning="kernel wall time")


def ops_on(trace: TraceRecord, ep: str) -> Operators:
    check_ran(trace)
    key = known_ep(trace, ep)
    here = [one for one in placed_operators(trace) if ep_key(one.ep) == key]
    return Operators.on(ep, here, reasons_of(trace, here))


def reasons_of(trace: TraceRecord, operators: Iterable[TracedOperator]) -> tuple[str | None, ...]:
    """Why each is where it is: the EP's reason, that it gives none, or None for what did not fall back."""
    return tuple(_reason(trace, one) for one in operators)


def _reason(trace: TraceRecord, one: TracedOperator) -> str | None:
    for node in trace.fallback_nodes:
        if ep_key(node.ep) == ep_key(one.ep) and one.holds(name=node.name, op_type=None if node.name else node.op_type):
            return node.reason or NO_REASON
    return None


def check_figures(trace: TraceRecord) -> None:
    if trace.status not in WITH_FIGURES or not trace.operators:
        raise UsageProblem(
            f"the trace on {trace.metadata.target} has no figures: {status_text(trace)}",
            remedy="look at `.status` and `.error` before asking for shares.",
        )


def check_ran(trace: TraceRecord) -> None:
    """An empty trace is no proof that nothing is on an EP."""
    if trace.status not in (*WITH_FIGURES, "cpu_fallback"):
        raise UsageProblem(f"the trace on {trace.metadata.target} does not say what ran: {status_text(trace)}")


def status_text(trace: TraceRecord) -> str:
    """`no_data: the EP wrote no file`; the error, and why a lesser level was taken."""
    why = [text for text in (trace.error, trace.reason) if text]
    return f"{trace.status}: {'; '.join(why)}" if why else trace.status


def known_ep(trace: TraceRecord, ep: str) -> str:
    """An EP that has nothing in the trace is a fair question; one that does not exist is a typing error."""
    known = {**{ep_key(one.provider): one.provider for one in EXECUTION_PROVIDERS}, **trace.eps}
    if ep_key(ep) not in known:
        raise unknown_name("execution provider", ep, [*known, *known.values()])
    return ep_key(ep)


def _known_meaning(trace: TraceRecord, meaning: Meaning) -> Meaning:
    if meaning not in trace.meanings:
        raise unknown_name("meaning", meaning, trace.meanings)
    return meaning


def _finest(chosen: list[TracedOperator]) -> list[TracedOperator]:
    """A partition holds what its operators are made of: it answers only where there is nothing finer."""
    return [one for one in chosen if not one.is_partition] or chosen


def _one_meaning(chosen: Sequence[TracedOperator], trace: TraceRecord, asked: str) -> Meaning:
    found = tuple(dict.fromkeys(one.meaning for one in chosen))
    if len(found) > 1:
        raise UsageProblem(
            f"the share of {asked} would add {' and '.join(found)}, which do not add up",
            remedy="say which with meaning=, or narrow it with ep=.",
        )
    return found[0] if found else trace.meanings[0]


def _check_that_all_was_traced(asked: str, unseen: Sequence[TracedOperator]) -> None:
    if unseen:
        one = unseen[0]
        raise UsageProblem(
            f"the share of {asked} is not known: {one.op_type} {one.name!r} ran on {short_ep(one.ep)}, "
            "where nothing was traced",
            remedy="narrow it with op_type= and ep=, or ask for fallback_nodes.",
        )


def _check_that_eps_compare(trace: TraceRecord, meaning: Meaning, ep: str) -> None:
    """Of its own cycles an EP always has all: that is no answer while other EPs are counted in another way."""
    other = next((one for one in trace.operators if one.meaning != meaning and ep_key(one.ep) != ep_key(ep)), None)
    if other is not None:
        raise UsageProblem(
            f"the share of {short_ep(ep)} cannot be said: it would be of {meaning}, "
            f"and {short_ep(other.ep)} has {other.meaning}",
            remedy="ask for ops_on(), or for the share of an op type.",
        )


def _sum(chosen: Sequence[TracedOperator], whole: Sequence[TracedOperator], asked: str) -> float:
    for one in chosen:
        if one.share is None:
            raise UsageProblem(f"the share of {asked} is not known: {one.op_type} {one.name!r} has no figure")
    if chosen and len(chosen) == len(whole):
        return 1.0
    return min(1.0, math.fsum(one.share for one in chosen if one.share is not None))


def _given(one: TracedOperator) -> float | None:
    return one.share if one.share is not None and math.isfinite(one.share) else None


def _unknown_operator(trace: TraceRecord, name: str) -> UsageProblem:
    """A graph has too many names to list."""
    names = {node.name for one in trace.operators for node in one.onnx_nodes} | {one.name for one in trace.operators}
    near = get_close_matches(name, sorted(names - {""}), n=1)
    return UsageProblem(
        f"no operator {name!r} in the trace", remedy=f"did you mean {near[0]!r}?" if near else "see top() for names."
    )


def _asked(op_type: str | None, name: str | None, ep: str | None) -> str:
    parts = [op_type] if op_type else []
    parts += [repr(name)] if name else []
    parts += [f"on {short_ep(ep)}"] if ep else []
    return " ".join(parts) or "everything"

"""Times on the terminal: a table of what was measured, verdicts, and gates that failed or could not be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.table import table_lines, wrap
from pytest_winml.report.trace import difference_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.latency import Verdict
    from pytest_winml.records.measurement import Comparison, Measured
    from pytest_winml.records.report import ItemFinished

_HEADER = ("timed", "p50", "p90", "p99", "samples", "size", "memory")
_UNSUPPORTED = "too few"


def timing_lines(items: Sequence[ItemFinished], width: int) -> list[str]:
    rows = [(item.case.id, *_figures(item.measured)) for item in items if item.measured]
    lines = ["", *table_lines(_HEADER, rows, width)] if rows else []
    compared = [(item, comparison) for item in items for comparison in item.comparisons]
    for (item, comparison), q_value in zip(compared, _q_values([one for _, one in compared]), strict=True):
        lines += wrap(f"{item.case.id}: {comparison_text(comparison)}{q_value}", width)
        lines += _explanation(comparison, width)
    for item in items:
        for note in item.measured.notes if item.measured else ():
            lines += wrap(f"{item.case.id}: {note}", width)
    return lines + _gates(items, width)


def _explanation(comparison: Comparison, width: int) -> list[str]:
    if comparison.explained is not None:
        return [f"  {line}" for line in difference_lines(comparison.explained, width - 2)]
    return wrap(f"  not explained: {comparison.unexplained}", width) if comparison.unexplained else []


def _q_values(comparisons: Sequence[Comparison]) -> list[str]:
    """For verdicts that are read together: the share of false ones among all that look at least as certain."""
    known = {place: one.verdict.p_value for place, one in enumerate(comparisons) if one.verdict.p_value is not None}
    if len(known) < 2:  # noqa: PLR2004 - one comparison is no family
        return [""] * len(comparisons)
    from pytest_winml.stats.families import q_values

    shown = dict(zip(known, q_values(list(known.values())), strict=True))
    return [f", q {shown[place]:.2g}" if place in shown else "" for place in range(len(comparisons))]


def _figures(measured: Measured) -> tuple[str, ...]:
    latency, memory = measured.latency, measured.memory
    count = len(latency.samples.times_ns)
    return (
        units.milliseconds(latency.p50_ms),
        _UNSUPPORTED if latency.p90_ms is None else units.milliseconds(latency.p90_ms),
        _UNSUPPORTED if latency.p99_ms is None else units.milliseconds(latency.p99_ms),
        f"{len(latency.sessions)} x {count // len(latency.sessions)}",
        units.byte_size(memory.artifact_bytes),
        "unknown" if memory.peak_bytes is None else units.byte_size(memory.peak_bytes),
    )


def comparison_text(comparison: Comparison) -> str:
    return f"{verdict_text(comparison.verdict)}, against {comparison.against}"


def verdict_text(verdict: Verdict) -> str:
    """`REGRESSED, p50 12.3 % slower (90 % interval +9.8 % to +14.1 %), 6 sessions, co-resident, seed 7`."""
    parts: list[str] = [verdict.outcome]
    if verdict.effect is not None:
        change = f"{verdict.objective} {units.change(verdict.effect)}"
        if verdict.interval is not None:
            low, high = verdict.interval
            change += f" (90 % interval {units.signed_percent(low)} to {units.signed_percent(high)})"
        parts.append(change)
    if verdict.sessions:
        parts += [units.count(verdict.sessions, "session"), verdict.route]
    if verdict.mde is not None:
        parts.append(f"could have found {units.percent(verdict.mde)}")
    if verdict.seed is not None:
        parts.append(f"seed {verdict.seed}")
    return ", ".join(parts)


def _gates(items: Sequence[ItemFinished], width: int) -> list[str]:
    lines: list[str] = []
    for status, heading in (("failed", "gates failed:"), ("not applied", "gates not applied:")):
        found = [(item, gate) for item in items for gate in item.gates if gate.status == status]
        if found:
            lines += ["", heading]
        for item, gate in found:
            lines += wrap(f"  {item.case.id}: {gate.sentence}", width)
    return lines

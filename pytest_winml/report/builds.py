"""The end of a build-only run on the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.notes import idle_notes, note_lines
from pytest_winml.report.table import table_lines, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.build import BuildOutcome

_HEADER = ("model", "recipe", "target", "precision", "size", "stages", "outcome")
_WORST_FIRST = ("failed", "timed out", "skipped", "built", "reused")


def build_lines(outcomes: Sequence[BuildOutcome], width: int) -> list[str]:
    """The table, worst first; then why each case that was not built was not; then what was built in all."""
    ordered = sorted(outcomes, key=lambda one: (_WORST_FIRST.index(one.status), one.case.id))
    lines = table_lines(_HEADER, [_row(one) for one in ordered], width)
    for one in ordered:
        if one.reason:
            where = f" at stage {one.stage}" if one.stage else ""
            whose = " (infrastructure, not the model)" if one.infrastructure else ""
            lines += ["", *wrap(f"{one.status}{where}{whose}: {one.case.id}: {one.reason}", width)]
    lines += note_lines(((one.case, idle_notes(one.case.recipe, one.stages)) for one in ordered), width)
    counts = Counter(run.stage for one in outcomes for run in one.stages if not run.reused)
    built = ", ".join(f"{stage} x {number}" for stage, number in sorted(counts.items())) or "nothing"
    return [*lines, "", f"built in this run: {built}"]


def _row(one: BuildOutcome) -> tuple[str, ...]:
    stages = " ".join(f"({run.stage})" if run.reused else run.stage for run in one.stages)
    stopped = f", no {one.stopped_before} here" if one.stopped_before else ""
    return (
        one.case.model,
        one.case.recipe.id,
        one.case.target.id,
        one.precision or "-",
        units.byte_size(one.size_bytes) if one.size_bytes is not None else "-",
        (stages or "as it is") + stopped if one.status in ("built", "reused") else "-",
        one.status,
    )

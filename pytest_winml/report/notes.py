"""What is worth knowing of a case besides its outcome, such as what its recipe asks for in vain."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pytest_winml.report.table import wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_winml.records.artifact import StageRun
    from pytest_winml.records.case import CaseRef
    from pytest_winml.records.recipe import Recipe

EMULATED_NOTE = "emulated: "
_SHOWN_CASES = 3


def note_lines(noted: Iterable[tuple[CaseRef, Iterable[str]]], width: int) -> list[str]:
    """Each note once, with the cases it is of."""
    cases: dict[str, dict[str, None]] = defaultdict(dict)
    for case, notes in noted:
        for note in notes:
            cases[note][case.id] = None
    lines: list[str] = []
    for note, ids in sorted(cases.items()):
        shown = sorted(ids)
        more = f" and {len(shown) - _SHOWN_CASES} more" if len(shown) > _SHOWN_CASES else ""
        lines += ["", *wrap(f"note: {note} ({', '.join(shown[:_SHOWN_CASES])}{more})", width)]
    return lines


def idle_notes(recipe: Recipe, runs: Sequence[StageRun]) -> tuple[str, ...]:
    """One sentence per stage that found nothing to do; the default asks for nothing in particular, and has none."""
    return tuple(note for run in runs for note in (_idle_optimizations if run.did_not_fire else _idle)(recipe, run))


def _idle_optimizations(recipe: Recipe, run: StageRun) -> tuple[str, ...]:
    """Of what the user names: what a name needs besides itself is on only for its sake."""
    asked = {_key(name) for name in recipe.optimize} if isinstance(recipe.optimize, tuple) else set()
    idle = {name: why for name, why in run.did_not_fire.items() if _key(name) in asked}
    silent = ", ".join(name for name, why in idle.items() if not why)
    notes = [f"optimize={silent} changed nothing in this graph"] if silent else []
    return (*notes, *(f"optimize={name} changed nothing: {why}" for name, why in idle.items() if why))


def _idle(recipe: Recipe, run: StageRun) -> tuple[str, ...]:
    if run.stage == "quantize" and run.no_op:
        return (f"precision={recipe.precision} changed nothing in this graph",)
    return ()


def _key(name: str) -> str:
    """Names are taken however they are spelled."""
    return name.lower().replace("-", "").replace("_", "")

"""Two runs held against each other, as lines a person reads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.notes import note_lines
from pytest_winml.report.table import table_lines, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.comparison import CaseComparison, ComparedRun, RunComparison
    from pytest_winml.records.latency import VerdictOutcome

_HEADER = ("case", "before", "after", "change", "90 % interval")
_WORST_FIRST: tuple[VerdictOutcome, ...] = ("REGRESSED", "NOT_COMPARABLE", "INCONCLUSIVE", "IMPROVED", "EQUIVALENT")
_UNDECIDED = ("NOT_COMPARABLE", "INCONCLUSIVE")
_NONE = "-"


def comparison_lines(comparison: RunComparison, width: int) -> list[str]:
    """The runs, a table with the worst first, why there is no verdict where there is none, and the count."""
    cases = sorted(comparison.cases, key=_rank)
    lines = [*_run_lines("before", comparison.before, width), *_run_lines("after", comparison.after, width)]
    lines += ["", *_table(cases, width)]
    lines += note_lines(((one.case, (*_reasons(one), *one.notes)) for one in cases), width)
    for run, only in ((comparison.before, comparison.only_before), (comparison.after, comparison.only_after)):
        if only:
            lines += ["", *wrap(f"timed only in {run.file}: {', '.join(only)}", width)]
    if comparison.taken_as_equal:
        told = f"not told by either report, and taken as equal: {', '.join(comparison.taken_as_equal)}"
        lines += ["", *wrap(told, width)]
    return [*lines, "", *wrap(_meaning(comparison), width), "", *wrap(_count(cases), width)]


def _run_lines(which: str, run: ComparedRun, width: int) -> list[str]:
    host = f"{run.runtime or 'no ONNX Runtime'} on {run.os} {run.machine}, {run.cpu}"
    cut = "" if run.finished else "; the run was cut short"
    return wrap(f"{which}: {run.file} ({run.started_at}, {host}{cut})", width)


def _table(cases: Sequence[CaseComparison], width: int) -> list[str]:
    many = len(cases) > 1
    header = (*_HEADER, *(("q",) if many else ()), "outcome")
    return table_lines(header, [_row(one, many=many) for one in cases], width)


def _row(one: CaseComparison, *, many: bool) -> tuple[str, ...]:
    verdict = one.verdict
    interval = verdict.interval
    shown = f"{units.signed_percent(interval[0])} to {units.signed_percent(interval[1])}" if interval else _NONE
    q_value = (_NONE if one.q_value is None else units.percent(one.q_value),) if many else ()
    return (
        one.case.id,
        units.milliseconds(one.before_ms),
        units.milliseconds(one.after_ms),
        _NONE if verdict.effect is None else units.signed_percent(verdict.effect),
        shown,
        *q_value,
        verdict.outcome,
    )


def _reasons(one: CaseComparison) -> tuple[str, ...]:
    if one.verdict.outcome not in _UNDECIDED:
        return ()
    if one.verdict.outcome == "INCONCLUSIVE" and one.verdict.mde is not None:
        able = f"neither a change nor its absence is certain; {units.percent(one.verdict.mde)} could have been found."
        return (able, *one.verdict.reasons)
    return one.verdict.reasons


def _rank(one: CaseComparison) -> tuple[int, float, str]:
    return _WORST_FIRST.index(one.verdict.outcome), -(one.verdict.effect or 0.0), one.case.id


def _meaning(comparison: RunComparison) -> str:
    text = (
        "before and after are the p50 as measured; the change is relative to the canary that ran beside it, "
        f"and {units.percent(comparison.tolerance)} is what matters."
    )
    if len(comparison.cases) > 1:
        text += " q: of all changes with a q up to this one, the share that chance alone would give."
    return text


def _count(cases: Sequence[CaseComparison]) -> str:
    found = Counter(one.verdict.outcome for one in cases)
    return ", ".join(
        f"{found[outcome]} {outcome.lower().replace('_', ' ')}" for outcome in _WORST_FIRST if found[outcome]
    )

"""Two runs held against each other, case by case.

Schema versions of `pytest-winml compare --json`:
1  first: both runs, one entry per case that both have timed, and the cases that only one has.
"""

from __future__ import annotations

from pytest_winml.records.base import Record
from pytest_winml.records.case import CaseRef
from pytest_winml.records.latency import Verdict

COMPARISON_SCHEMA = 1


class ComparedRun(Record, frozen=True, kw_only=True):
    """Which report, and what it stood on. `finished` is false for a run that was killed."""

    file: str
    run_id: str
    started_at: str
    runtime: str | None
    os: str
    machine: str
    cpu: str
    finished: bool


class CaseComparison(Record, frozen=True, kw_only=True):
    """Times are as measured; the verdict's effect is of times relative to the canary's, which need not be their ratio.

    `q_value` belongs to all cases that were compared together. It is None where there is no p-value, or one case only.
    """

    case: CaseRef
    before_ms: float
    after_ms: float
    sessions_before: int
    sessions_after: int
    verdict: Verdict
    q_value: float | None = None
    notes: tuple[str, ...] = ()


class RunComparison(Record, frozen=True, kw_only=True):
    """`taken_as_equal` are fields of the machines that neither report tells."""

    schema_version: int = COMPARISON_SCHEMA
    before: ComparedRun
    after: ComparedRun
    tolerance: float
    cases: tuple[CaseComparison, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    taken_as_equal: tuple[str, ...] = ()

    @property
    def regressed(self) -> bool:
        return any(one.verdict.outcome == "REGRESSED" for one in self.cases)

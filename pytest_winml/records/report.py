"""What a run leaves behind: journal entries as they happen, and the report composed of them.

Schema versions of the journal and of `report.json`:
1  first: environment, one entry per test item with case, availability, placement, artifact, outcome and reasons.
2  timed items: what was measured, with raw samples; comparisons; gates. Traced ones: the traces.
"""

from __future__ import annotations

from typing import Literal

from pytest_winml.records.artifact import Provenance
from pytest_winml.records.base import Record
from pytest_winml.records.build import BuildOutcome
from pytest_winml.records.case import CaseRef
from pytest_winml.records.gate import GateResult
from pytest_winml.records.machine import Availability, Environment
from pytest_winml.records.measurement import Comparison, Measured
from pytest_winml.records.placement import Placement
from pytest_winml.records.trace import OpTrace

SCHEMA_VERSION = 2
Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]


class Failure(Record, frozen=True, kw_only=True):
    """Why a test did not pass: the error's class, its message, and the log's tail where native code was involved."""

    error: str
    message: str
    log_tail: str | None = None


class RunStarted(Record, frozen=True, kw_only=True, tag="run_started", tag_field="entry"):
    schema_version: int = SCHEMA_VERSION
    run_id: str
    started_at: str
    plugin_version: str
    environment: Environment
    settings: dict[str, str | list[str] | float | bool | None]


class ItemFinished(Record, frozen=True, kw_only=True, tag="item_finished", tag_field="entry"):
    """One test item. A failure never carries a number; a skip carries its reason."""

    nodeid: str
    case: CaseRef
    outcome: Outcome
    duration_s: float
    availability: Availability | None = None
    artifact: Provenance | None = None
    artifact_key: str | None = None
    placement: Placement | None = None
    build: BuildOutcome | None = None
    measured: Measured | None = None
    comparisons: tuple[Comparison, ...] = ()
    gates: tuple[GateResult, ...] = ()
    traces: tuple[OpTrace, ...] = ()
    skip_reason: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()


class RunFinished(Record, frozen=True, kw_only=True, tag="run_finished", tag_field="entry"):
    finished_at: str
    exit_status: int
    interrupted: bool


JournalEntry = RunStarted | ItemFinished | RunFinished


class RunReport(Record, frozen=True, kw_only=True):
    """`report.json`. `finished` is None when the run was killed before it could say how it ended."""

    schema_version: int = SCHEMA_VERSION
    started: RunStarted
    items: tuple[ItemFinished, ...]
    finished: RunFinished | None

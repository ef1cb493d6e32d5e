"""Build-only runs: items that build a case and run nothing of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.errors import InfrastructureError, WinmlError, WorkerTimedOut
from pytest_winml.execute.redaction import redact
from pytest_winml.pipeline.policy import policy_for, resolve_precision
from pytest_winml.records.build import BuildOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case

    Build = Callable[[Case], Artifact]


class BuildItem(pytest.Item):
    """Stands in the place of the first test of a case; the test's fixtures are not set up."""

    def __init__(self, *, case: Case, build: Build, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.case = case
        self.outcome: BuildOutcome | None = None
        self._build = build

    def runtest(self) -> None:
        try:
            resolve_precision(self.case.recipe.precision, self.case.target)
        except WinmlError as refusal:
            self.outcome = BuildOutcome(case=self.case.ref, status="skipped", reason=str(refusal))
            pytest.skip(str(refusal))
        try:
            self.outcome = _succeeded(self.case, self._build(self.case))
        except WinmlError as error:
            self.outcome = _failed(self.case, error)
            raise

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """No frames of ours: the error says which model, which stage and what to do."""
        if isinstance(excinfo.value, WinmlError) and not self.config.getoption("fulltrace"):
            return f"{type(excinfo.value).__name__}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


def build_items(items: list[pytest.Item], case_of: Callable[[pytest.Item], Case | None], build: Build) -> None:
    """Replaces tests by one build per case; tests that are not ours are left out."""
    made: dict[str, pytest.Item] = {}
    for item in items:
        case = case_of(item)
        if case is not None and case.id not in made and item.parent is not None:
            built = BuildItem.from_parent(item.parent, name=item.name, case=case, build=build)
            built.own_markers = list(item.own_markers)
            for mark in item.own_markers:
                built.keywords[mark.name] = mark
            made[case.id] = built
    items[:] = list(made.values())


def _succeeded(case: Case, artifact: Artifact) -> BuildOutcome:
    runs = artifact.provenance.runs
    compiles = policy_for(case.target).compiles_by_default and case.recipe.compile is not False
    return BuildOutcome(
        case=case.ref,
        status="reused" if all(run.reused for run in runs) else "built",
        stages=runs,
        stopped_before="compile" if compiles and "compile" not in artifact.provenance.stages else None,
        artifact_key=artifact.key,
        precision=artifact.provenance.precision,
        size_bytes=artifact.provenance.size_bytes,
    )


def _failed(case: Case, error: WinmlError) -> BuildOutcome:
    return BuildOutcome(
        case=case.ref,
        status="timed out" if isinstance(error, WorkerTimedOut) else "failed",
        stage=error.stage,
        error_class=type(error).__name__,
        infrastructure=isinstance(error, InfrastructureError),
        reason=redact(error.message),
    )

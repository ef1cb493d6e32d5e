"""Timing one case: measured beside the canary, compared with another recipe or target, held against a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.data.canary import CANARY, CANARY_RECIPE
from pytest_winml.errors import MeasurementError, UsageProblem, WinmlError
from pytest_winml.measure.comparing import Question, compare_apart, compare_together
from pytest_winml.measure.measuring import measure, measure_alone
from pytest_winml.measure.ordering import Subject
from pytest_winml.measure.sessions import Sessions
from pytest_winml.records.case import Case
from pytest_winml.records.measurement import Comparison, Memory
from pytest_winml.records.target import Target
from pytest_winml.session.tensors import to_message
from pytest_winml.session.timed import can_share_a_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.measure.budget import Allowance, Budget
    from pytest_winml.measure.ordering import TimedDevice
    from pytest_winml.measure.protocols import Protocol
    from pytest_winml.measure.recording import Recordings
    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.latency import Objective, Verdict
    from pytest_winml.records.measurement import Measured
    from pytest_winml.records.recipe import Recipe
    from pytest_winml.records.trace_difference import TraceDifference
    from pytest_winml.runner.case import CaseRunner

    Explain = Callable[[Artifact], TraceDifference]

_SCREEN = "the quick protocol screens: it gives no verdict."


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """What all timed cases of a run share. `recordings` keeps sessions until the run has ended."""

    device: TimedDevice
    protocol: Protocol
    budget: Budget
    recordings: Recordings
    on_progress: Callable[[str], None]
    saves: bool = False


class CaseTimer:
    """What was timed is remembered for the report: `measured`, `comparisons`. `name` tells tests of one case apart."""

    def __init__(self, runner: CaseRunner, stopwatch: Stopwatch, *, name: str, explain: Explain | None = None) -> None:
        self._name = name
        self._explain = explain
        self._explained: dict[str, TraceDifference | str] = {}
        self._runner = runner
        self._stopwatch = stopwatch
        self.measured: Measured | None = None
        self.comparisons: list[Comparison] = []

    @property
    def case(self) -> Case:
        return self._runner.case

    @property
    def protocol(self) -> Protocol:
        return self._stopwatch.protocol

    @cached_property
    def _allowance(self) -> Allowance:
        return self._stopwatch.budget.allow()

    @cached_property
    def subject(self) -> Subject:
        return self._subject_of(self._runner)

    @cached_property
    def canary(self) -> Subject:
        return self._canary_on(self.subject.target)

    def measure(self, sessions: int | None = None) -> Measured:
        """Measured once; a call that asks for more sessions than there are measures again."""
        usual = self.protocol.saved_sessions if self._stopwatch.saves else self.protocol.sessions
        count = max(sessions or 0, usual)
        if self.measured is None or len(self.measured.sessions) < count:
            self._require_time()
            run = self._sessions("measure", self.subject, self.canary)
            self.measured = measure(self.subject, self.canary, self.protocol, count, run)
        return self.measured

    def memory(self) -> Memory:
        """Of the file, and of a process that holds nothing else; on an emulator only the file's says anything."""
        if self.measured is not None:
            return self.measured.memory
        if self._runner.check_target().mode == "emulated":
            return Memory(artifact_bytes=self._runner.artifact().provenance.size_bytes)
        return measure_alone(self.subject, self._sessions("memory", self.subject))[1]

    def compare(
        self, recipe: Recipe | None, target: Target | None, *, objective: Objective, tolerance: float
    ) -> Verdict:
        """This case, the candidate, against another recipe or target of the same model, the baseline."""
        if recipe is None and target is None:
            raise UsageProblem("compare() needs something to compare with", remedy="give recipe= or target=.")
        other = Case(
            model=self.case.model, recipe=recipe or self.case.recipe, target=target or self._runner.resolved_target()
        )
        baseline = self._subject_of(self._runner.beside(other))
        question = Question(tolerance=tolerance, objective=objective, most_sessions=self.protocol.most_sessions)
        return self.judge(baseline, question, against=other.id)

    def explain(self, recipe: Recipe) -> TraceDifference:
        """Traces of this case and of another recipe, set against each other."""
        if self._explain is None:
            raise UsageProblem(f"{self.case.id} is not traced here")
        other = Case(model=self.case.model, recipe=recipe, target=self._runner.resolved_target())
        return self._explain(self._runner.beside(other).artifact())

    def judge(self, baseline: Subject, question: Question, *, against: str, purpose: str = "compare") -> Verdict:
        """The candidate against a file that is there, in one process where that can be."""
        self._require_time()
        spent = self._allowance.spent_s
        run = self._sessions(f"{purpose} {question.objective}", self.subject, baseline)
        if can_share_a_process((baseline.target, self.subject.target), self._runner.provider_settings):
            verdict = compare_together(baseline, self.subject, self.canary, question, run)
        else:
            canary = self._canary_on(Target("cpu"))
            verdict = compare_apart(baseline, self.subject, canary, question, run)
        if not self.protocol.judges:
            verdict = msgspec.structs.replace(verdict, outcome="INCONCLUSIVE", reasons=(_SCREEN, *verdict.reasons))
        self.comparisons.append(
            Comparison(
                against=against,
                verdict=verdict,
                device_s=self._allowance.spent_s - spent,
                **(self._why(baseline) if verdict.outcome == "REGRESSED" else {}),
            )
        )
        return verdict

    def _why(self, baseline: Subject) -> dict[str, Any]:
        """Traces of both, in windows of their own; that they cannot be had never hides the verdict."""
        if self._explain is None or baseline.artifact is None or baseline.target != self.subject.target:
            return {}
        if baseline.key not in self._explained:
            try:
                self._explained[baseline.key] = self._explain(baseline.artifact)
            except WinmlError as error:
                self._explained[baseline.key] = error.message
        found = self._explained[baseline.key]
        return {"unexplained": found} if isinstance(found, str) else {"explained": found}

    def subject_at(self, artifact: Artifact, label: str) -> Subject:
        """Another file on this case's target, with the inputs that it has in common with this case's."""
        return _subject(label, artifact, self.subject.target, self._runner)

    def _subject_of(self, runner: CaseRunner) -> Subject:
        runner.placement()  # before anything is timed: a graph that is not on its target says so here
        return _subject(runner.case.id, runner.artifact(), runner.resolved_target(), runner)

    def _canary_on(self, target: Target) -> Subject:
        return self._subject_of(self._runner.beside(Case(model=CANARY, recipe=CANARY_RECIPE, target=target)))

    def _require_time(self) -> None:
        answer = self._runner.check_target()
        if answer.mode == "emulated":
            raise MeasurementError(
                f"{self.case.target.spec} is emulated here: an emulated run can never produce a latency",
                remedy="time it on a machine that has the device.",
            )

    def _sessions(self, purpose: str, *subjects: Subject) -> Sessions:
        keys = "+".join(subject.key for subject in subjects)
        what = f"{self._name} {self.case.id} {purpose} {keys} {self.protocol.name}"
        recording = self._stopwatch.recordings.recording(what)

        def progress(session: str) -> None:
            self._stopwatch.on_progress(f"timing {self.case.id}: {purpose}, {session}")

        return Sessions(self._stopwatch.device, recording, self._allowance, progress)


def _subject(label: str, artifact: Artifact, target: Target, runner: CaseRunner) -> Subject:
    feeds = runner.feeds_for(artifact)
    return Subject(
        label=label,
        key=artifact.key,
        path=str(artifact.path),
        target=target,
        feeds={name: to_message(name, array) for name, array in feeds.items()},
        size_bytes=artifact.provenance.size_bytes,
        artifact=artifact,
    )

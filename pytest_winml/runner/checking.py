"""A timed case against its gates: which baseline there is, whether it may be compared with, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_winml.measure.baselines import Found, NotComparable
from pytest_winml.measure.comparing import Question
from pytest_winml.measure.gating import OBJECTIVES, by_bytes, by_time, by_verdict, not_judged
from pytest_winml.measure.stored import against_stored
from pytest_winml.records.baseline import Baseline, BaselineArtifact, BaselineSession, MemoryFigures
from pytest_winml.records.latency import Verdict
from pytest_winml.stats.families import confirmed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.measure.baselines import BaselineStore, Lookup
    from pytest_winml.measure.ordering import Subject
    from pytest_winml.records.gate import Gate, GateResult, Limit
    from pytest_winml.records.identity import MachineIdentity
    from pytest_winml.runner.case import CaseRunner
    from pytest_winml.runner.timing import CaseTimer

_STORED_SESSIONS = 8


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Where baselines are, which one counts in this run, and whether a red is confirmed: where many can be red."""

    store: BaselineStore
    name: str | None
    ignore: tuple[str, ...]
    confirm: bool
    saving: str | None = None


class Gatekeeper:
    def __init__(
        self, runner: CaseRunner, timer: CaseTimer, baselines: Baselines, identity: Callable[[], MachineIdentity]
    ) -> None:
        self._runner = runner
        self._timer = timer
        self._baselines = baselines
        self._identity = identity
        self.results: tuple[GateResult, ...] = ()
        self.notes: tuple[str, ...] = ()

    def check(self, gate: Gate) -> tuple[GateResult, ...]:
        """Every limit is judged, also after one has failed."""
        self._timer.measure()
        found = self._lookup() if any(limit.relative is not None for limit in gate.limits) else None
        self.results = tuple(self._judge(limit, found) for limit in gate.limits)
        return self.results

    def save(self, name: str) -> str:
        """What was measured becomes a baseline; answers with its place in the store."""
        measured = self._timer.measure()
        artifact = self._runner.artifact()
        return self._baselines.store.save(
            Baseline(
                name=name,
                created_at=datetime.now(UTC).isoformat(),
                case=self._runner.case.ref,
                artifact=BaselineArtifact(
                    key=self._runner.keep() or "",
                    sha256=artifact.provenance.sha256,
                    size_bytes=artifact.provenance.size_bytes,
                ),
                machine=self._identity(),
                protocol=measured.protocol,
                canary=measured.canary_key,
                memory=MemoryFigures(load_bytes=measured.memory.load_bytes, peak_bytes=measured.memory.peak_bytes),
                sessions=tuple(BaselineSession(blocks=blocks) for blocks in measured.sessions),
            )
        )

    def _lookup(self) -> Lookup | None:
        if self._baselines.name is None:
            return None
        found = self._baselines.store.lookup(
            self._baselines.name, self._runner.case.id, self._identity(), self._baselines.ignore
        )
        self.notes = found.notes
        return found

    def _judge(self, limit: Limit, found: Lookup | None) -> GateResult:
        measured = self._timer.measure()
        if not self._timer.protocol.judges:
            return not_judged(limit, f"the {measured.protocol} protocol screens and never gates")
        baseline = found.baseline if isinstance(found, Found) else None
        if limit.metric in ("size", "memory"):
            if limit.relative is not None and baseline is None:
                return by_verdict(limit, self._why_none(found), str(self._baselines.name))
            size = limit.metric == "size"
            now = measured.memory.artifact_bytes if size else measured.memory.peak_bytes
            before = None if baseline is None else baseline.artifact.size_bytes if size else baseline.memory.peak_bytes
            return by_bytes(limit, now, before)
        if limit.absolute is not None:
            return by_time(limit, measured)
        if not isinstance(found, Found):
            return by_verdict(limit, self._why_none(found), str(self._baselines.name))
        return by_verdict(limit, self._compare(limit, found), f"baseline {self._baselines.name}")

    def _why_none(self, found: Lookup | None) -> Verdict:
        name = self._baselines.name
        if name is None:
            reason = "no baseline was named: run with --winml-save=NAME once, then with --winml-baseline=NAME."
            if saving := self._baselines.saving:
                reason = f"this run makes it: run with --winml-baseline={saving} next time."
            return Verdict(outcome="NO_BASELINE", reasons=(reason,))
        if isinstance(found, NotComparable):
            fields = "; ".join(map(str, found.differences))
            return Verdict(
                outcome="NOT_COMPARABLE", reasons=(f"baseline {name} is of another machine or setup ({fields}).",)
            )
        reason = f"baseline {name} has nothing of this case: run with --winml-save={name} to make it."
        return Verdict(outcome="NO_BASELINE", reasons=(reason,))

    def _compare(self, limit: Limit, found: Found) -> Verdict:
        baseline = found.baseline
        question = Question(
            tolerance=limit.relative or 0.0,
            alternative="slower",
            objective=OBJECTIVES[limit.metric],
            most_sessions=self._timer.protocol.most_sessions,
        )
        if baseline.artifact.sha256 == self._runner.artifact().provenance.sha256:
            return _the_same(question)
        subject = self._again(baseline)
        if subject is None:
            return against_stored(baseline, self._timer.measure(_STORED_SESSIONS), question)
        against = f"baseline {self._baselines.name} (re-measured)"
        verdict = self._timer.judge(subject, question, against=against, purpose="gate")
        if verdict.outcome == "REGRESSED" and self._baselines.confirm:
            again = self._timer.judge(subject, question, against=against, purpose="confirm")
            verdict = confirmed(verdict, again)
        return verdict

    def _again(self, baseline: Baseline) -> Subject | None:
        """The baseline's own file, if the store still has it."""
        artifact = self._runner.kept(baseline.artifact.key) if baseline.artifact.key else None
        return self._timer.subject_at(artifact, f"baseline {baseline.name}") if artifact is not None else None


def _the_same(question: Question) -> Verdict:
    return Verdict(
        outcome="EQUIVALENT",
        effect=0.0,
        objective=question.objective,
        reasons=("the artifact is the baseline's, byte for byte, on the same machine and versions.",),
    )

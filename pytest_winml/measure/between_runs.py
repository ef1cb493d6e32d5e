"""Two runs' reports, case by case: their sessions compared as figures of two days are, relative to the canary."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.errors import InvalidSamples, UsageProblem
from pytest_winml.measure.comparing import Question
from pytest_winml.measure.protocols import PROTOCOLS
from pytest_winml.measure.stored import compare_sessions
from pytest_winml.records.comparison import CaseComparison, ComparedRun, RunComparison
from pytest_winml.records.identity import MachineIdentity, differences, unknown_to_both
from pytest_winml.records.latency import Latency, Samples, Verdict
from pytest_winml.records.measurement import CANARY, TARGET
from pytest_winml.records.target import Target
from pytest_winml.stats.families import q_values
from pytest_winml.stats.stored import FEWEST_SESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_winml.records.case import CaseRef
    from pytest_winml.records.identity import FieldDifference
    from pytest_winml.records.latency import Block
    from pytest_winml.records.machine import Environment
    from pytest_winml.records.report import ItemFinished, RunReport

_FEW = (
    f"a verdict needs {FEWEST_SESSIONS} sessions in either run: "
    f"--winml-protocol=rigorous takes {PROTOCOLS['rigorous'].sessions} of each case."
)


@dataclass(frozen=True, kw_only=True)
class _Timed:
    """One case in one report: the sessions of all tests that timed it."""

    case: CaseRef
    sessions: tuple[tuple[Block, ...], ...]
    canaries: frozenset[str]
    artifacts: frozenset[str]
    protocols: frozenset[str]
    machine: MachineIdentity
    p50_ms: float


def compare_runs(
    before: tuple[str, RunReport], after: tuple[str, RunReport], *, tolerance: float, ignore: Iterable[str] = ()
) -> RunComparison:
    """Both as (file, report). Raises `UsageProblem` where there is no case to compare at all."""
    old, new = _timed(*before), _timed(*after)
    common = [case for case in old if case in new]
    if not common:
        raise UsageProblem(
            f"{before[0]} and {after[0]} have no timed case in common",
            remedy=f"they time {', '.join(old)} and {', '.join(new)}.",
        )
    question = Question(tolerance=tolerance)
    cases = [_compare(old[case], new[case], question, tuple(ignore)) for case in common]
    unknown = [unknown_to_both(old[case].machine, new[case].machine) for case in common]
    return RunComparison(
        before=_run(*before),
        after=_run(*after),
        tolerance=tolerance,
        cases=_with_q_values(cases),
        only_before=tuple(case for case in old if case not in new),
        only_after=tuple(case for case in new if case not in old),
        taken_as_equal=tuple(dict.fromkeys(name for names in unknown for name in names)),
    )


def _compare(old: _Timed, new: _Timed, question: Question, ignore: tuple[str, ...]) -> CaseComparison:
    found = differences(old.machine, new.machine, ignore)
    verdict = _verdict(old, new, question, found)
    return CaseComparison(
        case=new.case,
        before_ms=old.p50_ms,
        after_ms=new.p50_ms,
        sessions_before=len(old.sessions),
        sessions_after=len(new.sessions),
        verdict=verdict,
        notes=tuple(_notes(old, new, verdict, found)),
    )


def _verdict(old: _Timed, new: _Timed, question: Question, found: Sequence[FieldDifference]) -> Verdict:
    fields = "; ".join(str(one) for one in found if one.forbids_comparing)
    if fields:
        reason = f"the runs are of different machines or setups ({fields})."
        return Verdict(outcome="NOT_COMPARABLE", route="stored", reasons=(reason,))
    if len(old.canaries | new.canaries) > 1:
        return Verdict(
            outcome="NOT_COMPARABLE", route="stored", reasons=("the runs' times are relative to different canaries.",)
        )
    verdict = compare_sessions(old.sessions, new.sessions, question)
    screens = sorted(name for name in old.protocols | new.protocols if not PROTOCOLS[name].judges)
    if screens:
        reason = f"the {screens[0]} protocol screens: it gives no verdict."
        return msgspec.structs.replace(verdict, outcome="INCONCLUSIVE", reasons=(reason, *verdict.reasons))
    return verdict


def _notes(old: _Timed, new: _Timed, verdict: Verdict, found: Sequence[FieldDifference]) -> Iterable[str]:
    yield from (f"compared all the same: {one}" for one in found if one.ignored)
    if verdict.outcome == "INCONCLUSIVE" and min(len(old.sessions), len(new.sessions)) < FEWEST_SESSIONS:
        yield _FEW
    if verdict.outcome in ("REGRESSED", "IMPROVED"):
        yield from (f"differs as well: {one}" for one in found if one.kind == "context")
        if old.artifacts == new.artifacts:
            yield "both runs timed the same artifact: what changed is not the model."


def _with_q_values(cases: Sequence[CaseComparison]) -> tuple[CaseComparison, ...]:
    """The p-value is of the side that the change lies on; chosen after looking, it counts twice."""
    tested = [(place, one.verdict.p_value) for place, one in enumerate(cases) if one.verdict.p_value is not None]
    if len(cases) == 1:
        return tuple(cases)
    found = dict(
        zip((place for place, _ in tested), q_values([min(1.0, 2 * p_value) for _, p_value in tested]), strict=True)
    )
    return tuple(msgspec.structs.replace(one, q_value=found.get(place)) for place, one in enumerate(cases))


def _timed(file: str, report: RunReport) -> dict[str, _Timed]:
    """By id of the case."""
    items: dict[str, list[ItemFinished]] = defaultdict(list)
    for item in report.items:
        if item.measured is not None:
            items[item.case.id].append(item)
    if not items:
        raise UsageProblem(
            f"{file} times nothing", remedy="name the report of a run with tests that take winml_latency."
        )
    return {case: _pooled(file, of_case, report.started.environment) for case, of_case in items.items()}


def _pooled(file: str, items: Sequence[ItemFinished], host: Environment) -> _Timed:
    measured = [item.measured for item in items if item.measured is not None]
    sessions = tuple(blocks for one in measured for blocks in one.sessions)
    try:
        times = [(_samples(blocks, TARGET), _samples(blocks, CANARY)) for blocks in sessions]
        p50_ms = Latency(sessions=tuple(target for target, _ in times)).p50_ms
    except InvalidSamples as error:
        raise UsageProblem(f"{file} is damaged: {items[0].case.id}: {error}") from error
    return _Timed(
        case=items[0].case,
        sessions=sessions,
        canaries=frozenset(one.canary_key for one in measured),
        artifacts=frozenset(one.artifact_key for one in measured),
        protocols=frozenset(one.protocol for one in measured),
        machine=_machine(items[0], host),
        p50_ms=p50_ms,
    )


def _samples(blocks: Sequence[Block], arm: str) -> Samples:
    strangers = sorted({block.arm for block in blocks} - {TARGET, CANARY})
    if strangers:
        raise InvalidSamples(f"a session has times of {strangers[0]!r}")
    for block in blocks:
        Samples(times_ns=block.times_ns)
    return Samples(times_ns=tuple(time for block in blocks if block.arm == arm for time in block.times_ns))


def _machine(item: ItemFinished, host: Environment) -> MachineIdentity:
    """What a report tells of the machine as this case's target saw it."""
    answer = item.availability
    target = Target(answer.resolved) if answer and answer.resolved else item.case.target
    package, _, version = (host.runtime or "").rpartition(" ")
    return MachineIdentity(
        cpu=host.cpu or None,
        soc=answer.soc if answer else None,
        architecture=host.machine or None,
        logical_cpus=host.logical_cpus,
        device=target.device,
        mode="emulated" if answer and answer.mode == "emulated" else "native",
        ep=target.ep,
        ep_version=answer.ep_version if answer else None,
        runtime_package=package or None,
        runtime_version=version or None,
        os_build=f"{host.os} {host.os_version}",
        power_mode=host.power.mode,
        power_source=host.power.source,
        python=host.python,
        memory_bytes=host.memory_bytes,
    )


def _run(file: str, report: RunReport) -> ComparedRun:
    host = report.started.environment
    return ComparedRun(
        file=file,
        run_id=report.started.run_id,
        started_at=report.started.started_at,
        runtime=host.runtime,
        os=host.os,
        machine=host.machine,
        cpu=host.cpu,
        finished=report.finished is not None,
    )
